package kernels

import (
	"diskgnn/device/cuda"
	"fmt"
	"math"

	"diskgnn/internal/kernel"
)

// Activation is the function applied after the bias.
type Activation int

// The activations. Identity, of a network's last layer, has no dropout.
const (
	Identity Activation = iota
	ReLU
	ELU
)

// Dropout has the parameters of a layer's dropout. A Rate of 0 means none.
type Dropout struct {
	Rate   kernel.Dropout
	Stream cuda.Buffer // kernel.Stream of the layer in this step, a uint64
	IDs    cuda.Buffer // uint32, keys of the rows; none: the rows' numbers
}

func (d *Dropout) arguments(l *launch, rows int) {
	if d.Rate.Threshold() > 0 {
		l.Buffer("the dropout's stream", d.Stream, 8)
	} else {
		l.Optional("the dropout's stream", d.Stream, 8)
	}
	l.Optional("the rows' ids", d.IDs, 4*int64(rows))
	l.Word(uint64(d.Rate.Threshold()))
	l.Word(uint64(math.Float32bits(d.Rate.Scale())))
}

// Tail finishes the rows of a layer, in place:
//
//	Z[i] = dropout(activation(Z[i] + Bias))
type Tail struct {
	Z          cuda.Buffer // float32, rows next to each other
	Width      int
	Bias       cuda.Buffer // float32
	Activation Activation
	Dropout    Dropout
	Rows       Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Tail) Launch(s *cuda.Stream) error {
	l := begin(s, "bias and activation")
	k, err := a.Activation.of(biasNone, biasReLU, biasELU)
	if err != nil {
		return err
	}
	l.matrix("the rows", a.Z, a.Rows.Most, a.Width, a.Width)
	l.Buffer("the bias", a.Bias, 4*int64(a.Width))
	a.Dropout.arguments(&l, a.Rows.Most)
	l.count(a.Rows)
	return l.rows(k, a.Rows.Most, a.Width, unit([]int{a.Width}, a.Z, a.Bias))
}

func (a Activation) of(none, relu, elu compiled) (compiled, error) {
	switch a {
	case Identity:
		return none, nil
	case ReLU:
		return relu, nil
	case ELU:
		return elu, nil
	}
	return compiled{}, fmt.Errorf("kernels: unknown activation %d", int(a))
}

// Rows are summed in groups of at least leastGroup rows, in at most mostGroups groups: small groups let
// many blocks take part.
const (
	leastGroup = 32
	mostGroups = 1024
)

// SumGroup returns the number of rows that TailBackward sums into one row of Sums, given the number of all
// rows.
func SumGroup(rows int) int {
	group := leastGroup
	for rows > mostGroups*group {
		group *= 2
	}
	return group
}

// SumRows returns the number of rows that Sums needs for up to the given number of rows.
func SumRows(rows int) int { return min(mostGroups, (rows+leastGroup-1)/leastGroup) }

func sumGroups(rows int) int {
	group := SumGroup(rows)
	return (rows + group - 1) / group
}

// TailBackward takes gradients back through Tail, in place, and sums them:
//
//	G[i] = gradient of Z[i] + Bias, where Y[i] is Tail's output for it
//	DBias = Σ G[i]
//
// Rows of G beyond the count become zero, up to Rows.Most: products that sum over rows
// take them all.
//
// Each group of SumGroup(Rows.Most) rows is summed into a row of Sums: in eight partial sums, one for the
// rows of each remainder by eight, which are added in order. The rows of Sums are then summed in the same
// way, in 32 partial sums.
type TailBackward struct {
	G, Y       cuda.Buffer // float32, rows next to each other; no Y for Identity
	Width      int
	Sums       cuda.Buffer // float32, SumRows(Rows.Most) rows
	DBias      cuda.Buffer // float32
	Activation Activation
	Dropout    Dropout
	Rows       Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a TailBackward) Launch(s *cuda.Stream) error {
	l := begin(s, "activation backward")
	k, err := a.Activation.of(backwardNone, backwardReLU, backwardELU)
	if err != nil {
		return err
	}
	groups := sumGroups(a.Rows.Most)
	size := cuda.MatrixBytes(a.Rows.Most, a.Width, a.Width)
	l.Buffer("the gradients", a.G, size)
	if a.Activation == Identity {
		l.Optional("the output", a.Y, 0)
	} else {
		l.Buffer("the output", a.Y, size)
	}
	l.Int(a.Width)
	l.Buffer("the sums", a.Sums, cuda.MatrixBytes(groups, a.Width, a.Width))
	l.Int(SumGroup(a.Rows.Most))
	a.Dropout.arguments(&l, a.Rows.Most)
	l.count(a.Rows)
	if err := l.groups(k, a.Rows.Most, a.Width, unit([]int{a.Width}, a.G, a.Y, a.Sums)); err != nil {
		return err
	}
	return columnSums(s, a.DBias, a.Sums, a.Width, groups)
}

// groups launches a kernel with a block for each group of rows and each 32·unit columns; a thread takes
// unit columns.
func (l *launch) groups(k compiled, rows, width, unit int) error {
	return l.grid(k, unit, cuda.Dims{uint32(sumGroups(rows)), uint32((width + 32*unit - 1) / (32 * unit))}, cuda.Dims{32, 8})
}

// columnSums sums the columns of a matrix without gaps between rows: in 32 sums, one for the rows of
// each remainder by 32, added in order.
func columnSums(s *cuda.Stream, out, x cuda.Buffer, width, rows int) error {
	l := begin(s, "sum of columns")
	l.Buffer("the sums", out, 4*int64(width))
	l.Buffer("the rows", x, cuda.MatrixBytes(rows, width, width))
	l.Int(width)
	l.Int(rows)
	return l.grid(sumColumns, 1, cuda.Dims{uint32((width + 31) / 32), 1}, cuda.Dims{32, 32})
}
