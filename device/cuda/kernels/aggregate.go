package kernels

import (
	"fmt"

	"diskgnn/device/cuda"
)

// Aggregate sums rows of X over the edges of a block, in the edges' order:
//
//	Out[i] = Outer[i] · Σ Inner[s]·X[s]  (+ Out[i] if Add)  + own·OwnX of i's own place
//
// where missing weights are 1, and without OwnX there is no last term. If Beside is set, the last term is
// not added: OwnX's row is stored after the sum, in the same row of Out.
//
// Forward, rows are destinations, and Indptr and Indices are the block's; a row's own place is
// Place[i], or i without Place, and own is Own[i]. Transposed, rows are sources, Indptr and Indices
// are the transposed block's, and X and OwnX are gradients by destination: source i's own place is
// Place[i] − 1 if that is not negative, or without Place i if it is below Places; own is Own at the
// same place.
type Aggregate struct {
	Out             cuda.Buffer // float32
	Stride          int         // stride of the rows of Out, in floats; at least Width, or 2·Width with Beside
	X               cuda.Buffer // float32
	Gap             int         // stride of the rows of X and OwnX, in floats; 0: Width
	Width           int
	Indptr, Indices cuda.Buffer // uint32
	Edges           int         // upper limit of the edges
	Outer, Inner    cuda.Buffer // float32; may be none
	OwnX            cuda.Buffer // float32: X itself, another or none
	Own             cuda.Buffer // float32; may be none
	Place           cuda.Buffer // uint32; may be none
	Transposed      bool
	Places          Count // number of destinations; if transposed without Place
	Add             bool
	Beside          bool // not if transposed
	Pad             bool // rows of Out beyond the count become zero
	Rows            Count
}

// gap returns the stride between the rows of X and OwnX, in elements.
func (a *Aggregate) gap() int {
	if a.Gap > 0 {
		return a.Gap
	}
	return a.Width
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Aggregate) Launch(s *cuda.Stream) error {
	k, what := aggregate, "aggregate"
	if a.Transposed {
		k, what = aggregateTransposed, "aggregate transposed"
	}
	width := a.Width
	if a.Beside {
		width *= 2
	}
	l := begin(s, what)
	l.matrix("the output", a.Out, a.Rows.Most, width, a.Stride)
	a.arguments(&l)
	l.Bool(a.Add)
	l.Bool(a.Beside)
	l.Bool(a.Pad)
	l.count(a.Rows)
	return l.rows(k, a.Rows.Most, a.Width, unit([]int{a.Width, a.Stride, a.gap()}, a.Out, a.X, a.OwnX))
}

// arguments adds the arguments of the sum.
func (a *Aggregate) arguments(l *launch) {
	most := int64(a.Rows.Most)
	if a.gap() < a.Width {
		l.Fail("the input with rows of %d elements and a stride of %d", a.Width, a.gap())
	}
	if a.Beside && a.OwnX == (cuda.Buffer{}) {
		l.Fail("there are no own rows to store beside the sums")
	}
	l.Buffer("the input", a.X, 0)
	l.Int(a.gap())
	l.Int(a.Width)
	l.Buffer("indptr", a.Indptr, 4*(most+1))
	l.Buffer("indices", a.Indices, 4*int64(a.Edges))
	l.Optional("the outer weights", a.Outer, 4*most)
	l.Optional("the inner weights", a.Inner, 0)
	l.Optional("the own weights", a.Own, 0)
	l.Optional("the own rows", a.OwnX, 0)
	l.Optional("the places", a.Place, 4*most)
	l.count(a.Places)
}

// Scatter takes gradients back through sums over neighbours and through the tail of the layer that made
// their input: Aggregate, transposed, and TailBackward of its output, in one pass. Aggregate.Out is also
// TailBackward's G; its rows are contiguous. Add is not supported.
type Scatter struct {
	Aggregate
	Y, Sums, DBias cuda.Buffer // as in TailBackward
	Activation     Activation  // not Identity
	Dropout        Dropout
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Scatter) Launch(s *cuda.Stream) error {
	l := begin(s, "scatter")
	var k compiled
	switch a.Activation {
	case ReLU:
		k = scatterReLU
	case ELU:
		k = scatterELU
	default:
		return fmt.Errorf("kernels: scatter: unknown activation %d", int(a.Activation))
	}
	if !a.Transposed || a.Add || a.Beside || a.Stride != a.Width {
		l.Fail("the sum is not transposed, or its rows are not contiguous")
	}
	most, width := a.Rows.Most, a.Width
	size := cuda.MatrixBytes(most, width, width)
	l.Buffer("the gradients", a.Out, size)
	a.Aggregate.arguments(&l)
	l.Buffer("the output", a.Y, size)
	l.Buffer("the sums", a.Sums, cuda.MatrixBytes(sumGroups(most), width, width))
	l.Int(SumGroup(most))
	a.Dropout.arguments(&l, most)
	l.count(a.Rows)
	u := unit([]int{width, a.gap()}, a.Out, a.X, a.OwnX, a.Y, a.Sums)
	if err := l.groups(k, most, width, u); err != nil {
		return err
	}
	return columnSums(s, a.DBias, a.Sums, width, sumGroups(most))
}
