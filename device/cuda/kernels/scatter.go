package kernels

import (
	"fmt"

	"diskgnn/device/cuda"
)

// Scatter takes gradients back through sums over neighbours and through the tail of the
// layer that made their input: Aggregate, transposed, and TailBackward of what that
// stores, in one pass. Of the two, Aggregate.Out is TailBackward's G, its rows next to
// each other; there is no Add.
type Scatter struct {
	Aggregate
	Y, Sums, DBias cuda.Buffer // TailBackward's
	Activation     Activation  // not Identity
	Dropout        Dropout
}

// Launch gives the stream the work.
func (a Scatter) Launch(s *cuda.Stream) error {
	l := begin(s, "scatter")
	var k compiled
	switch a.Activation {
	case ReLU:
		k = scatterReLU
	case ELU:
		k = scatterELU
	default:
		return fmt.Errorf("kernels: scatter: activation %d", int(a.Activation))
	}
	if !a.Transposed || a.Add || a.Beside || a.Stride != a.Width {
		l.Fail("no transposed sum whose rows are next to each other")
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
