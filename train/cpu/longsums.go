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

// needLong does it for the heads' sums, and for those of their weights.
func (a *attention) needLong() {
	n := a.net
	n.needLong(n.sizes.Edges[a.index-n.first]+1, a.heads*(a.columns+1))
}

// workerWide returns the worker's own sums in float64, zero.
func (n *network) workerWide(worker, width int) []float64 {
	s := n.wide[worker*n.wideWidth:][:width]
	clear(s)
	return s
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

func addWide(wide []float64, row []float32) {
	row = row[:len(wide)]
	for c := range wide {
		wide[c] += float64(row[c])
	}
}

// sumLong stores the weighted sums over the sources as sum does, block by block.
func (a *attention) sumLong(row []float32, worker int, sources []uint32, w []float32) {
	wide := a.net.workerWide(worker, len(row))
	for len(sources) > 0 {
		n := min(sumBlock, len(sources))
		a.of.gather(row, sources[:n], w[:n*a.heads], false)
		addWide(wide, row)
		sources, w = sources[n:], w[n*a.heads:]
	}
	for c, v := range wide {
		row[c] = float32(v)
	}
}

// addLong adds the rows of w to sum as addRows does, block by block.
func (a *attention) addLong(sum []float32, worker int, w []float32) {
	wide := a.net.workerWide(worker, len(sum))
	for len(w) > 0 {
		block := w[:min(sumBlock*a.heads, len(w))]
		clear(sum)
		addRows(sum, block)
		addWide(wide, sum)
		w = w[len(block):]
	}
	for h, v := range wide {
		sum[h] = float32(v)
	}
}

// weighLong does what weighOnline does, block by block.
func (a *attention) weighLong(row []float32, worker, i int) {
	sources, _, _ := a.neighbours(i)
	own, top, sum, run := a.begins(worker, sources)
	wide := a.net.workerWide(worker, len(row)+a.heads) // of the rows, then of the weights
	for len(sources) > 0 {
		block := sources[:min(sumBlock, len(sources))]
		sources = sources[len(block):]
		for from := 0; from < len(block); from += edgeRun {
			some := block[from:min(from+edgeRun, len(block))]
			w := run[:len(some)*a.heads]
			a.of.sourceScores(w, some)
			a.lower(row, w, own, top, sum, wide)
			a.weighRun(row, some, w, own, top, sum, from > 0)
		}
		addWide(wide[:len(row)], row)
		addWide(wide[len(row):], sum)
		clear(sum)
	}
	for h, v := range wide[len(row):] {
		for c := h * a.columns; c < (h+1)*a.columns; c++ {
			row[c] = float32(wide[c] / v)
		}
	}
}
