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

// plan holds what follows from a model and its sizes, for the layers from first on:
// as many as the sizes have blocks. Orders and sizes count from first.
type plan struct {
	model   *model.Model
	first   int
	orders  []model.Order
	sizes   graph.Sizes
	threads int
	params  []model.Param // all of the model
	offsets []int         // where each begins among all parameters' elements, and where the last ends
	trained int           // elements that have a gradient; they come first
}

func newPlan(m *model.Model, first int, orders []model.Order, sizes graph.Sizes, threads int) *plan {
	p := &plan{model: m, first: first, orders: orders, sizes: sizes, threads: threads, params: m.Params(), offsets: []int{0}}
	for i := range p.params {
		p.offsets = append(p.offsets, p.offsets[i]+p.params[i].Len())
		if p.params[i].Trained() {
			p.trained = p.offsets[i+1]
		}
	}
	return p
}

// count returns the elements of all parameters.
func (p *plan) count() int { return p.offsets[len(p.params)] }

// span returns, of the elements of all parameters, those of a layer's parameters
// with roles from one to another, which lie next to each other; nil where it has none.
func (p *plan) span(all []float32, layer int, from, to model.Role) []float32 {
	if all == nil {
		return nil
	}
	var s []float32
	lo := -1
	for i := range p.params {
		if q := &p.params[i]; q.Layer == layer && from <= q.Role && q.Role <= to {
			if lo < 0 {
				lo = p.offsets[i]
			}
			s = all[lo:p.offsets[i+1]:p.offsets[i+1]]
		}
	}
	return s
}

// layerParams returns the elements of all parameters of a layer that are trained.
func (p *plan) layerParams(all []float32, layer int) []float32 {
	return p.span(all, layer, 0, model.LastTrained)
}

// checkSizes makes sure that the sizes can be those of the layers' blocks.
func checkSizes(layers int, s graph.Sizes) error {
	n := layers
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

// projects tells whether the input projection is among the layers.
func (p *plan) projects() bool { return p.first == 0 && p.model.InputProjection > 0 }

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

// sources returns the most rows of a layer's input: as many as the layer before puts
// out.
func (p *plan) sources(layer int) int {
	if layer > p.first {
		return p.rows(layer - 1)
	}
	return max(2, p.sizes.Src[0])
}

// differentiates tells whether training computes the gradient of a layer's input.
func (p *plan) differentiates(layer int) bool { return layer > p.first || p.projects() }

// groupRows returns the rows of one group in a sum over at most rows rows that
// gives a weight of the given number of elements: whole chunks.
func groupRows(rows, weight int) int {
	groups := max(minGroups, min(maxGroups, maxGroupBytes/4/weight))
	g := max(minGroupRows, (rows+groups-1)/groups)
	return (g + chunkRows - 1) / chunkRows * chunkRows
}

func divUp(a, b int) int { return (a + b - 1) / b }
