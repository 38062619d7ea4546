package model

// Order is the order of a layer's two linear operations. Weighted sums and linear maps commute,
// with attention for every head, so both orders give the same function; the block and the widths
// decide which one is cheaper.
type Order string

const (
	Auto Order = "auto"
	// Aggregate sums the neighbours' features first and multiplies the sums: a product per
	// destination, a sum in the width of the input.
	Aggregate Order = "aggregate"
	// Multiply multiplies every source's features first and sums the products: a
	// product per source, a sum in the width of the output.
	Multiply Order = "multiply"
)

// OperandWidth returns the width of the rows that a layer multiplies with weights, per destination:
// of sums, if it aggregates first, and of the destinations' own rows, if own says that these have
// weights of their own. in is the width of both.
func (o Order) OperandWidth(in int, own bool) int {
	width := 0
	if o == Aggregate {
		width += in
	}
	if own {
		width += in
	}
	return width
}

var orders = []Order{Auto, Aggregate, Multiply}

// ParseOrder returns the order with this name, and whether there is one.
func ParseOrder(name string) (Order, bool) {
	for _, o := range orders {
		if string(o) == name {
			return o, true
		}
	}
	return "", false
}

// layerCounts holds the counts that decide the cost of a layer, typical of the batches to come.
type layerCounts struct {
	Src, Dst, Edges int  // of the block
	In, Out         int  // widths
	Self            bool // destinations' own features are multiplied, too
	Input           bool // the outermost layer: its input needs no gradient
	Train           bool // the backward pass counts too
	Heads, Part     int  // of attention, and the width of a head's result; else 0
}

// Rates are the speeds of one core. Only their ratio matters.
type Rates struct {
	Flops float64 // of matrix products, per second
	Bytes float64 // of gathers, read or written, per second
	Terms float64 // of sums that several heads weigh: a product and an addition, per second
	Far   float64 // of such terms where the heads' sums together are longer than nearFloats
}

// nearFloats is how long the sums of a destination may be for the nearest cache to hold
// them while they grow.
const nearFloats = 8 << 10

// Rates of one core, rounded from measurements of OpenBLAS with AVX-512, of gonum,
// of gathers of 512-byte to 1-KiB rows from memory, and of kernels over rows in the
// nearest cache and beyond it.
var (
	OpenBLASRates = Rates{Flops: 120e9, Bytes: 10e9, Terms: 30e9, Far: 5e9}
	GonumRates    = Rates{Flops: 10e9, Bytes: 10e9, Terms: 30e9, Far: 5e9}
)

// chooseOrder returns the order with the smaller predicted cost.
func chooseOrder(l layerCounts, r Rates) Order {
	if l.cost(Multiply, r) < l.cost(Aggregate, r) {
		return Multiply
	}
	return Aggregate
}

// cost predicts the seconds of a layer on one core: matrix products at the flop rate, plus the
// bytes of gathers at the byte rate. It leaves out the common part of both orders, such as the
// activation.
func (l layerCounts) cost(o Order, r Rates) float64 {
	if l.Heads > 0 {
		return l.attentionCost(o, r)
	}
	var (
		src, dst, edges = float64(l.Src), float64(l.Dst), float64(l.Edges)
		in, out         = float64(l.In), float64(l.Out)
		perDst, perSrc  = 2 * dst * in * out, 2 * src * in * out // one product's flops
		flops, bytes    float64
	)
	if !l.Self {
		perDst = 0
	}
	passes := l.passes()
	if o == Multiply {
		flops = passes * (perSrc + perDst)    // x·Wneigh, x·Wself
		bytes = 4 * out * (src + edges + dst) // products written, gathered, summed
		if l.Train {
			bytes += 4 * out * (edges + 2*src) // transposed gather, written and read
		}
		return flops/r.Flops + bytes/r.Bytes
	}
	flops = passes * (2*dst*in*out + perDst)
	bytes = 4 * in * (edges + dst)
	if l.Train && !l.Input {
		bytes += 4 * in * (edges + dst + src)
	}
	return flops/r.Flops + bytes/r.Bytes
}

// passes counts passes over every product: forward, weights' gradient, input's.
func (l layerCounts) passes() float64 {
	switch {
	case !l.Train:
		return 1
	case l.Input:
		return 2
	}
	return 3
}

// attentionCost is the cost of attention, without a residual, which both orders share.
func (l layerCounts) attentionCost(o Order, r Rates) float64 {
	var (
		src, dst, edges = float64(l.Src), float64(l.Dst), float64(l.Edges)
		in, heads       = float64(l.In), float64(l.Heads)
		columns         = heads * float64(l.Part)
		flops, bytes    float64
		terms           float64
	)
	if o == Multiply {
		row := columns + 2*heads // of a source: with its parts of the scores
		flops = l.passes() * 2 * src * in * row
		bytes = 4 * (src*row + edges*columns) // rows written, gathered
		terms = edges * columns
		if l.Train {
			// The rows' gradients, written and read; rows gathered again, and the sums' gradients.
			bytes += 4 * (2*src*row + edges*(columns+float64(l.Out)))
			terms += 2 * edges * columns
		}
		return flops/r.Flops + bytes/r.Bytes + terms/r.Terms
	}
	flops = 2 * dst * in * columns
	bytes = 4 * in * edges // gathered for the scores; the sums find them in the cache
	terms = 2 * in * edges * heads
	if l.Train {
		flops *= 3                  // the sums' gradient serves the scores too
		bytes += 4 * in * 2 * edges // for the sums, made again, and for the scores' gradients
		terms += 3 * in * edges * heads
	}
	if l.Train && !l.Input {
		bytes += 4 * in * heads * (dst + edges) // gradients of the sums, written and gathered
		terms += in * edges * heads
	}
	rate := r.Terms
	if in*heads > nearFloats {
		rate = r.Far
	}
	return flops/r.Flops + bytes/r.Bytes + terms/rate
}
