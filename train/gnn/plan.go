package gnn

import (
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/gnn/model"
)

const (
	// chunkRows are computed together: gathered, multiplied and finished while
	// they are in the second-level cache.
	chunkRows = 512

	// The gradient of a weight sums over all rows. It is summed per group of rows,
	// and the groups are added in order: so the bits depend on the groups, which
	// follow from the maximum sizes, and never on the number of threads.
	minGroupRows  = 1024
	maxGroups     = 32
	maxGroupBytes = 64 << 20 // of one weight's group sums, while that leaves four groups
	minGroups     = 4

	// weightTile rows of a weight's gradient are one worker's at a time.
	weightTile = 256

	// updateGrain parameters are updated by one worker at a time.
	updateGrain = 1 << 14

	// blasBytesPerThread is what OpenBLAS touches for its packed operands.
	blasBytesPerThread = 4 << 20
)

// plan holds what follows from a model and its sizes: the shapes of all buffers.
// MemoryBytes and the engine both go by it.
type plan struct {
	model   *model.Model
	orders  []model.Order
	sizes   graph.Sizes
	threads int
	params  []model.Param
	count   int // elements of all parameters
}

func newPlan(m *model.Model, orders []model.Order, sizes graph.Sizes, threads int) *plan {
	p := &plan{model: m, orders: orders, sizes: sizes, threads: threads, params: m.Params()}
	for i := range p.params {
		p.count += p.params[i].Len()
	}
	return p
}

func checkSizes(m *model.Model, s graph.Sizes) error {
	n := m.Layers()
	if len(s.Src) != n || len(s.Dst) != n || len(s.Edges) != n {
		return fault.New(fault.ErrUsage, "gnn: sizes of %d blocks for %d layers", len(s.Src), n)
	}
	for l := range n {
		if s.Src[l] < 0 || s.Dst[l] < 0 || s.Edges[l] < 0 || l > 0 && s.Src[l] > s.Dst[l-1] {
			return fault.New(fault.ErrUsage, "gnn: impossible sizes at layer %d", l)
		}
	}
	return nil
}

// rows returns the rows of layer l's output tensor. Gorgonia takes a matrix of one
// element for a scalar, so there are at least two.
func (p *plan) rows(l int) int { return max(2, p.sizes.Dst[l]) }

// sources returns the rows of layer l's input: as many as the layer before puts out.
func (p *plan) sources(l int) int {
	if l > 0 {
		return p.rows(l - 1)
	}
	return max(2, p.sizes.Src[0])
}

// groupRows returns the rows of one group in a sum over at most rows rows that
// gives a weight of the given number of elements: whole chunks.
func groupRows(rows, weight int) int {
	groups := max(minGroups, min(maxGroups, maxGroupBytes/4/weight))
	g := max(minGroupRows, (rows+groups-1)/groups)
	return (g + chunkRows - 1) / chunkRows * chunkRows
}

func divUp(a, b int) int { return (a + b - 1) / b }

// operandWidth returns the width of the rows that layer l's weights are multiplied
// with, destination by destination: the mean beside the node's own features or, when
// the neighbours have been multiplied already, its own features alone.
func (p *plan) operandWidth(l int) int {
	if p.orders[l] == model.Multiply {
		return p.model.In(l)
	}
	return 2 * p.model.In(l)
}

// keepsOperands tells whether layer l's operands are copied: always for means, else
// when the destinations may be scattered among the sources.
func (p *plan) keepsOperands(l int) bool { return l == 0 || p.orders[l] == model.Aggregate }

// trainingFloats counts the float32s of all buffers of a training network.
func (p *plan) trainingFloats() int {
	n, partial := 0, 0
	for l := range p.model.Layers() {
		in, out, rows := p.model.In(l), p.model.Out(l), p.rows(l)
		n += rows * out                   // output
		n += divUp(rows, chunkRows) * out // bias sums
		if p.keepsOperands(l) {
			n += rows * p.operandWidth(l)
		}
		if p.orders[l] == model.Multiply {
			n += 2 * p.sources(l) * out // products and their gradient
		}
		if l > 0 {
			n += p.sources(l) * in // gradient of the input
			if p.orders[l] == model.Aggregate {
				n += rows * in // gradient of the means
			}
		}
		partial = max(partial, p.partialFloats(l))
	}
	last := p.model.Layers() - 1
	n += p.rows(last) * p.model.Classes() // gradient of the logits
	n += 2 * p.rows(last)                 // losses by row, float64
	return n + partial + 4*p.count        // weights, gradient, two moments
}

// partialFloats counts the group sums of layer l's weight gradients.
func (p *plan) partialFloats(l int) int {
	sums := func(rows, weight int) int { return divUp(rows, groupRows(rows, weight)) * weight }
	n := sums(p.rows(l), p.operandWidth(l)*p.model.Out(l))
	if p.orders[l] == model.Multiply {
		n = max(n, sums(p.sources(l), p.model.In(l)*p.model.Out(l)))
	}
	return n
}

// scratchFloats counts what one worker of an evaluator needs for the operands of a
// chunk.
func (p *plan) scratchFloats() int {
	width := 0
	for l := range p.model.Layers() {
		width = max(width, p.operandWidth(l))
	}
	return chunkRows * width
}

// inferenceFloats counts the float32s of all buffers of an evaluator.
func (p *plan) inferenceFloats() int {
	n := p.threads * p.scratchFloats()
	for l := range p.model.Layers() {
		n += p.rows(l) * p.model.Out(l)
		if p.orders[l] == model.Multiply {
			n += p.sources(l) * p.model.Out(l)
		}
	}
	return n
}
