package cuda

import "fmt"

// kernelID is one of the compiled functions.
type kernelID int

const (
	gatherFloat32 kernelID = iota
	gatherFloat16
	gatherBFloat16
	gatherInt8
	aggregate
	aggregateTransposed
	scatterReLU
	scatterELU
	biasNone
	biasReLU
	biasELU
	backwardNone
	backwardReLU
	backwardELU
	zeroPadding
	adam
	aggregateHeads
	combineHeads
	maximum
	maximumBackward
	standardize
	standardizeBackward
	edgeDots
	sumEdges
	// These take one float at a time.
	sumColumns
	crossEntropy
	binaryCrossEntropy
	sumLosses
	edgeSoftmax
	edgeSoftmaxBackward
	layerNorm
	layerNormBackward
	sumProducts
	sumSquares
	columnMeans
	columnVariances
	checksum

	namedKernels
	// Those before sumColumns exist for four floats at a time, too.
	wide        = namedKernels
	kernelCount = namedKernels + sumColumns
)

// kernelNames are the kernels' files and names.
var kernelNames = [namedKernels]struct{ file, name string }{
	gatherFloat32:       {"gather", "gather_float32_"},
	gatherFloat16:       {"gather", "gather_float16_"},
	gatherBFloat16:      {"gather", "gather_bfloat16_"},
	gatherInt8:          {"gather", "gather_int8_"},
	aggregate:           {"aggregate", "aggregate"},
	aggregateTransposed: {"aggregate", "aggregate_transposed"},
	scatterReLU:         {"scatter", "scatter_relu"},
	scatterELU:          {"scatter", "scatter_elu"},
	biasNone:            {"tail", "bias_none"},
	biasReLU:            {"tail", "bias_relu"},
	biasELU:             {"tail", "bias_elu"},
	backwardNone:        {"tail", "backward_none"},
	backwardReLU:        {"tail", "backward_relu"},
	backwardELU:         {"tail", "backward_elu"},
	zeroPadding:         {"pad", "zero_padding"},
	adam:                {"adam", "adam"},
	aggregateHeads:      {"heads", "aggregate_heads"},
	combineHeads:        {"heads", "combine_heads"},
	maximum:             {"maximum", "maximum"},
	maximumBackward:     {"maximum", "maximum_backward"},
	standardize:         {"norm", "standardize"},
	standardizeBackward: {"norm", "standardize_backward"},
	sumColumns:          {"tail", "sum_columns"},
	crossEntropy:        {"loss", "cross_entropy"},
	binaryCrossEntropy:  {"binary", "binary_cross_entropy"},
	sumLosses:           {"loss", "sum_losses"},
	edgeSoftmax:         {"attention", "edge_softmax"},
	edgeSoftmaxBackward: {"attention", "edge_softmax_backward"},
	sumEdges:            {"attention", "sum_edges"},
	edgeDots:            {"heads", "edge_dots"},
	layerNorm:           {"norm", "layer_norm"},
	layerNormBackward:   {"norm", "layer_norm_backward"},
	sumProducts:         {"norm", "sum_products"},
	sumSquares:          {"norm", "sum_squares"},
	columnMeans:         {"norm", "column_means"},
	columnVariances:     {"norm", "column_variances"},
	checksum:            {"checksum", "checksum"},
}

// loadKernels finds every kernel in the compiled files.
func (d *Device) loadKernels() error {
	modules := make(map[string]handle)
	for k, n := range kernelNames {
		m, ok := modules[n.file]
		if !ok {
			image, err := d.driver.image(n.file)
			if err != nil {
				return d.failed("load the kernels of "+n.file, err)
			}
			if m, err = d.driver.loadModule(image); err != nil {
				return d.failed("load the kernels of "+n.file, err)
			}
			modules[n.file] = m
			d.modules = append(d.modules, m)
		}
		var err error
		if d.kernels[k], err = d.driver.function(m, n.name); err != nil {
			return d.failed("find kernel "+n.name, err)
		}
		if kernelID(k) >= sumColumns {
			continue
		}
		if d.kernels[wide+kernelID(k)], err = d.driver.function(m, n.name+"4"); err != nil {
			return d.failed("find kernel "+n.name+"4", err)
		}
	}
	return nil
}

// Count is a number of rows: Most, or what the uint32 in device memory says, if that
// is less. Launches are made for Most rows.
type Count struct {
	Most int
	At   Buffer // zero: Most rows
}

// Rows returns a count that is known at the launch.
func Rows(n int) Count { return Count{Most: n} }

const (
	blockThreads = 256
	// maxRows is how many rows a launch may be for: a block takes one at least.
	maxRows = 1<<31 - 1
)

// launch collects the arguments of a launch and checks them.
type launch struct {
	stream *Stream
	what   string
	err    error
}

// launch begins a launch. The name is that of errors.
func (s *Stream) launch(what string) launch {
	s.args = s.args[:0]
	return launch{s, what, s.device.usable()}
}

func (l *launch) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("cuda: "+l.what+": "+format, args...)
	}
}

// buffer adds a pointer to at least so many bytes.
func (l *launch) buffer(name string, b Buffer, bytes int64) {
	if l.err == nil {
		l.err = needs(l.what, name, b, bytes)
	}
	l.word(b.address)
}

// aligned checks that four floats of a buffer may be read at once.
func (l *launch) aligned(name string, b Buffer) {
	if b.address%16 != 0 {
		l.fail("%s at %#x", name, b.address)
	}
}

// optional adds a pointer that may be null.
func (l *launch) optional(name string, b Buffer, bytes int64) {
	if b == (Buffer{}) {
		bytes = 0
	}
	l.buffer(name, b, bytes)
}

// matrix adds a pointer to rows of float32s, and how far apart they are.
func (l *launch) matrix(name string, b Buffer, rows, cols, stride int) {
	if cols > stride {
		l.fail("rows of %d in %s, %d apart", cols, name, stride)
	}
	l.buffer(name, b, matrixBytes(rows, cols, stride))
	l.int(stride)
}

func (l *launch) count(c Count) {
	if c.Most < 0 || c.Most > maxRows {
		l.fail("%d rows", c.Most)
	}
	l.optional("the number of rows", c.At, 4)
	l.int(c.Most)
}

func (l *launch) bool(b bool) {
	if b {
		l.word(1)
	} else {
		l.word(0)
	}
}

func (l *launch) int(n int)     { l.word(uint64(n)) }
func (l *launch) word(w uint64) { l.stream.args = append(l.stream.args, w) }

// rows launches a kernel of which a thread takes unit floats of a row, width floats
// long, and a block whole rows. Threads are divided evenly among a row's units: a row
// of 25 has 25 threads, one of 43 two times 22.
func (l *launch) rows(k kernelID, rows, width, unit int) error {
	return l.blocks(k, rows, width, unit, maxRows)
}

// blocks is rows with so many blocks at most, which then take turns.
func (l *launch) blocks(k kernelID, rows, width, unit, most int) error {
	units := max(1, (width+unit-1)/unit)
	turns := (units + 31) / 32
	x := (units + turns - 1) / turns
	y := blockThreads / x
	return l.grid(k, unit, dims{uint32(min((rows+y-1)/y, most)), 1}, dims{uint32(x), uint32(y)})
}

// tiles launches a kernel as rows does, but a thread takes unit floats of its row alone:
// the grid's y dimension goes on along the rows.
func (l *launch) tiles(k kernelID, rows, width, unit int) error {
	units := max(1, (width+unit-1)/unit)
	turns := (units + 31) / 32
	x := (units + turns - 1) / turns
	y := blockThreads / x
	return l.grid(k, unit, dims{uint32((rows + y - 1) / y), uint32(turns)}, dims{uint32(x), uint32(y)})
}

// grid launches a kernel. There is nothing to do for an empty grid.
func (l *launch) grid(k kernelID, unit int, grid, block dims) error {
	if l.err != nil || grid.x == 0 || grid.y == 0 {
		return l.err
	}
	if unit == 4 {
		k += wide
	}
	s := l.stream
	return s.asked(l.what, s.device.driver.launch(s.device.kernels[k], grid, block, s.handle, s.args))
}

// unit returns how many floats a thread may take at once: four where all widths and
// strides are multiples of that, and all addresses fit.
func unit(sizes []int, buffers ...Buffer) int {
	for _, n := range sizes {
		if n%4 != 0 {
			return 1
		}
	}
	for _, b := range buffers {
		if b.address%16 != 0 {
			return 1
		}
	}
	return 4
}
