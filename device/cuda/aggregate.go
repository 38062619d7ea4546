package cuda

// Aggregate sums rows of X over the edges of a block, in the edges' order:
//
//	Out[i] = Outer[i] · Σ Inner[s]·X[s]  (+ Out[i] if Add)  + own·OwnX of i's own place
//
// where weights that are none stand for ones, and without OwnX there is no last term.
//
// Forward, rows are destinations, Indptr and Indices those of the block; a row's own
// place is Place[i], or i without Place, and own is Own[i]. Transposed, rows are
// sources, Indptr and Indices those of the transposed block, and X and OwnX are
// gradients by destination: source i's own place is Place[i] − 1 if that is not
// negative, or without Place i if it is below Places; own is Own at the same place.
type Aggregate struct {
	Out             Buffer // float32
	Stride          int    // of Out's rows, in floats; at least Width
	X               Buffer // float32, rows next to each other
	Width           int
	Indptr, Indices Buffer // uint32
	Edges           int    // at most
	Outer, Inner    Buffer // float32; may be none
	OwnX            Buffer // float32, rows next to each other: X itself, another or none
	Own             Buffer // float32; may be none
	Place           Buffer // uint32; may be none
	Transposed      bool
	Places          Count // destinations; transposed without Place
	Add             bool
	Rows            Count
}

// Aggregate asks for what the type of that name says.
func (s *Stream) Aggregate(a *Aggregate) error {
	k, what := aggregate, "aggregate"
	if a.Transposed {
		k, what = aggregateTransposed, "aggregate transposed"
	}
	most := int64(a.Rows.Most)
	l := s.launch(what)
	l.matrix("the output", a.Out, a.Rows.Most, a.Width, a.Stride)
	l.buffer("the input", a.X, 0)
	l.int(a.Width)
	l.buffer("indptr", a.Indptr, 4*(most+1))
	l.buffer("indices", a.Indices, 4*int64(a.Edges))
	l.optional("the outer weights", a.Outer, 4*most)
	l.optional("the inner weights", a.Inner, 0)
	l.optional("the own weights", a.Own, 0)
	l.optional("the own rows", a.OwnX, 0)
	l.optional("the places", a.Place, 4*most)
	l.count(a.Places)
	add := 0
	if a.Add {
		add = 1
	}
	l.int(add)
	l.count(a.Rows)
	return l.rows(k, a.Rows.Most, a.Width, unit([]int{a.Width, a.Stride}, a.Out, a.X, a.OwnX))
}
