package prepare

import (
	"fmt"

	"diskgnn/graph"
	"diskgnn/train/model"
)

// Prepared is a mini-batch together with all data that a step derives from its structure alone, so
// that it can be derived ahead of the step, on the loader's goroutine. A Preparer makes it and
// reuses its buffers. It refers to the batch, which must not change until the step is over.
type Prepared struct {
	Blocks   []Block
	Labelled int // seed nodes that have a label
	// Order has the positions of the input nodes' rows in the batch's matrix of features. It is nil
	// unless an input projection is trained: Batch then has the input nodes in the order of their
	// ids.
	Order []uint32

	by      *Preparer // the one that made it
	batch   *graph.Batch
	sorter  []sorter // one, where edges may be that many
	records []uint64 // of the sorter
	input   inputOrder
}

// Batch returns the mini-batch that the blocks are derived from, or nil if none was prepared. It is the
// given batch; if there is an Order, its input nodes are renumbered in the order of their ids.
func (p *Prepared) Batch() *graph.Batch { return p.batch }

// By reports whether r has prepared it.
func (p *Prepared) By(r *Preparer) bool { return p.by == r }

// Preparer prepares batches for one engine or evaluator. It does not change after construction: any
// number of goroutines may share one, each with its own Prepared, also while the engine computes.
type Preparer struct {
	weighing   weighing
	sizes      graph.Sizes
	classes    int    // of the labels
	transpose  []bool // blocks that are needed transposed
	place      []bool // blocks with destinations that are looked for among their sources
	types      *model.Types
	sortsInput bool // the input nodes are numbered by their ids
}

// New returns a preparer of batches of at most these sizes for layers with these orders of
// operations; in training they must be all layers of the model.
//
// Training transposes a block if its sources get a gradient, or if the gradient of the sums is
// computed per source. The destinations of the outermost block may be scattered; its Place is then
// set. In a typed graph the inner blocks' are, and several of the outermost block may lie at one
// source, for which there is no Place.
func New(m *model.Model, orders []model.Order, sizes graph.Sizes, training bool) *Preparer {
	weighing, ok := weighings[m.Weighing()]
	if !ok {
		panic(fmt.Sprintf("prepare: edges weighed %q", m.Weighing()))
	}
	r := &Preparer{weighing: weighing, sizes: sizes, classes: m.Classes(), transpose: make([]bool, len(sizes.Src)), place: make([]bool, len(sizes.Src)), types: m.Types}
	projects := m.InputProjection > 0
	for l := range r.transpose {
		r.transpose[l] = training && (l > 0 || projects || orders[l] == model.Multiply)
	}
	r.place[0] = training && (projects || r.weighing.own && r.transpose[0])
	if r.types != nil {
		copy(r.place, r.transpose)
	}
	r.sortsInput = training && projects
	return r
}

// TransposeAll makes the preparer transpose every block, and set the outermost one's Place, where it may have
// one.
func (r *Preparer) TransposeAll() {
	r.place[0] = r.types == nil
	for l := range r.transpose {
		r.transpose[l] = true
	}
}

// Loops reports whether blocks are Looped.
func (r *Preparer) Loops() bool { return r.weighing.loops }

// edges returns the most edges that block l has, with loops.
func (r *Preparer) edges(l int) int {
	if r.weighing.loops {
		return r.sizes.Edges[l] + r.sizes.Dst[l]
	}
	return r.sizes.Edges[l]
}
