package cuda

// Maximum takes the largest of every column over the edges of every destination, zeros
// where there are none, and remembers which source each is of: the first of equals.
type Maximum struct {
	Out             Buffer // float32
	Stride          int    // of Out's rows, in floats; at least Width
	Chosen          Buffer // uint32, by destination and column; may be none
	X               Buffer // float32, rows next to each other
	Width           int
	Indptr, Indices Buffer // uint32
	Edges           int    // at most
	Rows            Count
}

// Maximum asks for what the type of that name says.
func (s *Stream) Maximum(a *Maximum) error {
	most := a.Rows.Most
	l := s.launch("maximum")
	l.matrix("the output", a.Out, most, a.Width, a.Stride)
	l.optional("the choice", a.Chosen, matrixBytes(most, a.Width, a.Width))
	l.buffer("the input", a.X, 0)
	l.int(a.Width)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
	return l.rows(maximum, most, a.Width, unit([]int{a.Width, a.Stride}, a.Out, a.X, a.Chosen))
}

// MaximumBackward takes gradients back through Maximum: a source gets those of the
// columns that it was chosen for.
type MaximumBackward struct {
	Out             Buffer // float32, by source
	G               Buffer // float32, by destination, rows next to each other
	Chosen          Buffer // uint32, by destination and column
	Width           int
	Indptr, Indices Buffer // uint32, of the transposed block: destinations ascending
	Edges           int    // at most
	Add             bool   // to what Out holds
	Rows            Count
}

// MaximumBackward asks for what the type of that name says.
func (s *Stream) MaximumBackward(a *MaximumBackward) error {
	most, add := a.Rows.Most, 0
	if a.Add {
		add = 1
	}
	l := s.launch("maximum backward")
	l.buffer("the output", a.Out, matrixBytes(most, a.Width, a.Width))
	l.buffer("the gradients", a.G, 0)
	l.buffer("the choice", a.Chosen, 0)
	l.int(a.Width)
	l.buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.int(add)
	l.count(a.Rows)
	return l.rows(maximumBackward, most, a.Width, unit([]int{a.Width}, a.Out, a.G, a.Chosen))
}
