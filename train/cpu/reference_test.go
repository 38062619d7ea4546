package cpu

import (
	"math"

	"diskgnn/graph"
	"diskgnn/train/model"
)

// reference is the model written out in float64, a node at a time.
type reference struct {
	m         *model.Model
	described []model.Param
	params    [][]float64 // in the order of model.Params
	// factors holds, per hidden layer (the input projection's last), the factor of every
	// unit: 0 dropped, 1/(1−p) kept; nil stands for ones.
	factors  [][]float64
	training bool // batch norms take the batch's statistics
	// steepness is the product, over the norms so far, of the largest factor that each
	// multiplied its input by, and with it the rounding before it.
	steepness float64
	smooth    float64
	binary    bool // the loss
}

func newReference(e *Engine) *reference {
	r := &reference{m: e.plan.model, described: e.plan.Params, smooth: e.opts.LabelSmoothing, binary: e.opts.Loss == string(model.Binary)}
	for _, p := range e.Values() {
		r.params = append(r.params, widen(p.Data))
	}
	return r
}

// param returns a parameter, zeros if the layer has none in this role.
func (r *reference) param(layer int, role model.Role, size int) []float64 {
	for i, p := range r.described {
		if p.Layer == layer && p.Role == role {
			return r.params[i]
		}
	}
	return make([]float64, size)
}

func (r *reference) logits(b *graph.Batch, x []float64) []float64 {
	if out := r.m.InputProjection; out > 0 {
		in := r.m.Features()
		w, bias := r.param(model.InputLayer, model.Self, 0), r.param(model.InputLayer, model.Bias, 0)
		z := make([]float64, b.Blocks[0].NumSrc*out)
		for i := range b.Blocks[0].NumSrc {
			linearMap(z[i*out:(i+1)*out], x[i*in:(i+1)*in], w)
			for c := range out {
				z[i*out+c] = max(0, z[i*out+c]+bias[c]) * r.factor(r.m.Layers()-1, i*out+c)
			}
		}
		x = z
	}
	for l := range b.Blocks {
		x = r.layer(b, l, x)
	}
	return x
}

func (r *reference) factor(layer, unit int) float64 {
	if r.factors == nil {
		return 1
	}
	return r.factors[layer][unit]
}

// linearMap adds x·w to z.
func linearMap(z, x, w []float64) {
	for c := range z {
		for k := range x {
			z[c] += x[k] * w[k*len(z)+c]
		}
	}
}

func (r *reference) layer(b *graph.Batch, l int, x []float64) []float64 {
	blk, in, out := &b.Blocks[l], r.m.In(l), r.m.Out(l)
	z := make([]float64, blk.NumDst*out)
	for i := range blk.NumDst {
		row, own := z[i*out:(i+1)*out], x[blk.DstPos(i)*in:][:in]
		linearMap(row, r.aggregate(b, l, i, x), r.param(l, model.Neighbour, in*out))
		linearMap(row, own, r.param(l, model.Self, in*out))
		linearMap(row, own, r.param(l, model.ResidualWeight, in*out))
		for c := range row {
			row[c] += r.param(l, model.Bias, out)[c] + r.param(l, model.ResidualBias, out)[c]
		}
	}
	if l == r.m.Layers()-1 {
		return z
	}
	r.normalise(l, z)
	for i := range z {
		if r.m.Activation == model.ELU {
			if z[i] < 0 {
				z[i] = math.Expm1(z[i])
			}
		} else {
			z[i] = max(0, z[i])
		}
		z[i] *= r.factor(l, i)
	}
	return z
}

// aggregate returns what destination i of block l takes of its neighbours, and GCN of
// itself, edge by edge.
func (r *reference) aggregate(b *graph.Batch, l, i int, x []float64) []float64 {
	blk, in := &b.Blocks[l], r.m.In(l)
	edges := blk.Indices[blk.Indptr[i]:blk.Indptr[i+1]]
	a := make([]float64, in)
	add := func(s int, w float64) {
		for k := range a {
			a[k] += w * x[s*in+k]
		}
	}
	switch {
	case r.m.Kind == model.GCN:
		for _, s := range edges {
			add(int(s), r.gcnWeight(b, l, int(s), i, false))
		}
		add(blk.DstPos(i), r.gcnWeight(b, l, blk.DstPos(i), i, true))
	case r.m.Aggregator == model.Max:
		for k := range a {
			for n, s := range edges {
				if v := x[int(s)*in+k]; n == 0 || v > a[k] {
					a[k] = v
				}
			}
		}
	default:
		w := 1.0
		if r.m.Aggregator != model.Sum {
			w /= float64(max(1, len(edges)))
		}
		for _, s := range edges {
			add(int(s), w)
		}
	}
	return a
}

// gcnWeight follows the definitions, with degrees looked up or counted edge by edge.
func (r *reference) gcnWeight(b *graph.Batch, l, s, i int, loop bool) float64 {
	blk := &b.Blocks[l]
	sampled := float64(blk.Indptr[i+1] - blk.Indptr[i])
	if r.m.GCNNorm == model.BlockNorm {
		out := 0.0
		for _, t := range blk.Indices {
			if int(t) == s {
				out++
			}
		}
		for k := range blk.NumDst {
			if blk.DstPos(k) == s {
				out++
			}
		}
		return 1 / math.Sqrt(out*(sampled+1))
	}
	degree := func(s int) float64 {
		for k := l - 1; k >= 0; k-- {
			s = b.Blocks[k].DstPos(s)
		}
		return float64(b.Degree[s])
	}
	w := 1 / math.Sqrt((degree(s)+1)*(degree(blk.DstPos(i))+1))
	if !loop {
		w *= degree(blk.DstPos(i)) / sampled
	}
	return w
}

func (r *reference) normalise(l int, z []float64) {
	if !r.m.HasNorm(l) {
		return
	}
	d := r.m.Out(l)
	rows := len(z) / d
	steepest := 1.0
	defer func() { r.steepness *= steepest }()
	standardise := func(n int, at func(i int) *float64) {
		mean, variance := 0.0, 0.0
		for i := range n {
			mean += *at(i) / float64(n)
		}
		for i := range n {
			variance += (*at(i) - mean) * (*at(i) - mean) / float64(n)
		}
		for i := range n {
			*at(i) = (*at(i) - mean) / math.Sqrt(variance+1e-5)
			steepest = max(steepest, 1/math.Sqrt(variance+1e-5))
		}
	}
	switch {
	case r.m.Norm == model.LayerNorm:
		for i := range rows {
			standardise(d, func(c int) *float64 { return &z[i*d+c] })
		}
	case r.training:
		for c := range d {
			standardise(rows, func(i int) *float64 { return &z[i*d+c] })
		}
	default:
		mean, variance := r.param(l, model.RunningMean, d), r.param(l, model.RunningVar, d)
		for i := range z {
			z[i] = (z[i] - mean[i%d]) / math.Sqrt(variance[i%d]+1e-5)
		}
	}
	scale, shift := r.param(l, model.NormScale, d), r.param(l, model.NormShift, d)
	for i := range z {
		z[i] = z[i]*scale[i%d] + shift[i%d]
	}
}

func (r *reference) loss(b *graph.Batch, x []float64) float64 {
	z, classes := r.logits(b, x), r.m.Classes()
	loss, terms := 0.0, 0
	for i, y := range b.Labels {
		if y == graph.Unlabelled {
			continue
		}
		row := z[i*classes : (i+1)*classes]
		if r.binary {
			terms += classes
			for c, v := range row {
				p := 1 / (1 + math.Exp(-v))
				yes := c == int(y)
				if b.Targets != nil {
					yes = b.Targets[i*((classes+7)/8)+c/8]>>(c%8)&1 == 1
				}
				if yes {
					loss -= math.Log(p)
				} else {
					loss -= math.Log(1 - p)
				}
			}
			continue
		}
		terms++
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(v)
		}
		for c, v := range row {
			target := r.smooth / float64(classes)
			if c == int(y) {
				target += 1 - r.smooth
			}
			loss += target * (math.Log(sum) - v)
		}
	}
	return loss / float64(max(1, terms))
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
