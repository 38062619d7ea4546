package cuda

import (
	"fmt"
	"math"

	"diskgnn/internal/kernel"
)

// Activation is what follows the bias.
type Activation int

// The activations. Identity has no dropout either: it ends a network.
const (
	Identity Activation = iota
	ReLU
	ELU
)

// Dropout is dropout in a layer's rows.
type Dropout struct {
	Rate   kernel.Dropout
	Stream Buffer // kernel.Stream of the layer in this step, a uint64
	IDs    Buffer // uint32, what rows are known by; none: by their numbers
}

func (d *Dropout) arguments(l *launch, rows int) {
	if d.Rate.Threshold() > 0 {
		l.buffer("the dropout's stream", d.Stream, 8)
	} else {
		l.optional("the dropout's stream", d.Stream, 8)
	}
	l.optional("the rows' ids", d.IDs, 4*int64(rows))
	l.word(uint64(d.Rate.Threshold()))
	l.word(uint64(math.Float32bits(d.Rate.Scale())))
}

// Tail finishes the rows of a layer, in place:
//
//	Z[i] = dropout(activation(Z[i] + Bias))
type Tail struct {
	Z          Buffer // float32, rows next to each other
	Width      int
	Bias       Buffer // float32
	Activation Activation
	Dropout    Dropout
	Rows       Count
}

// Tail asks for what the type of that name says.
func (s *Stream) Tail(a *Tail) error {
	l := s.launch("bias and activation")
	k, err := a.Activation.of(biasNone, biasReLU, biasELU)
	if err != nil {
		return err
	}
	l.matrix("the rows", a.Z, a.Rows.Most, a.Width, a.Width)
	l.buffer("the bias", a.Bias, 4*int64(a.Width))
	a.Dropout.arguments(&l, a.Rows.Most)
	l.count(a.Rows)
	return l.rows(k, a.Rows.Most, a.Width, unit([]int{a.Width}, a.Z, a.Bias))
}

func (a Activation) of(none, relu, elu kernelID) (kernelID, error) {
	switch a {
	case Identity:
		return none, nil
	case ReLU:
		return relu, nil
	case ELU:
		return elu, nil
	}
	return 0, fmt.Errorf("cuda: unknown activation %d", int(a))
}

// Rows are summed in groups: few rows to each, that many blocks take part, but not so few
// that the groups are many.
const (
	leastGroup = 32
	mostGroups = 1024
)

// SumGroup returns how many of so many rows TailBackward sums into one row of Sums.
func SumGroup(rows int) int {
	group := leastGroup
	for rows > mostGroups*group {
		group *= 2
	}
	return group
}

// SumRows returns how many rows Sums must have for so many rows, or fewer.
func SumRows(rows int) int { return min(mostGroups, (rows+leastGroup-1)/leastGroup) }

// sumGroups returns how many groups there are.
func sumGroups(rows int) int {
	group := SumGroup(rows)
	return (rows + group - 1) / group
}

// TailBackward takes gradients back through Tail, in place, and sums them:
//
//	G[i] = gradient of Z[i] + Bias, where Y[i] is what Tail made of it
//	DBias = Σ G[i]
//
// Rows of G beyond the count become zero, up to Rows.Most: products that sum over rows
// take them all.
//
// Groups of SumGroup(Rows.Most) rows are summed into a row of Sums each, in eight sums,
// one for the rows of each remainder by eight, added in order; then the groups in the
// same way, in 32 sums.
type TailBackward struct {
	G, Y       Buffer // float32, rows next to each other; no Y for Identity
	Width      int
	Sums       Buffer // float32, SumRows(Rows.Most) rows
	DBias      Buffer // float32
	Activation Activation
	Dropout    Dropout
	Rows       Count
}

// TailBackward asks for what the type of that name says.
func (s *Stream) TailBackward(a *TailBackward) error {
	l := s.launch("activation backward")
	k, err := a.Activation.of(backwardNone, backwardReLU, backwardELU)
	if err != nil {
		return err
	}
	groups := sumGroups(a.Rows.Most)
	size := matrixBytes(a.Rows.Most, a.Width, a.Width)
	l.buffer("the gradients", a.G, size)
	if a.Activation == Identity {
		l.optional("the output", a.Y, 0)
	} else {
		l.buffer("the output", a.Y, size)
	}
	l.int(a.Width)
	l.buffer("the sums", a.Sums, matrixBytes(groups, a.Width, a.Width))
	l.int(SumGroup(a.Rows.Most))
	a.Dropout.arguments(&l, a.Rows.Most)
	l.count(a.Rows)
	if err := l.groups(k, a.Rows.Most, a.Width, unit([]int{a.Width}, a.G, a.Y, a.Sums)); err != nil {
		return err
	}
	return s.sumColumns(a.DBias, a.Sums, a.Width, groups)
}

// groups launches a kernel of which a block takes a group of rows, unit floats of 32
// times so many columns a thread.
func (l *launch) groups(k kernelID, rows, width, unit int) error {
	return l.grid(k, unit, dims{uint32(sumGroups(rows)), uint32((width + 32*unit - 1) / (32 * unit))}, dims{32, 8})
}

// sumColumns sums the columns of a matrix whose rows are next to each other: in 32 sums,
// one for the rows of each remainder by 32, added in order.
func (s *Stream) sumColumns(out, x Buffer, width, rows int) error {
	l := s.launch("sum of columns")
	l.buffer("the sums", out, 4*int64(width))
	l.buffer("the rows", x, matrixBytes(rows, width, width))
	l.int(width)
	l.int(rows)
	return l.grid(sumColumns, 1, dims{uint32((width + 31) / 32), 1}, dims{32, 32})
}
