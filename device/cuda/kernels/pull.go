package kernels

import (
	"math"

	"diskgnn/device/cuda"
)

// Lists are the sources of the destinations of a tile, a list for each. A list ascends, so that the sources in
// a block of nodes are a part of it.
type Lists struct {
	Starts  cuda.Buffer // uint64: where each list begins in Sources, and where the last one ends
	Sources cuda.Buffer // uint32
	// From and To are the positions of each list between which its sources are in the block. Callers keep two
	// buffers: Seek of the next block begins where the block before ended.
	From, To cuda.Buffer // uint32
	First    uint32      // the node of the block's first row
	// Fold is the number of sources that are summed in float32. Lists longer than it are summed in blocks of Fold
	// positions, and these in float64.
	Fold uint32
	Wide cuda.Buffer // float64: the sums of long lists
	Long cuda.Buffer // uint32: the rows with long lists, ascending
	Many int         // their number
	Rows int
}

// arguments adds the lists. width is the number of a row's wide sums.
func (a *Lists) arguments(l *launch, width int) {
	rows := int64(a.Rows)
	l.Buffer("the starts", a.Starts, 8*(rows+1))
	l.Buffer("the sources", a.Sources, 0)
	l.Buffer("the first positions", a.From, 4*rows)
	l.Buffer("the last positions", a.To, 4*rows)
	l.Word(uint64(a.First))
	l.Word(uint64(a.Fold))
	l.Optional("the wide sums", a.Wide, 8*int64(a.Many)*int64(width))
	l.Optional("the long rows", a.Long, 4*int64(a.Many))
	l.Int(a.Many)
	l.Int(a.Rows)
}

// PullSeek stores in To, for every list, the first position from From on of a source of End or beyond. A source
// before Begin sets Bad to 1: the list does not ascend, or has no node of the graph.
type PullSeek struct {
	*Lists
	Begin, End int64       // the first node of the block, and the first one behind it
	Bad        cuda.Buffer // uint32, which the caller clears
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a PullSeek) Launch(s *cuda.Stream) error {
	rows := int64(a.Rows)
	l := begin(s, "seek sources")
	l.Buffer("the last positions", a.To, 4*rows)
	l.Buffer("the first positions", a.From, 4*rows)
	l.Buffer("the starts", a.Starts, 8*(rows+1))
	l.Buffer("the sources", a.Sources, 0)
	l.Word(uint64(a.Begin))
	l.Word(uint64(a.End))
	l.Buffer("the error", a.Bad, 4)
	l.Int(a.Rows)
	return l.line(pullSeek, 1, rows)
}

// Pull adds the rows of X, a block's, to the accumulators of their destinations:
//
//	Acc[i] += Σ X[source − First], or the largest of each column, over the list's part in the block
type Pull struct {
	Lists
	Acc    cuda.Buffer // float32
	Stride int         // of the rows of Acc, in floats
	X      cuda.Buffer // float32, rows next to each other
	Width  int
	Max    bool
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Pull) Launch(s *cuda.Stream) error {
	l := begin(s, "pull")
	k := pullSum
	if a.Max {
		k = pullMax
	}
	l.Buffer("the accumulators", a.Acc, cuda.MatrixBytes(a.Rows, a.Width, a.Stride))
	l.Int(a.Stride)
	l.Buffer("the input", a.X, 0)
	l.Int(a.Width)
	a.arguments(&l, a.Width)
	return l.rows(k, a.Rows, a.Width, unit([]int{a.Width, a.Stride}, a.Acc, a.X))
}

// PullHeads adds the rows of X, a block's, to the accumulators of attention. A row of X is
//
//	the products of the heads | their scores as sources | their scores as destinations
//
// and an accumulator
//
//	the sums of the heads | the sums of their weights | the largest scores | the scores as a destination
//
// A source's score is leaky(its own + the destination's), its weight exp(score − the largest so far, itself
// included); where that rises, the sums are first scaled down to it. A destination in its own list is left out.
type PullHeads struct {
	Lists
	Acc         cuda.Buffer // float32, rows of Heads·(Part+3)
	X           cuda.Buffer // float32, rows of Heads·(Part+2)
	Heads, Part int
	Slope       float32
	Nodes       cuda.Buffer // uint32: the destinations; none: they follow each other from Base on
	Base        uint32
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a PullHeads) Launch(s *cuda.Stream) error {
	l := begin(s, "pull heads")
	a.arguments(&l)
	columns := a.Heads * a.Part
	if err := l.rows(pullHeads, a.Rows, columns, unit([]int{a.Part, columns + 2*a.Heads, columns + 3*a.Heads}, a.Acc, a.X)); err != nil {
		return err
	}
	l = begin(s, "pull weights")
	a.arguments(&l)
	return l.line(pullWeights, 1, int64(a.Rows)*int64(a.Heads))
}

func (a *PullHeads) arguments(l *launch) {
	l.Buffer("the accumulators", a.Acc, 4*int64(a.Rows)*int64(a.Heads*(a.Part+3)))
	l.Buffer("the products", a.X, 0)
	l.Int(a.Heads)
	l.Int(a.Part)
	l.Word(uint64(math.Float32bits(a.Slope)))
	l.Optional("the nodes", a.Nodes, 4*int64(a.Rows))
	l.Word(uint64(a.Base))
	a.Lists.arguments(l, a.Heads*(a.Part+1))
}

// PullBegin makes the accumulators of PullHeads from the destinations' own rows of products, which have the
// weight 1, or, without Own, accumulators without a row, and scores as destinations of 0.
type PullBegin struct {
	Acc, Own    cuda.Buffer // float32
	Heads, Part int
	Slope       float32
	Rows        int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error.
func (a PullBegin) Launch(s *cuda.Stream) error {
	l := begin(s, "begin heads")
	l.Buffer("the accumulators", a.Acc, 4*int64(a.Rows)*int64(a.Heads*(a.Part+3)))
	l.Optional("the own products", a.Own, 4*int64(a.Rows)*int64(a.Heads*(a.Part+2)))
	l.Int(a.Heads)
	l.Int(a.Part)
	l.Word(uint64(math.Float32bits(a.Slope)))
	l.Int(a.Rows)
	return l.rows(pullBegin, a.Rows, a.Heads*a.Part, 1)
}

// PullUnfold adds the wide sums of rows with long lists to their accumulators.
type PullUnfold struct {
	Acc    cuda.Buffer // float32
	Stride int
	Wide   cuda.Buffer // float64
	Width  int         // wide sums of a row
	Long   cuda.Buffer // uint32: the rows
	Many   int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the size of Acc is not
// checked.
func (a PullUnfold) Launch(s *cuda.Stream) error {
	l := begin(s, "unfold")
	l.Buffer("the accumulators", a.Acc, 0)
	l.Int(a.Stride)
	l.Buffer("the wide sums", a.Wide, 8*int64(a.Many)*int64(a.Width))
	l.Int(a.Width)
	l.Buffer("the long rows", a.Long, 4*int64(a.Many))
	l.Int(a.Many)
	return l.rows(pullUnfold, a.Many, a.Width, 1)
}

// Settle weighs accumulators and own rows:
//
//	Out[i] = Factors[i]·Acc[i] + Owns[i]·Own[i]
//
// Where a factor is 0, the accumulator does not count, even if it is not finite. Without Own there is no second
// term.
type Settle struct {
	Out       cuda.Buffer // float32
	Stride    int
	Acc       cuda.Buffer // float32
	Gap       int         // stride of the rows of Acc
	Width     int
	Factors   cuda.Buffer // float32
	Own, Owns cuda.Buffer // float32, rows next to each other; both may be none
	Rows      int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error.
func (a Settle) Launch(s *cuda.Stream) error {
	l := begin(s, "settle")
	if (a.Own == cuda.Buffer{}) != (a.Owns == cuda.Buffer{}) {
		l.Fail("own rows without factors, or factors without own rows")
	}
	l.matrix("the output", a.Out, a.Rows, a.Width, a.Stride)
	l.matrix("the accumulators", a.Acc, a.Rows, a.Width, a.Gap)
	l.Int(a.Width)
	l.Buffer("the factors", a.Factors, 4*int64(a.Rows))
	l.Optional("the own rows", a.Own, cuda.MatrixBytes(a.Rows, a.Width, a.Width))
	l.Optional("the own factors", a.Owns, 4*int64(a.Rows))
	l.Int(a.Rows)
	return l.rows(settle, a.Rows, a.Width, unit([]int{a.Width, a.Stride, a.Gap}, a.Out, a.Acc, a.Own))
}

// SettleHeads divides the sums of PullHeads by the sums of their weights; without weights the result is 0. Out has the
// heads' results side by side, or, if Mean, their mean. If Add, they are added to it.
type SettleHeads struct {
	Out, Acc    cuda.Buffer // float32
	Heads, Part int
	Mean, Add   bool
	Rows        int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error.
func (a SettleHeads) Launch(s *cuda.Stream) error {
	width := a.Heads * a.Part
	if a.Mean {
		width = a.Part
	}
	l := begin(s, "settle heads")
	l.Buffer("the output", a.Out, 4*int64(a.Rows)*int64(width))
	l.Buffer("the accumulators", a.Acc, 4*int64(a.Rows)*int64(a.Heads*(a.Part+3)))
	l.Int(a.Heads)
	l.Int(a.Part)
	l.Bool(a.Mean)
	l.Bool(a.Add)
	l.Int(a.Rows)
	return l.rows(settleHeads, a.Rows, width, 1)
}

// ScaleRows multiplies rows by factors, in place.
type ScaleRows struct {
	X       cuda.Buffer // float32, rows next to each other
	Width   int
	Factors cuda.Buffer // float32
	Rows    int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error.
func (a ScaleRows) Launch(s *cuda.Stream) error {
	l := begin(s, "scale rows")
	l.Buffer("the rows", a.X, cuda.MatrixBytes(a.Rows, a.Width, a.Width))
	l.Int(a.Width)
	l.Buffer("the factors", a.Factors, 4*int64(a.Rows))
	l.Int(a.Rows)
	return l.rows(scaleRows, a.Rows, a.Width, unit([]int{a.Width}, a.X))
}

// FillFloats sets floats to a value.
type FillFloats struct {
	X     cuda.Buffer // float32
	Value float32
	Count int
}

// Launch enqueues the work on the stream. A buffer that is too small is an error.
func (a FillFloats) Launch(s *cuda.Stream) error {
	l := begin(s, "fill floats")
	l.Buffer("the floats", a.X, 4*int64(a.Count))
	l.Word(uint64(math.Float32bits(a.Value)))
	l.Int(a.Count)
	return l.line(fillFloats, 1, int64(a.Count))
}
