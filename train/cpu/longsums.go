package cpu

import "diskgnn/internal/kernel"

// A float32 that grows by ones stops at 2²⁴, and loses digits long before. So the sums of
// a destination with many neighbours, such as a hub has in inference over a whole graph,
// are made of blocks: each is summed in float32, and the blocks in float64.
const (
	// longSum neighbours are summed in float32 throughout: no fanout is larger, so that
	// longer sums are those of batches with all neighbours.
	longSum = 1 << 16
	// sumBlock neighbours are a block. The error of its sum is at most 2⁻¹² of the sum of
	// its magnitudes, and in the order of 2⁻²⁰.
	sumBlock = 1 << 12
)

// needLong notes that a destination of so many edges will sum rows of this width.
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

// gatherLong does what kernel.GatherSum does, block by block.
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
