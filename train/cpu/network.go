package cpu

import (
	"context"

	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
)

// network is the shared state of a model's layers: the plan, the parameters, the buffers, the
// workers and the batch under way. It must not refer to the machine: Gorgonia gives the one inside
// it a finalizer, and a cycle through it would keep all buffers for ever.
type network struct {
	*plan
	memory
	operations
	pool     *pool
	blas     *blas.Library
	training bool
	dropout  kernel.Dropout // none outside training

	weights, grads []float32 // of all parameters, and of those trained

	partial []float32 // group sums of the weight gradient being computed
	scratch []float32 // of the workers, one after the other
	wide    []float64 // likewise, for long sums

	// The batch that is being run.
	ctx  context.Context
	in   *Input
	seed uint64
	at   engine.Place
	err  error // the reason why the run stopped
}

// memory hands out a network's buffers, from an arena.
type memory struct {
	*device.Arena
	buffers [][]float32 // handed out
	// The largest needs of any layer for shared memory.
	partialFloats, scratchWidth, wideWidth int
}

func (m *memory) floats(n int) []float32 {
	b := device.Take[float32](m.Arena, n)
	if b != nil {
		m.buffers = append(m.buffers, b)
	}
	return b
}

func (m *memory) doubles(n int) []float64 { return device.Take[float64](m.Arena, n) }

func (m *memory) indices(n int) []uint32 { return device.Take[uint32](m.Arena, n) }

// needPartial notes that the gradient of a weight with weight elements will be summed over at most
// rows rows.
func (m *memory) needPartial(rows, weight int) {
	m.partialFloats = max(m.partialFloats, divUp(rows, groupRows(rows, weight))*weight)
}

// needScratch reserves rows of this width for a chunk, for every worker.
func (m *memory) needScratch(width int) { m.scratchWidth = max(m.scratchWidth, width) }

// workerScratch returns the worker's own memory for rows of this width.
func (n *network) workerScratch(worker, rows, width int) []float32 {
	size := chunkRows * n.scratchWidth
	return n.scratch[worker*size:][:rows*width]
}

// each runs b over n rows in chunks of grain, and keeps the error that stopped it: the machine
// would hide it behind a trace.
func (n *network) each(rows, grain int, b body) error {
	if n.err == nil {
		n.err = n.pool.each(n.ctx, rows, grain, b)
	}
	return n.err
}

// A float32 that grows by ones stops at 2²⁴, and loses digits long before. So the sums of a
// destination with many neighbours, such as a hub's in inference over a whole graph, are made of
// blocks: each is summed in float32, and the blocks in float64.
const (
	// longSum neighbours or fewer are summed in float32 throughout: no fanout is larger, so only
	// batches with all neighbours have longer sums.
	longSum = 1 << 16
	// sumBlock neighbours are a block. The error of its sum is at most 2⁻¹² of the sum of
	// its magnitudes, and in the order of 2⁻²⁰.
	sumBlock = 1 << 12
)

// needLong notes that a destination of edges edges will sum rows of this width.
func (m *memory) needLong(edges, width int) {
	if edges > longSum {
		m.wideWidth = max(m.wideWidth, width)
	}
}

// workerWide returns the worker's own sums in float64, zero.
func (n *network) workerWide(worker, width int) []float64 {
	s := n.wide[worker*n.wideWidth:][:width]
	clear(s)
	return s
}

func addWide(wide []float64, row []float32) {
	row = row[:len(wide)]
	for c := range wide {
		wide[c] += float64(row[c])
	}
}

// gatherLong is kernel.GatherSum, block by block.
func (n *network) gatherLong(worker int, row, y []float32, edges []uint32, w []float32, scale float32) {
	wide := n.workerWide(worker, len(row))
	for len(edges) > 0 {
		block := edges[:min(sumBlock, len(edges))]
		kernel.GatherSum(row, y, block, w, 1, false)
		addWide(wide, row)
		edges = edges[len(block):]
	}
	for c, v := range wide {
		row[c] = float32(v * float64(scale))
	}
}
