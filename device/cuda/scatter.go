package cuda

import "fmt"

// Scatter takes gradients back through sums over neighbours and through the tail of the
// layer that made their input: Aggregate, transposed, and TailBackward of what that
// stores, in one pass. Of the two, Aggregate.Out is TailBackward's G, its rows next to
// each other; there is no Add.
type Scatter struct {
	Aggregate
	Y, Sums, DBias Buffer     // TailBackward's
	Activation     Activation // not Identity
	Dropout        Dropout
}

// Scatter asks for what the type of that name says.
func (s *Stream) Scatter(a *Scatter) error {
	l := s.launch("scatter")
	var k kernelID
	switch a.Activation {
	case ReLU:
		k = scatterReLU
	case ELU:
		k = scatterELU
	default:
		return fmt.Errorf("cuda: scatter: activation %d", int(a.Activation))
	}
	if !a.Transposed || a.Add || a.Beside || a.Stride != a.Width {
		l.fail("no transposed sum whose rows are next to each other")
	}
	most, width := a.Rows.Most, a.Width
	size := matrixBytes(most, width, width)
	l.buffer("the gradients", a.Out, size)
	a.Aggregate.arguments(&l)
	l.buffer("the output", a.Y, size)
	l.buffer("the sums", a.Sums, matrixBytes(sumGroups(most), width, width))
	l.int(SumGroup(most))
	a.Dropout.arguments(&l, most)
	l.count(a.Rows)
	u := unit([]int{width, a.gap()}, a.Out, a.X, a.OwnX, a.Y, a.Sums)
	if err := l.groups(k, most, width, u); err != nil {
		return err
	}
	return s.sumColumns(a.DBias, a.Sums, width, sumGroups(most))
}
