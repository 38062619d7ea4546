package cuda

import "math"

// EdgeSoftmax weighs the edges of every destination, head by head:
//
//	Weights[e,h] = softmax over i's edges e of leaky(Sources[s,h] + Own[i,h])
//
// The edges of i have the sources Indices[Indptr[i]:Indptr[i+1]]. leaky multiplies
// what is not positive by Slope.
type EdgeSoftmax struct {
	Weights         Buffer // float32, by edge
	Sources         Buffer // float32, by source: its part of its edges' scores
	Own             Buffer // float32, by destination: its part
	Heads           int
	Slope           float32
	Indptr, Indices Buffer // uint32
	Edges           int    // at most
	Rows            Count
}

// EdgeSoftmax asks for what the type of that name says.
func (s *Stream) EdgeSoftmax(a *EdgeSoftmax) error {
	l := s.launch("edge softmax")
	l.buffer("the weights", a.Weights, matrixBytes(a.Edges, a.Heads, a.Heads))
	a.arguments(&l)
	return l.rows(edgeSoftmax, a.Rows.Most, a.Heads, 1)
}

// arguments adds those that both ways share.
func (a *EdgeSoftmax) arguments(l *launch) {
	most := a.Rows.Most
	l.buffer("the sources' scores", a.Sources, 0)
	l.buffer("the destinations' scores", a.Own, matrixBytes(most, a.Heads, a.Heads))
	l.int(a.Heads)
	l.word(uint64(math.Float32bits(a.Slope)))
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
}

// EdgeSoftmaxBackward takes the gradients of the weights to those of the scores ahead
// of leaky, in place, which are those of the sources' parts, edge by edge; and sums
// them into those of the destinations' parts.
type EdgeSoftmaxBackward struct {
	EdgeSoftmax        // Weights are its result
	Grads       Buffer // float32, by edge
	OwnGrads    Buffer // float32, by destination
}

// EdgeSoftmaxBackward asks for what the type of that name says.
func (s *Stream) EdgeSoftmaxBackward(a *EdgeSoftmaxBackward) error {
	size := matrixBytes(a.Edges, a.Heads, a.Heads)
	l := s.launch("edge softmax backward")
	l.buffer("the gradients", a.Grads, size)
	l.buffer("the destinations' gradients", a.OwnGrads, matrixBytes(a.Rows.Most, a.Heads, a.Heads))
	l.buffer("the weights", a.Weights, size)
	a.arguments(&l)
	return l.rows(edgeSoftmaxBackward, a.Rows.Most, a.Heads, 1)
}

// SumEdges sums what belongs to edges into the sources' rows: with Edges the transposed
// block's list of edges, Out[s] = Σ Values[Edges[t]] for t in Indptr[s]:Indptr[s+1].
type SumEdges struct {
	Out, Values   Buffer // float32
	Heads         int
	Indptr, Edges Buffer // uint32
	Rows          Count
}

// SumEdges asks for what the type of that name says.
func (s *Stream) SumEdges(a *SumEdges) error {
	most := a.Rows.Most
	l := s.launch("sum over edges")
	l.buffer("the output", a.Out, matrixBytes(most, a.Heads, a.Heads))
	l.buffer("the values", a.Values, 0)
	l.int(a.Heads)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("the edges", a.Edges, 0)
	l.count(a.Rows)
	return l.rows(sumEdges, most, a.Heads, 1)
}
