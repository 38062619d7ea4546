package gpu

import (
	"math"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// pullProjection is the input projection: it has no sums over neighbours.
type pullProjection struct{ *Tile }

func (p *pullProjection) lay(*TileSizes) {
	p.matrix = p.floats(p.In * p.Out)
	p.Row, p.Maps = p.Out, true
}

func (p *pullProjection) prepare(weights []float32) []float32 {
	lo, hi := p.net.layout.Span(model.InputLayer, model.Self, model.Self)
	return weights[lo:hi]
}

func (p *pullProjection) begin(*Span, cuda.Buffer)      {}
func (p *pullProjection) pull(cuda.Buffer, cuda.Buffer) {}

func (p *pullProjection) sums(_, n int, x cuda.Buffer) {
	p.product(n, x, p.In, p.In, p.matrix, p.Out, 0, p.layer.data, p.Out)
}

// pullLinear is a linear convolution; see linear.
type pullLinear struct {
	*Tile
	multiply, max bool
	own           bool        // there is a Wself
	weighs, loops bool        // sources have weights; destinations have an own term in their sums
	operands      cuda.Buffer // aggregate first: of the product
}

func (o *pullLinear) lay(s *TileSizes) {
	m, l := o.net.model, o.layer.index
	w := prepare.Whole{Weighing: m.Weighing()}
	o.weighs, o.loops = w.Weighs()
	o.multiply, o.max = m.Orders[l] == model.Multiply, !m.Commutes()
	o.own = o.net.layout.Has(l, model.Self) || m.Residual
	o.Row = o.In
	if o.multiply {
		o.Row = o.Out
	}
	o.Acc, o.Wide = o.Row, o.Row
	if o.max {
		o.Wide = 0
	}
	o.Maps, o.Last = o.multiply || o.weighs, o.own || o.loops
	o.matrix = o.floats(len(o.prepare(nil)))
	if !o.multiply {
		o.operands = o.floats(s.Window * o.operandWidth())
	}
	for i := range o.factors {
		o.factors[i] = o.floats(s.Window)
	}
	if o.weighs {
		for i := range o.weights {
			o.weights[i] = o.floats(s.Span)
		}
	}
}

func (o *pullLinear) operandWidth() int { return model.Aggregate.OperandWidth(o.In, o.own) }

// prepare returns Wneigh above Wself, to which a residual's map is added where it has one itself. Without weights the
// values are zeros.
func (o *pullLinear) prepare(weights []float32) []float32 {
	size := o.In * o.Out
	w := make([]float32, size)
	if o.own {
		w = make([]float32, 2*size)
	}
	if weights == nil {
		return w
	}
	layout, l := o.net.layout, o.layer.index
	if !layout.Has(l, model.Self) {
		lo, hi := layout.Span(l, model.Neighbour, model.ResidualWeight)
		copy(w, weights[lo:hi])
		return w
	}
	lo, hi := layout.Span(l, model.Neighbour, model.Self)
	copy(w, weights[lo:hi])
	lo, hi = layout.Span(l, model.ResidualWeight, model.ResidualWeight)
	for i, v := range weights[lo:hi] {
		w[size+i] += v
	}
	return w
}

func (o *pullLinear) begin(s *Span, _ cuda.Buffer) {
	acc := part(o.acc, 0, s.Rows*o.Acc)
	if !o.max {
		o.net.try(o.main.Fill(acc, 0))
		return
	}
	o.net.try(kernels.FillFloats{X: acc, Value: float32(math.Inf(-1)), Count: s.Rows * o.Acc}.Launch(o.main))
}

func (o *pullLinear) pull(x, weights cuda.Buffer) {
	rows := x
	if o.multiply {
		rows = o.products
		o.product(o.n, x, o.In, o.In, o.matrix, o.Out, 0, rows, o.Out)
	}
	if o.weighs {
		o.net.try(kernels.ScaleRows{X: rows, Width: o.Row, Factors: weights, Rows: o.n}.Launch(o.main))
	}
	o.each(func(_ *Span, l kernels.Lists, acc cuda.Buffer) {
		o.net.try(kernels.Pull{Lists: l, Acc: acc, Stride: o.Acc, X: rows, Width: o.Row, Max: o.max}.Launch(o.main))
	})
}

func (o *pullLinear) sums(at, n int, x cuda.Buffer) {
	s := kernels.Settle{Out: o.layer.data, Stride: o.Out, Acc: after(o.acc, at*o.Acc), Gap: o.Acc, Width: o.Row, Factors: o.factors[0], Rows: n}
	if o.loops {
		s.Own, s.Owns = x, o.factors[1]
	}
	if o.multiply {
		if o.loops {
			o.product(n, x, o.In, o.In, o.matrix, o.Out, 0, o.products, o.Out)
			s.Own = o.products
		}
		o.net.try(s.Launch(o.main))
		if o.own {
			o.product(n, x, o.In, o.In, after(o.matrix, o.In*o.Out), o.Out, 1, o.layer.data, o.Out)
		}
		return
	}
	width := o.operandWidth()
	s.Out, s.Stride = o.operands, width
	o.net.try(s.Launch(o.main))
	if o.own {
		o.net.try(kernels.Gather{Out: after(o.operands, o.In), Stride: width, Table: x, Type: dtype.Float32, Width: o.In, Rows: kernels.Rows(n)}.Launch(o.main))
	}
	o.product(n, o.operands, width, width, o.matrix, o.Out, 0, o.layer.data, o.Out)
}

// pullAttention is attention over rows of products; see kernels.PullHeads.
type pullAttention struct {
	*Tile
	heads, part, stride int
	mean                bool
	third               cuda.Buffer // the residual's map; may be none
}

func (a *pullAttention) lay(*TileSizes) {
	m, l := a.net.model, a.layer.index
	a.heads, a.part, a.mean = m.Heads, m.HeadWidth(l), l == m.Layers()-1
	a.stride = a.heads * (a.part + 2)
	a.third, _ = a.layer.param(model.ResidualWeight, model.ResidualWeight)
	a.Row, a.Wide, a.Acc = a.stride, a.heads*(a.part+1), a.heads*(a.part+3)
	a.Maps, a.First, a.Last, a.Loops = true, true, a.net.layout.Has(l, model.ResidualWeight), true
	a.matrix = a.floats(a.In * a.stride)
}

func (a *pullAttention) prepare(weights []float32) []float32 {
	to := make([]float32, a.In*a.stride)
	attentionWeights(to, a.weightsOf(weights, model.Neighbour), a.weightsOf(weights, model.AttentionSrc), a.weightsOf(weights, model.AttentionDst), a.heads)
	return to
}

// weightsOf returns the weights of the layer's parameters of a role.
func (t *Tile) weightsOf(weights []float32, r model.Role) []float32 {
	lo, hi := t.net.layout.Span(t.layer.index, r, r)
	return weights[lo:hi]
}

// attentionWeights stores in to the weights of a row of products: W, and W_h·asrc_h and W_h·adst_h of every head h.
func attentionWeights(to, w, src, dst []float32, heads int) {
	columns := len(src)
	part, stride := columns/heads, columns+2*heads
	for i := range len(w) / columns {
		row := to[i*stride:][:stride]
		copy(row, w[i*columns:(i+1)*columns])
		for c, v := range row[:columns] {
			row[columns+c/part] += v * src[c]
			row[columns+heads+c/part] += v * dst[c]
		}
	}
}

// mapped makes rows of products of n rows x.
func (a *pullAttention) mapped(x cuda.Buffer, n int) cuda.Buffer {
	a.product(n, x, a.In, a.In, a.matrix, a.stride, 0, a.products, a.stride)
	return a.products
}

func (a *pullAttention) begin(s *Span, x cuda.Buffer) {
	a.net.try(kernels.PullBegin{Acc: after(a.acc, s.At*a.Acc), Own: a.mapped(x, s.Rows), Heads: a.heads, Part: a.part, Slope: model.LeakySlope, Rows: s.Rows}.Launch(a.main))
}

func (a *pullAttention) pull(x, _ cuda.Buffer) {
	rows := a.mapped(x, a.n)
	a.each(func(_ *Span, l kernels.Lists, acc cuda.Buffer) {
		a.net.try(kernels.PullHeads{Lists: l, Acc: acc, X: rows, Heads: a.heads, Part: a.part, Slope: model.LeakySlope,
			Nodes: a.nodes, Base: uint32(a.lo)}.Launch(a.main))
	})
}

func (a *pullAttention) sums(at, n int, x cuda.Buffer) {
	a.net.try(kernels.SettleHeads{Out: a.layer.data, Acc: after(a.acc, at*a.Acc), Heads: a.heads, Part: a.part, Mean: a.mean, Rows: n}.Launch(a.main))
	if a.third != (cuda.Buffer{}) {
		a.product(n, x, a.In, a.In, a.third, a.Out, 1, a.layer.data, a.Out)
	}
}
