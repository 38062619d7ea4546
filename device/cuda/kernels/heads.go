package kernels

import "diskgnn/device/cuda"

// AggregateHeads sums rows of X over the edges of every destination, weighted by each
// head, in the edges' order:
//
//	Out[i,h] = Σ Weights[e,h]·X[s]
type AggregateHeads struct {
	Out             cuda.Buffer // float32: by destination, a row for every head
	X               cuda.Buffer // float32, rows next to each other
	Width, Heads    int
	Weights         cuda.Buffer // float32, by edge
	Indptr, Indices cuda.Buffer // uint32
	Edges           int         // upper limit of the edges
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a AggregateHeads) Launch(s *cuda.Stream) error {
	most := a.Rows.Most
	l := begin(s, "aggregate heads")
	l.Buffer("the output", a.Out, cuda.MatrixBytes(most*a.Heads, a.Width, a.Width))
	l.Buffer("the input", a.X, 0)
	l.Int(a.Width)
	l.Int(a.Heads)
	l.Buffer("the weights", a.Weights, cuda.MatrixBytes(a.Edges, a.Heads, a.Heads))
	l.aligned("the weights", a.Weights)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
	return l.tiles(aggregateHeads, most, a.Width, unit([]int{a.Width}, a.Out, a.X))
}

// CombineHeads sums rows that have a part for every head over the transposed edges,
// weighted by edge and head, in the order of the entries and of the heads:
//
//	Out[s] = Σ Σ Weights[Edges[t],h]·Y[Indices[t],h]
type CombineHeads struct {
	Out             cuda.Buffer // float32, by source
	Y               cuda.Buffer // float32: by destination, a row for every head
	Width, Heads    int
	Weights         cuda.Buffer // float32, by edge
	Indptr, Indices cuda.Buffer // uint32, of the transposed block
	Edges           cuda.Buffer // uint32: the edge of every entry
	Entries         int         // upper limit of the entries
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a CombineHeads) Launch(s *cuda.Stream) error {
	most := a.Rows.Most
	l := begin(s, "combine heads")
	l.Buffer("the output", a.Out, cuda.MatrixBytes(most, a.Width, a.Width))
	l.Buffer("the input", a.Y, 0)
	l.Int(a.Width)
	l.Int(a.Heads)
	l.Buffer("the weights", a.Weights, cuda.MatrixBytes(a.Entries, a.Heads, a.Heads))
	l.aligned("the weights", a.Weights)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Entries))
	l.Buffer("the edges", a.Edges, 4*int64(a.Entries))
	l.count(a.Rows)
	return l.tiles(combineHeads, most, a.Width, unit([]int{a.Width}, a.Out, a.Y))
}

// EdgeDots multiplies the row of every edge's source with its destination's rows, one for each head:
//
//	Out[e,h] = X[s]·Y[i,h]
//
// A product is the sum of 32 partial sums, which are added pairwise, one half to the other. The k-th
// partial sum has the columns from 4k to 4k+3, and every 128 columns further on the next four.
type EdgeDots struct {
	Out             cuda.Buffer // float32, by edge
	X               cuda.Buffer // float32, by source
	Y               cuda.Buffer // float32: by destination, a row for every head
	Width, Heads    int
	Indptr, Indices cuda.Buffer // uint32
	Edges           int         // upper limit of the edges
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a EdgeDots) Launch(s *cuda.Stream) error {
	most := a.Rows.Most
	l := begin(s, "edge dots")
	l.Buffer("the output", a.Out, cuda.MatrixBytes(a.Edges, a.Heads, a.Heads))
	l.Buffer("the sources' rows", a.X, 0)
	l.Buffer("the destinations' rows", a.Y, cuda.MatrixBytes(most*a.Heads, a.Width, a.Width))
	l.Int(a.Width)
	l.Int(a.Heads)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
	const lanes = 32
	const rows = blockThreads / lanes
	return l.grid(edgeDots, unit([]int{a.Width}, a.X, a.Y), cuda.Dims{uint32((most + rows - 1) / rows), 1}, cuda.Dims{lanes, rows})
}
