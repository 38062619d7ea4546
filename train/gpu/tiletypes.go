package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/train/model"
)

// pullTypes is the part of a typed layer's kind that follows from the node types. Each type has its own bias: the sum of
// the relations' into it, or the only one.
type pullTypes struct {
	*Tile
	biases int // where the biases of the types lie in the matrix
}

// fold stores in to the sum of the parameters of the relations into a type that take part, or the only one, which all
// types of R-GCN share.
func (o *pullTypes) fold(to, params []float32, kind int) {
	m := o.net.model
	if m.Kind == model.RGCN {
		copy(to, params)
		return
	}
	takesPart := m.TakesPart(o.layer.index)
	for first, n := m.Types.Into(kind); n > 0; first, n = first+1, n-1 {
		if takesPart[first] {
			for c, v := range params[first*len(to) : (first+1)*len(to)] {
				to[c] += v
			}
		}
	}
}

// prepareBiases stores the biases of the types at the end of a matrix.
func (o *pullTypes) prepareBiases(matrix, weights []float32) {
	for kind := range o.net.model.Types.Nodes {
		o.fold(matrix[o.biases+kind*o.Out:][:o.Out], o.weightsOf(weights, model.Bias), kind)
	}
}

// layMatrix takes the memory of a matrix, and of the biases behind it.
func (o *pullTypes) layMatrix(elements int) {
	o.biases = elements
	o.matrix = o.floats(elements + len(o.net.model.Types.Nodes)*o.Out)
}

// sums is for graphs without types.
func (o *pullTypes) sums(int, int, cuda.Buffer) { panic("gpu: a typed layer has sums of pieces alone") }

// rowsOf returns the layer's rows of a piece.
func (o *pullTypes) rowsOf(p *Piece) cuda.Buffer { return after(o.layer.data, p.At*o.Out) }

// addBias adds the type's bias to the rows of a piece.
func (o *pullTypes) addBias(p *Piece) {
	o.net.try(kernels.Tail{Z: part(o.rowsOf(p), 0, p.Rows*o.Out), Width: o.Out, Bias: part(o.matrix, o.biases+p.Kind*o.Out, o.biases+(p.Kind+1)*o.Out),
		Activation: kernels.Identity, Rows: kernels.Rows(p.Rows)}.Launch(o.main))
}

// clear makes the rows of a piece zeros.
func (o *pullTypes) clear(p *Piece) {
	o.net.try(o.main.Fill(part(o.rowsOf(p), 0, p.Rows*o.Out), 0))
}

// pullRelational is a convolution over relations; see relational. Its matrix has the matrices of the relations, and then
// the matrices of the types' own rows.
type pullRelational struct {
	pullTypes
	operands cuda.Buffer // the means of a group
}

func (o *pullRelational) lay(s *TileSizes) {
	o.Row, o.Acc, o.Wide, o.Last = o.In, o.In, o.In, true
	t := o.net.model.Types
	o.layMatrix((len(t.Relations) + len(t.Nodes)) * o.In * o.Out)
	o.operands, o.factors[0] = o.floats(s.Group*o.In), o.floats(s.Group)
}

func (o *pullRelational) prepare(weights []float32) []float32 {
	m, size := o.net.model, o.In*o.Out
	to, relations := make([]float32, o.matrix.Bytes()/4), len(m.Types.Relations)
	means, comp := o.weightsOf(weights, model.Neighbour), o.weightsOf(weights, model.Composition)
	if m.Bases == 0 {
		copy(to, means)
	}
	for r := range relations {
		for b := range m.Bases {
			for c, v := range means[b*size : (b+1)*size] {
				to[r*size+c] += comp[r*m.Bases+b] * v
			}
		}
	}
	for kind := range m.Types.Nodes {
		o.fold(to[(relations+kind)*size:][:size], o.weightsOf(weights, model.Self), kind)
	}
	o.prepareBiases(to, weights)
	return to
}

// matrixOf returns a relation's matrix, or, behind all of them, a type's.
func (o *pullRelational) matrixOf(i int) cuda.Buffer { return after(o.matrix, i*o.In*o.Out) }

func (o *pullRelational) begin(s *Span, _ cuda.Buffer) {
	o.net.try(o.main.Fill(part(o.acc, 0, s.Rows*o.Acc), 0))
}

func (o *pullRelational) pull(x, _ cuda.Buffer) {
	o.each(func(s *Span, l kernels.Lists, acc cuda.Buffer) {
		if s.Lo < int64(o.first+o.n) && s.Hi > int64(o.first) {
			o.net.try(kernels.Pull{Lists: l, Acc: acc, Stride: o.Acc, X: x, Width: o.Row}.Launch(o.main))
		}
	})
}

// sumPiece adds up products, a list after the other and the own rows last.
func (o *pullRelational) sumPiece(p *Piece, x cuda.Buffer, factors []float32) {
	beta := float32(0)
	add := func(rows cuda.Buffer, matrix int) {
		o.product(p.Rows, rows, o.In, o.In, o.matrixOf(matrix), o.Out, beta, o.rowsOf(p), o.Out)
		beta = 1
	}
	for j, s := range p.Lists {
		o.net.try(o.main.CopyIn(part(o.factors[0], 0, p.Rows), binio.Bytes(factors[j*p.Rows:(j+1)*p.Rows])))
		o.net.try(kernels.Settle{Out: o.operands, Stride: o.In, Acc: after(o.acc, s.At*o.Acc), Gap: o.Acc, Width: o.In, Factors: o.factors[0], Rows: p.Rows}.Launch(o.main))
		add(o.operands, s.Relation)
	}
	if x != (cuda.Buffer{}) {
		add(x, len(o.net.model.Types.Relations)+p.Kind)
	}
	if beta == 0 {
		o.clear(p)
	}
	o.addBias(p)
}

// pullRelationAttention is attention over the lists of each relation; see relationAttention. A relation's rows of products
// are as pullAttention's, and so are the accumulators, which begin without a row.
type pullRelationAttention struct {
	pullTypes
	heads, part, stride int
	mean                bool
	scores              cuda.Buffer // of a group of destinations
}

func (a *pullRelationAttention) lay(s *TileSizes) {
	m, l := a.net.model, a.layer.index
	a.heads, a.part, a.mean = m.Heads, m.HeadWidth(l), l == m.Layers()-1
	a.stride = a.heads * (a.part + 2)
	a.Row, a.Wide, a.Acc = a.stride, a.heads*(a.part+1), a.heads*(a.part+3)
	a.Maps, a.First = true, true
	a.layMatrix(len(m.Types.Relations) * a.In * a.stride)
	a.scores, a.nodes = a.floats(s.Group*a.heads), a.floats(s.Lists)
}

func (a *pullRelationAttention) prepare(weights []float32) []float32 {
	to, columns, size := make([]float32, a.matrix.Bytes()/4), a.heads*a.part, a.In*a.stride
	w, src, dst := a.weightsOf(weights, model.Neighbour), a.weightsOf(weights, model.AttentionSrc), a.weightsOf(weights, model.AttentionDst)
	for r := range a.net.model.Types.Relations {
		attentionWeights(to[r*size:][:size], w[r*a.In*columns:][:a.In*columns], src[r*columns:][:columns], dst[r*columns:][:columns], a.heads)
	}
	a.prepareBiases(to, weights)
	return to
}

// matrixOf returns the weights of a relation's rows of products.
func (a *pullRelationAttention) matrixOf(r int) cuda.Buffer { return after(a.matrix, r*a.In*a.stride) }

// begin sets the destinations' parts of the scores, for a group of them at most.
func (a *pullRelationAttention) begin(s *Span, x cuda.Buffer) {
	acc, columns := after(a.acc, s.At*a.Acc), a.heads*a.part
	a.net.try(kernels.PullBegin{Acc: acc, Heads: a.heads, Part: a.part, Slope: model.LeakySlope, Rows: s.Rows}.Launch(a.main))
	if x == (cuda.Buffer{}) {
		return
	}
	a.net.product(false, false, a.Group, a.heads, a.In, 1, x, a.In, after(a.matrixOf(s.Relation), columns+a.heads), a.stride, 0, a.scores, a.heads)
	a.net.try(kernels.Gather{Out: after(acc, columns+2*a.heads), Stride: a.Acc, Table: a.scores, Type: dtype.Float32, Width: a.heads, Rows: kernels.Rows(s.Rows)}.Launch(a.main))
}

// pull makes the rows of products of each relation, for whole groups of rows.
func (a *pullRelationAttention) pull(x, _ cuda.Buffer) {
	a.each(func(s *Span, l kernels.Lists, acc cuda.Buffer) {
		lo, hi := max(0, int(s.Lo)-a.first), min(a.n, int(s.Hi)-a.first)
		if lo >= hi {
			return
		}
		lo -= lo % a.Group
		a.product(hi-lo, after(x, lo*a.In), a.In, a.In, a.matrixOf(s.Relation), a.stride, 0, a.products, a.stride)
		l.First += uint32(lo)
		a.net.try(kernels.PullHeads{Lists: l, Acc: acc, X: a.products, Heads: a.heads, Part: a.part, Slope: model.LeakySlope, Nodes: a.nodes}.Launch(a.main))
	})
}

func (a *pullRelationAttention) sumPiece(p *Piece, _ cuda.Buffer, _ []float32) {
	for j, s := range p.Lists {
		a.net.try(kernels.SettleHeads{Out: a.rowsOf(p), Acc: after(a.acc, s.At*a.Acc), Heads: a.heads, Part: a.part, Mean: a.mean, Add: j > 0, Rows: p.Rows}.Launch(a.main))
	}
	if len(p.Lists) == 0 {
		a.clear(p)
	}
	a.addBias(p)
}
