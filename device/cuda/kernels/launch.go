package kernels

import "diskgnn/device/cuda"

// Count is a number of rows: Most, or the uint32 in device memory if that is less. Launches are made
// for Most rows.
type Count struct {
	Most int
	At   cuda.Buffer // zero: Most rows
}

// Rows returns a count that is known at the launch.
func Rows(n int) Count { return Count{Most: n} }

const (
	blockThreads = 256
	// maxRows is how many rows a launch may be for: a block takes one at least.
	maxRows = 1<<31 - 1
)

// launch is a cuda.Launch that knows how the kernels here take rows.
type launch struct{ cuda.Launch }

// begin begins a launch. Errors name it by what.
func begin(s *cuda.Stream, what string) launch { return launch{s.Launch(what)} }

// aligned checks that four floats of a buffer may be read at once.
func (l *launch) aligned(name string, b cuda.Buffer) {
	if b.Address()%16 != 0 {
		l.Fail("%s at the address %#x, not a multiple of 16", name, b.Address())
	}
}

// matrix adds a pointer to rows of float32s, and how far apart they are.
func (l *launch) matrix(name string, b cuda.Buffer, rows, cols, stride int) {
	if cols > stride {
		l.Fail("%s with rows of %d elements and a stride of %d", name, cols, stride)
	}
	l.Buffer(name, b, cuda.MatrixBytes(rows, cols, stride))
	l.Int(stride)
}

func (l *launch) count(c Count) {
	if c.Most < 0 || c.Most > maxRows {
		l.Fail("%d rows are not from 0 to %d", c.Most, maxRows)
	}
	l.Optional("the number of rows", c.At, 4)
	l.Int(c.Most)
}

// rows launches a kernel of which a thread takes unit floats of a row, width floats
// long, and a block whole rows. Threads are divided evenly among a row's units: a row
// of 25 has 25 threads, one of 43 two times 22.
func (l *launch) rows(k compiled, rows, width, unit int) error {
	return l.blocks(k, rows, width, unit, maxRows)
}

// blocks is rows with at most most blocks, which then take turns.
func (l *launch) blocks(k compiled, rows, width, unit, most int) error {
	units := max(1, (width+unit-1)/unit)
	turns := (units + 31) / 32
	x := (units + turns - 1) / turns
	y := blockThreads / x
	return l.grid(k, unit, cuda.Dims{uint32(min((rows+y-1)/y, most)), 1}, cuda.Dims{uint32(x), uint32(y)})
}

// tiles launches a kernel as rows does, but a thread takes unit floats of its row alone:
// the grid's y dimension goes on along the rows.
func (l *launch) tiles(k compiled, rows, width, unit int) error {
	units := max(1, (width+unit-1)/unit)
	turns := (units + 31) / 32
	x := (units + turns - 1) / turns
	y := blockThreads / x
	return l.grid(k, unit, cuda.Dims{uint32((rows + y - 1) / y), uint32(turns)}, cuda.Dims{uint32(x), uint32(y)})
}

// grid launches the kernel's function that takes unit floats at a time: one or four.
func (l *launch) grid(k compiled, unit int, grid, block cuda.Dims) error {
	f := k.one
	if unit == 4 {
		f = k.four
	}
	return l.Run(f, grid, block)
}

// unit returns how many floats a thread may take at once: four where all widths and
// strides are multiples of that, and all addresses fit.
func unit(sizes []int, buffers ...cuda.Buffer) int {
	for _, n := range sizes {
		if n%4 != 0 {
			return 1
		}
	}
	for _, b := range buffers {
		if b.Address()%16 != 0 {
			return 1
		}
	}
	return 4
}
