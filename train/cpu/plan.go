package cpu

import (
	"diskgnn/graph"
	"diskgnn/train/model"
)

const (
	// chunkRows rows are computed together: gathered, multiplied and finished while they are in the
	// second-level cache.
	chunkRows = 512

	// attendRows destinations are a worker's unit if each takes long: fewer than a chunk.
	attendRows = 128

	// The gradient of a weight sums over all rows. It is summed per group of rows, and the groups
	// are added in order: so the bits depend on the groups, which depend on the maximum sizes, and
	// never on the number of threads.
	minGroupRows  = 1024
	maxGroups     = 32
	maxGroupBytes = 64 << 20 // of one weight's group sums, while that leaves four groups
	minGroups     = 4

	// weightTile rows of a weight's gradient are a worker's unit.
	weightTile = 256

	// updateGrain parameters are updated by one worker at a time.
	updateGrain = 1 << 14
)

// plan is the data that depends on a model and its sizes, for the layers from first on: one for
// each block of the sizes. Orders and sizes count from first.
type plan struct {
	model   *model.Model
	first   int
	orders  []model.Order
	sizes   graph.Sizes
	threads int
	model.Layout
}

func newPlan(m *model.Model, first int, orders []model.Order, sizes graph.Sizes, threads int) *plan {
	return &plan{model: m, first: first, orders: orders, sizes: sizes, threads: threads, Layout: m.Layout()}
}

// span returns the part of all with a layer's parameters with the roles from to to, which are
// adjacent; nil if it has none.
func (p *plan) span(all []float32, layer int, from, to model.Role) []float32 {
	if all == nil {
		return nil
	}
	lo, hi := p.Span(layer, from, to)
	if lo == hi {
		return nil
	}
	return all[lo:hi:hi]
}

// layerParams returns the part of all with a layer's trained parameters.
func (p *plan) layerParams(all []float32, layer int) []float32 {
	return p.span(all, layer, 0, model.LastTrained)
}

// width returns the width of the features that the layers start from.
func (p *plan) width() int {
	if p.first == 0 {
		return p.model.Features()
	}
	return p.model.In(p.first)
}

// rows returns the most rows of a layer's output. Gorgonia takes a matrix of one
// element for a scalar, so there are at least two.
func (p *plan) rows(layer int) int {
	if layer == model.InputLayer {
		return max(2, p.sizes.Src[0])
	}
	return max(2, p.sizes.Dst[layer-p.first])
}

// sources returns the most rows of a layer's input: the rows of the layer before.
func (p *plan) sources(layer int) int {
	if layer > p.first {
		return p.rows(layer - 1)
	}
	return max(2, p.sizes.Src[0])
}

// groupRows returns the rows of one group in a sum over at most rows rows for a weight of the given
// number of elements: whole chunks.
func groupRows(rows, weight int) int {
	groups := max(minGroups, min(maxGroups, maxGroupBytes/4/weight))
	g := max(minGroupRows, (rows+groups-1)/groups)
	return (g + chunkRows - 1) / chunkRows * chunkRows
}

// attentionGroup returns the rows of one group in a sum of elements elements over at most rows
// rows. A group is a worker's unit.
func attentionGroup(rows, elements int) int {
	groups := max(minGroups, min(maxGroups, maxGroupBytes/4/elements))
	return divUp(divUp(rows, groups), attendRows) * attendRows
}

func divUp(a, b int) int { return (a + b - 1) / b }
