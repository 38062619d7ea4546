package kernels

import "diskgnn/device/cuda"

// Maximum stores, for every destination and column, the maximum over the destination's sources, 0 if it has
// none, and the source of the maximum: the first of equal ones.
type Maximum struct {
	Out             cuda.Buffer // float32
	Stride          int         // stride of the rows of Out, in floats; at least Width
	Chosen          cuda.Buffer // uint32, by destination and column; may be none
	X               cuda.Buffer // float32, rows next to each other
	Width           int
	Indptr, Indices cuda.Buffer // uint32
	Edges           int         // upper limit of the edges
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Maximum) Launch(s *cuda.Stream) error {
	most := a.Rows.Most
	l := begin(s, "maximum")
	l.matrix("the output", a.Out, most, a.Width, a.Stride)
	l.Optional("the choice", a.Chosen, cuda.MatrixBytes(most, a.Width, a.Width))
	l.Buffer("the input", a.X, 0)
	l.Int(a.Width)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.count(a.Rows)
	return l.rows(maximum, most, a.Width, unit([]int{a.Width, a.Stride}, a.Out, a.X, a.Chosen))
}

// MaximumBackward takes gradients back through Maximum: the gradient of each maximum goes to its source.
type MaximumBackward struct {
	Out             cuda.Buffer // float32, by source
	G               cuda.Buffer // float32, by destination, rows next to each other
	Chosen          cuda.Buffer // uint32, by destination and column
	Width           int
	Indptr, Indices cuda.Buffer // uint32, of the transposed block: destinations ascending
	Edges           int         // upper limit of the edges
	Add             bool        // adds to the content of Out
	Rows            Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a MaximumBackward) Launch(s *cuda.Stream) error {
	most, add := a.Rows.Most, 0
	if a.Add {
		add = 1
	}
	l := begin(s, "maximum backward")
	l.Buffer("the output", a.Out, cuda.MatrixBytes(most, a.Width, a.Width))
	l.Buffer("the gradients", a.G, 0)
	l.Buffer("the choice", a.Chosen, 0)
	l.Int(a.Width)
	l.Buffer("indptr", a.Indptr, 4*(int64(most)+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.Int(add)
	l.count(a.Rows)
	return l.rows(maximumBackward, most, a.Width, unit([]int{a.Width}, a.Out, a.G, a.Chosen))
}
