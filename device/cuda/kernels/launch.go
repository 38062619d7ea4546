package kernels

import "diskgnn/device/cuda"

// Count is a number of rows: Most, or the uint32 at At in device memory if that is less. A launch has
// threads for Most rows.
type Count struct {
	Most int
	At   cuda.Buffer // zero: Most rows
}

// Rows returns a Count of n rows that is known at the launch.
func Rows(n int) Count { return Count{Most: n} }

const (
	blockThreads = 256
	// maxRows is the largest number of rows of a launch: a block takes at least one.
	maxRows = 1<<31 - 1
)

// launch is a cuda.Launch with the grids of this package's kernels.
type launch struct{ cuda.Launch }

// begin begins a launch. Errors name it by what.
func begin(s *cuda.Stream, what string) launch { return launch{s.Launch(what)} }

// aligned checks that four floats of a buffer may be read at once.
func (l *launch) aligned(name string, b cuda.Buffer) {
	if b.Address()%16 != 0 {
		l.Fail("%s at the address %#x, not a multiple of 16", name, b.Address())
	}
}

// matrix adds a pointer to rows of float32, and their stride in elements.
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

// rows launches a kernel where a thread takes unit floats of a row of width floats, and a block takes whole
// rows. A row's units are divided evenly among threads: 25 units have 25 threads, and 43 units have 22
// threads that take two turns.
func (l *launch) rows(k compiled, rows, width, unit int) error {
	return l.blocks(k, rows, width, unit, maxRows)
}

// blocks is rows with at most the given number of blocks, which then take several turns.
func (l *launch) blocks(k compiled, rows, width, unit, most int) error {
	units := max(1, (width+unit-1)/unit)
	turns := (units + 31) / 32
	x := (units + turns - 1) / turns
	y := blockThreads / x
	return l.grid(k, unit, cuda.Dims{uint32(min((rows+y-1)/y, most)), 1}, cuda.Dims{uint32(x), uint32(y)})
}

// tiles launches a kernel as rows does, but a thread takes only one unit of its row: the grid's y dimension
// continues along the rows.
func (l *launch) tiles(k compiled, rows, width, unit int) error {
	units := max(1, (width+unit-1)/unit)
	turns := (units + 31) / 32
	x := (units + turns - 1) / turns
	y := blockThreads / x
	return l.grid(k, unit, cuda.Dims{uint32((rows + y - 1) / y), uint32(turns)}, cuda.Dims{uint32(x), uint32(y)})
}

// line launches a kernel with a thread for each of some items, by the function that takes unit floats at a time.
func (l *launch) line(k compiled, unit int, items int64) error {
	return l.grid(k, unit, cuda.Dims{uint32((items + blockThreads - 1) / blockThreads), 1}, cuda.Dims{blockThreads, 1})
}

// grid launches the kernel's function that takes unit floats at a time: one or four.
func (l *launch) grid(k compiled, unit int, grid, block cuda.Dims) error {
	f := k.one
	if unit == 4 {
		f = k.four
	}
	return l.Run(f, grid, block)
}

// unit returns the number of floats that a thread may take at once: four if all widths and strides are
// multiples of four and all addresses are aligned, else one.
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
