package cuda

import "math"

// EdgeSoftmax weighs the edges of every destination, head by head:
//
//	Weights[e,h] = softmax over i's edges e of leaky(Scores[s,h] + Scores[i's place, Heads+h])
//
// Scores has the parts that the scores of a source's edges have of it, and behind them
// those that it has as a destination. The edges of i have the sources Indices[Indptr[i]:Indptr[i+1]]. leaky multiplies
// what is not positive by Slope.
type EdgeSoftmax struct {
	Weights         Buffer // float32, by edge
	Scores          Buffer // float32, by source: rows of 2·Heads
	Place           Buffer // uint32: of the destinations among the sources; none: they come first
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
	l.buffer("the scores", a.Scores, 0)
	l.optional("the places", a.Place, 4*int64(most))
	l.int(a.Heads)
	l.word(uint64(math.Float32bits(a.Slope)))
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
}

// EdgeSoftmaxBackward takes the gradients of the weights to those of the scores ahead
// of leaky, in place, edge by edge, and sums them into those of the destinations' parts.
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

// SumEdges sums the gradients of edges' scores into those of Scores, by source:
//
//	Out[s,h]       = Σ Values[Edges[t],h] for t in Indptr[s]:Indptr[s+1]
//	Out[s,Heads+h] = Own[i,h] where s is destination i, else 0
//
// i is Place[s] − 1 if that is not negative, or without Place s if it is below Places.
// Rows beyond the count become zero.
type SumEdges struct {
	Out           Buffer // float32: rows of 2·Heads
	Values        Buffer // float32, by edge
	Own           Buffer // float32, by destination
	Heads         int
	Indptr, Edges Buffer // uint32, of the transposed block: which edge an entry is
	Place         Buffer // uint32; may be none
	Places        Count  // destinations
	Rows          Count
}

// SumEdges asks for what the type of that name says.
func (s *Stream) SumEdges(a *SumEdges) error {
	most := a.Rows.Most
	l := s.launch("sum over edges")
	l.buffer("the output", a.Out, matrixBytes(most, 2*a.Heads, 2*a.Heads))
	l.buffer("the values", a.Values, 0)
	l.buffer("the destinations' values", a.Own, 0)
	l.int(a.Heads)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("the edges", a.Edges, 0)
	l.optional("the places", a.Place, 4*int64(most))
	l.count(a.Places)
	l.count(a.Rows)
	return l.rows(sumEdges, most, 2*a.Heads, unit([]int{a.Heads}, a.Out, a.Values, a.Own))
}
