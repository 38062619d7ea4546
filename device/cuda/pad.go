package cuda

// ZeroPadding makes the rows of X beyond the count zero, up to Rows.Most: a product
// that reduces over rows takes all of them.
type ZeroPadding struct {
	X      Buffer // float32
	Stride int    // of the rows, in floats; at least Width
	Width  int
	Rows   Count
}

// ZeroPadding asks for what the type of that name says.
func (s *Stream) ZeroPadding(a *ZeroPadding) error {
	l := s.launch("zero padding")
	l.matrix("the rows", a.X, a.Rows.Most, a.Width, a.Stride)
	l.int(a.Width)
	l.count(a.Rows)
	const blocks = 512 // few, as there may be nothing to do
	return l.blocks(zeroPadding, a.Rows.Most, a.Width, unit([]int{a.Width, a.Stride}, a.X), blocks)
}
