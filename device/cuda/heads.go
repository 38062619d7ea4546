package cuda

// AggregateHeads sums rows of X over the edges of every destination, weighted by each
// head, in the edges' order:
//
//	Out[i,h] = Σ Weights[e,h]·X[s]
type AggregateHeads struct {
	Out             Buffer // float32: by destination, a row for every head
	X               Buffer // float32, rows next to each other
	Width, Heads    int
	Weights         Buffer // float32, by edge
	Indptr, Indices Buffer // uint32
	Edges           int    // at most
	Rows            Count
}

// AggregateHeads asks for what the type of that name says.
func (s *Stream) AggregateHeads(a *AggregateHeads) error {
	most := a.Rows.Most
	l := s.launch("aggregate heads")
	l.buffer("the output", a.Out, matrixBytes(most*a.Heads, a.Width, a.Width))
	l.buffer("the input", a.X, 0)
	l.int(a.Width)
	l.int(a.Heads)
	l.buffer("the weights", a.Weights, matrixBytes(a.Edges, a.Heads, a.Heads))
	l.aligned("the weights", a.Weights)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
	return l.tiles(aggregateHeads, most, a.Width, unit([]int{a.Width}, a.Out, a.X))
}

// CombineHeads sums rows that have a part for every head over the transposed edges,
// weighted by edge and head, in the order of the entries and of the heads:
//
//	Out[s] = Σ Σ Weights[Edges[t],h]·Y[Indices[t],h]
type CombineHeads struct {
	Out             Buffer // float32, by source
	Y               Buffer // float32: by destination, a row for every head
	Width, Heads    int
	Weights         Buffer // float32, by edge
	Indptr, Indices Buffer // uint32, of the transposed block
	Edges           Buffer // uint32: which edge an entry is
	Entries         int    // at most
	Rows            Count
}

// CombineHeads asks for what the type of that name says.
func (s *Stream) CombineHeads(a *CombineHeads) error {
	most := a.Rows.Most
	l := s.launch("combine heads")
	l.buffer("the output", a.Out, matrixBytes(most, a.Width, a.Width))
	l.buffer("the input", a.Y, 0)
	l.int(a.Width)
	l.int(a.Heads)
	l.buffer("the weights", a.Weights, matrixBytes(a.Entries, a.Heads, a.Heads))
	l.aligned("the weights", a.Weights)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Entries))
	l.buffer("the edges", a.Edges, 4*int64(a.Entries))
	l.count(a.Rows)
	return l.tiles(combineHeads, most, a.Width, unit([]int{a.Width}, a.Out, a.Y))
}

// EdgeDots multiplies the row of every edge's source with those of its destination:
//
//	Out[e,h] = X[s]·Y[i,h]
//
// A product is 32 sums, added by halves: the k-th has the columns from 4k to 4k+3, and
// again 128 further on.
type EdgeDots struct {
	Out             Buffer // float32, by edge
	X               Buffer // float32, by source
	Y               Buffer // float32: by destination, a row for every head
	Width, Heads    int
	Indptr, Indices Buffer // uint32
	Edges           int    // at most
	Rows            Count
}

// EdgeDots asks for what the type of that name says.
func (s *Stream) EdgeDots(a *EdgeDots) error {
	most := a.Rows.Most
	l := s.launch("edge dots")
	l.buffer("the output", a.Out, matrixBytes(a.Edges, a.Heads, a.Heads))
	l.buffer("the sources' rows", a.X, 0)
	l.buffer("the destinations' rows", a.Y, matrixBytes(most*a.Heads, a.Width, a.Width))
	l.int(a.Width)
	l.int(a.Heads)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
	const lanes = 32
	const rows = blockThreads / lanes
	return l.grid(edgeDots, unit([]int{a.Width}, a.X, a.Y), dims{uint32((most + rows - 1) / rows), 1}, dims{lanes, rows})
}
