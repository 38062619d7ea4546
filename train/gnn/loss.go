package gnn

import (
	"math"

	"gorgonia.org/gorgonia"

	"diskgnn/graph"
	"diskgnn/internal/kernel"
)

// crossEntropy is the mean over the labelled seed nodes of the softmax
// cross-entropy, in nats. It computes its gradient on the way: (softmax − one-hot)
// over the number of labelled seed nodes; a node without a label has none.
type crossEntropy struct {
	node
	last    *layer // whose bias the gradient's columns are summed for
	grad    []float32
	rowLoss []float64
	correct []int // by chunk of rows

	value  *gorgonia.F32
	logits []float32
	labels []int32
	inv    float32

	sum Result
}

func newCrossEntropy(n *network, last *layer) *crossEntropy {
	rows := n.rows(last.index)
	return &crossEntropy{node: n.node("crossEntropy", 1, nil), last: last, value: gorgonia.NewF32(0),
		grad: n.floats(rows * last.outDim), rowLoss: make([]float64, rows), correct: make([]int, divUp(rows, chunkRows))}
}

func (o *crossEntropy) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	p := o.net.in.Prepared
	o.logits, o.labels, o.inv = floats(v[0]), p.batch.Labels, 0
	if p.labelled > 0 {
		o.inv = 1 / float32(p.labelled)
	}
	if err := o.net.each(len(o.labels), chunkRows, o); err != nil {
		return nil, err
	}
	o.sum = Result{Count: p.labelled}
	for i := range o.labels {
		o.sum.Loss += o.rowLoss[i]
	}
	for c := range divUp(len(o.labels), chunkRows) {
		o.sum.Correct += o.correct[c]
	}
	if p.labelled > 0 {
		o.sum.Loss /= float64(p.labelled)
	}
	*o.value = gorgonia.F32(o.sum.Loss)
	return o.value, nil
}

func (o *crossEntropy) chunk(_, lo, hi int) {
	classes := o.last.outDim
	sums := o.last.biasSums[lo/chunkRows*classes:][:classes]
	clear(sums)
	correct := 0
	for i := lo; i < hi; i++ {
		z, g := o.logits[i*classes:(i+1)*classes], o.grad[i*classes:(i+1)*classes]
		o.rowLoss[i] = 0
		if o.labels[i] == graph.Unlabelled {
			clear(g)
			continue
		}
		y := int(o.labels[i])
		best := argmax(z)
		if best == y {
			correct++
		}
		o.rowLoss[i] = softmax(g, z, z[best], y)
		for c := range g {
			g[c] *= o.inv
		}
		kernel.Add(sums, g)
	}
	o.correct[lo/chunkRows] = correct
}

// argmax returns the first of the largest.
func argmax(z []float32) int {
	best := 0
	for c, v := range z {
		if v > z[best] {
			best = c
		}
	}
	return best
}

// softmax stores softmax(z) − one-hot(y) in g and returns −log softmax(z)[y]. top is
// the largest of z.
func softmax(g, z []float32, top float32, y int) float64 {
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
	g[y]--
	return math.Log(sum) - float64(z[y]-top)
}

func (o *crossEntropy) DiffWRT(int) []bool { return []bool{true} }

func (o *crossEntropy) SymDiff(inputs gorgonia.Nodes, cost, upstream *gorgonia.Node) (gorgonia.Nodes, error) {
	rows, classes := len(o.rowLoss), o.last.outDim
	d, err := gorgonia.ApplyOp(&lossGradient{o.net.node("crossEntropyGrad", 2, o.grad, rows, classes)}, cost, upstream)
	return gorgonia.Nodes{d}, err
}

// lossGradient hands on the gradient that the loss has computed. Its operands only
// order it after the loss: the gradient of the cost itself is one.
type lossGradient struct{ node }

func (o *lossGradient) Do(...gorgonia.Value) (gorgonia.Value, error) { return o.out, nil }
