package cpu

import (
	"math"

	"gorgonia.org/gorgonia"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/score"
)

// lossOptions describe a training network's loss.
type lossOptions struct {
	kind      model.Loss
	smoothing float64 // share of a label that is spread over all classes
	sums      bool    // the loss is the sum of the rows' losses, not their mean
}

func lossOf(o *engine.Config) *lossOptions {
	return &lossOptions{model.Loss(o.Loss), o.LabelSmoothing, o.Sums()}
}

// loss computes the loss of the logits together with its gradient.
type loss struct {
	node
	lossOptions
	net     *network
	last    *layer
	grad    []float32
	rowLoss []float64
	correct []int // by chunk of rows

	value *gorgonia.F32
	inv   float32 // that gradients are multiplied by

	sum result
}

// newLoss makes the loss of the last layer's output.
func newLoss(last *layer, l *lossOptions) *loss {
	n := last.net
	return &loss{lossOptions: *l, net: n, last: last, value: gorgonia.NewF32(0),
		grad: n.floats(last.rows * last.width), rowLoss: n.doubles(last.rows), correct: device.Take[int](n.Arena, divUp(last.rows, chunkRows))}
}

func (o *loss) Do(...gorgonia.Value) (gorgonia.Value, error) {
	p := o.net.in.Prepared
	terms := o.kind.Terms(int64(p.Labelled), o.last.width)
	if o.inv = engine.Inverse(terms); o.sums && terms > 0 {
		o.inv = 1
	}
	seeds := p.Batch().NumSeeds()
	if err := o.net.each(seeds, chunkRows, o); err != nil {
		return nil, err
	}
	o.sum = result{Count: p.Labelled}
	for _, v := range o.rowLoss[:seeds] {
		o.sum.Loss += v
	}
	for _, n := range o.correct[:divUp(seeds, chunkRows)] {
		o.sum.Correct += n
	}
	if terms > 0 {
		o.sum.Loss /= float64(terms)
	}
	*o.value = gorgonia.F32(o.sum.Loss)
	return o.value, nil
}

func (o *loss) chunk(_, lo, hi int) {
	classes, in := o.last.width, o.net.in
	correct := 0
	for i := lo; i < hi; i++ {
		z, g := o.last.data[i*classes:(i+1)*classes], o.grad[i*classes:(i+1)*classes]
		y, right := in.Batch().Labels[i], false
		switch {
		case y == graph.Unlabelled:
			clear(g)
			o.rowLoss[i] = 0
			continue
		case o.kind == model.Binary:
			o.rowLoss[i], right = logistic(g, z, int(y), targetsOf(in.Batch(), i, classes))
		default:
			best := score.Largest(z)
			o.rowLoss[i], right = softmax(g, z, z[best], int(y), o.smoothing), best == int(y)
		}
		if right {
			correct++
		}
		for c := range g {
			g[c] *= o.inv
		}
	}
	o.correct[lo/chunkRows] = correct
	o.last.tail.backward(o.grad, lo, hi)
}

// softmax stores softmax(z) − target in g and returns −Σ target · log softmax(z). The target is one
// at y, less the smoothing, which is spread over all classes. top is the largest of z.
func softmax(g, z []float32, top float32, y int, smoothing float64) float64 {
	sum := 0.0
	for c, v := range z {
		e := math.Exp(float64(v - top))
		g[c] = float32(e)
		sum += e
	}
	inv := float32(1 / sum)
	for c := range g {
		g[c] *= inv
	}
	l := math.Log(sum) - float64(z[y]-top)
	if smoothing == 0 {
		g[y]--
		return l
	}
	g[y] -= float32(1 - smoothing)
	mean, share := 0.0, float32(smoothing/float64(len(z)))
	for c, v := range z {
		g[c] -= share
		mean += float64(v)
	}
	return l + smoothing*(float64(z[y])-mean/float64(len(z)))
}

// targetsOf returns the bits of a seed node's classes, nil if the node has only the class of its
// label.
func targetsOf(b *graph.Batch, i, classes int) []byte {
	if len(b.Targets) == 0 {
		return nil
	}
	row := graph.TargetBytes(classes)
	return b.Targets[i*row : (i+1)*row]
}

// logistic stores sigmoid(z) − target in g and returns the sum of the classes' losses, and whether
// the signs of all logits are right. The targets are bits or, without them, the class y.
func logistic(g, z []float32, y int, targets []byte) (sum float64, right bool) {
	right = true
	for c, v := range z {
		x, target := float64(v), c == y
		if targets != nil {
			target = graph.HasClass(targets, c)
		}
		e := math.Exp(-math.Abs(x))
		p := 1 / (1 + e) // of the larger side
		if x < 0 {
			p = e / (1 + e)
		}
		// log(1 + exp(−x)), or with −x for x.
		l := max(-x, 0) + math.Log1p(e)
		if !target {
			l += x
		} else {
			p--
		}
		g[c] = float32(p)
		sum += l
		right = right && target == (v > 0)
	}
	return sum, right
}

func (o *loss) DiffWRT(int) []bool { return []bool{true} }

// SymDiff returns the gradient that the loss has computed: the gradient of the cost is one.
func (o *loss) SymDiff(_ gorgonia.Nodes, cost, upstream *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := gorgonia.ApplyOp(&computed{o.net.node("lossGradient", 2, o.grad, o.last.rows, o.last.width)}, cost, upstream)
	return gorgonia.Nodes{d}, err
}
