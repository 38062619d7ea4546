package kernels

import (
	"math"

	"diskgnn/device/cuda"
)

// EdgeSoftmax computes the attention weights of the edges of every destination, for every head:
//
//	Weights[e,h] = softmax over i's edges e of leaky(Scores[s,h] + Scores[i's place, Heads+h])
//
// A row of Scores has the node's terms as a source, one for each head, and then its terms as a destination.
// The edges of i have the sources Indices[Indptr[i]:Indptr[i+1]]. leaky multiplies values that are not
// positive by Slope.
type EdgeSoftmax struct {
	Weights         cuda.Buffer // float32, by edge and head
	Scores          cuda.Buffer // float32, by source: rows of 2·Heads elements
	Place           cuda.Buffer // uint32: places of the destinations among the sources; none: the destinations come first
	Heads           int
	Slope           float32
	Indptr, Indices cuda.Buffer // uint32
	Edges           int         // upper limit of the edges
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a EdgeSoftmax) Launch(s *cuda.Stream) error {
	l := begin(s, "edge softmax")
	l.Buffer("the weights", a.Weights, cuda.MatrixBytes(a.Edges, a.Heads, a.Heads))
	a.arguments(&l)
	return l.rows(edgeSoftmax, a.Rows.Most, a.Heads, 1)
}

// arguments adds the arguments that the forward and the backward kernel share.
func (a *EdgeSoftmax) arguments(l *launch) {
	most := a.Rows.Most
	l.Buffer("the scores", a.Scores, 0)
	l.Optional("the places", a.Place, 4*int64(most))
	l.Int(a.Heads)
	l.Word(uint64(math.Float32bits(a.Slope)))
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
}

// EdgeSoftmaxBackward replaces the gradients of the weights by the gradients of the scores before leaky,
// edge by edge, and stores their sums by destination as the gradients of the destinations' terms.
type EdgeSoftmaxBackward struct {
	EdgeSoftmax             // Weights are its result
	Grads       cuda.Buffer // float32, by edge and head
	OwnGrads    cuda.Buffer // float32, by destination and head
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a EdgeSoftmaxBackward) Launch(s *cuda.Stream) error {
	size := cuda.MatrixBytes(a.Edges, a.Heads, a.Heads)
	l := begin(s, "edge softmax backward")
	l.Buffer("the gradients", a.Grads, size)
	l.Buffer("the destinations' gradients", a.OwnGrads, cuda.MatrixBytes(a.Rows.Most, a.Heads, a.Heads))
	l.Buffer("the weights", a.Weights, size)
	a.arguments(&l)
	return l.rows(edgeSoftmaxBackward, a.Rows.Most, a.Heads, 1)
}

// SumEdges sums the gradients of edges' scores into the gradient of Scores, by source:
//
//	Out[s,h]       = Σ Values[Edges[t],h] for t in Indptr[s]:Indptr[s+1]
//	Out[s,Heads+h] = Own[i,h] where s is destination i, else 0
//
// i is Place[s] − 1 if that is not negative, or without Place s if it is below Places.
// Rows beyond the count become zero.
type SumEdges struct {
	Out           cuda.Buffer // float32: rows of 2·Heads
	Values        cuda.Buffer // float32, by edge
	Own           cuda.Buffer // float32, by destination
	Heads         int
	Indptr, Edges cuda.Buffer // uint32, of the transposed block: index pointers, and the edge of every entry
	Place         cuda.Buffer // uint32; may be none
	Places        Count       // number of destinations
	Rows          Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a SumEdges) Launch(s *cuda.Stream) error {
	most := a.Rows.Most
	l := begin(s, "sum over edges")
	l.Buffer("the output", a.Out, cuda.MatrixBytes(most, 2*a.Heads, 2*a.Heads))
	l.Buffer("the values", a.Values, 0)
	l.Buffer("the destinations' values", a.Own, 0)
	l.Int(a.Heads)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("the edges", a.Edges, 0)
	l.Optional("the places", a.Place, 4*int64(most))
	l.count(a.Places)
	l.count(a.Rows)
	return l.rows(sumEdges, most, 2*a.Heads, unit([]int{a.Heads}, a.Out, a.Values, a.Own))
}

// RelationSoftmax is EdgeSoftmax for a typed block. A row is a destination and a relation:
//
//	Weights[e,h] = softmax over row i's edges e of leaky(Scores[s, Base[i]+h] + Own[i,h])
type RelationSoftmax struct {
	Weights         cuda.Buffer // float32, by edge and head
	Scores          cuda.Buffer // float32, by source: rows of Columns elements
	Columns         int
	Base            cuda.Buffer // uint32, by row: the first column of its relation, a multiple of Heads
	Own             cuda.Buffer // float32, by row and head
	Heads           int
	Slope           float32
	Indptr, Indices cuda.Buffer // uint32
	Edges           int         // upper limit of the edges
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a RelationSoftmax) Launch(s *cuda.Stream) error {
	l := begin(s, "relation softmax")
	l.Buffer("the weights", a.Weights, cuda.MatrixBytes(a.Edges, a.Heads, a.Heads))
	a.arguments(&l)
	return l.rows(relationSoftmax, a.Rows.Most, a.Heads, 1)
}

// arguments adds the arguments that the forward and the backward kernel share.
func (a *RelationSoftmax) arguments(l *launch) {
	most := a.Rows.Most
	l.Buffer("the scores", a.Scores, 0)
	l.Int(a.Columns)
	l.Buffer("the columns of rows", a.Base, 4*int64(most))
	l.Buffer("the rows' scores", a.Own, cuda.MatrixBytes(most, a.Heads, a.Heads))
	l.Int(a.Heads)
	l.Word(uint64(math.Float32bits(a.Slope)))
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
}

// RelationSoftmaxBackward is EdgeSoftmaxBackward for a typed block. OwnGrads lie by row and head.
type RelationSoftmaxBackward struct {
	RelationSoftmax             // Weights are its result
	Grads           cuda.Buffer // float32, by edge and head
	OwnGrads        cuda.Buffer // float32, by row and head
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a RelationSoftmaxBackward) Launch(s *cuda.Stream) error {
	size := cuda.MatrixBytes(a.Edges, a.Heads, a.Heads)
	l := begin(s, "relation softmax backward")
	l.Buffer("the gradients", a.Grads, size)
	l.Buffer("the rows' gradients", a.OwnGrads, cuda.MatrixBytes(a.Rows.Most, a.Heads, a.Heads))
	l.Buffer("the weights", a.Weights, size)
	a.arguments(&l)
	return l.rows(relationSoftmaxBackward, a.Rows.Most, a.Heads, 1)
}

// SumRelationEdges sums the gradients of edges' scores into the gradient of RelationSoftmax's Scores, by source:
//
//	Out[s, c] = Σ Values[Edges[t],h] for t in Indptr[s]:Indptr[s+1] with Base[Owners[t]] + h = c
type SumRelationEdges struct {
	Out           cuda.Buffer // float32: rows of Columns elements
	Columns       int
	Values        cuda.Buffer // float32, by edge and head
	Heads         int
	Indptr, Edges cuda.Buffer // uint32, of the transposed block: index pointers, and the edge of every entry
	Owners        cuda.Buffer // uint32: the row of every entry
	Base          cuda.Buffer // uint32, by row
	Rows          Count       // sources
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a SumRelationEdges) Launch(s *cuda.Stream) error {
	most := a.Rows.Most
	l := begin(s, "sum over edges by relation")
	l.Buffer("the output", a.Out, cuda.MatrixBytes(most, a.Columns, a.Columns))
	l.Int(a.Columns)
	l.Buffer("the values", a.Values, 0)
	l.Int(a.Heads)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("the edges", a.Edges, 0)
	l.Buffer("the rows of edges", a.Owners, 0)
	l.Buffer("the columns of rows", a.Base, 0)
	l.count(a.Rows)
	return l.rows(sumRelationEdges, most, a.Columns, 1)
}
