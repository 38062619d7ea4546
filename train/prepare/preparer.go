package prepare

import (
	"fmt"

	"diskgnn/graph"
	"diskgnn/train/model"
)

// Prepared is a mini-batch together with everything that a step derives from its
// structure alone, so that it can be derived ahead of the step, on the loader's
// goroutine. It is made by a Preparer, whose buffers it reuses; it refers to the
// batch, which must stay as it is until the step is over.
type Prepared struct {
	Blocks   []Block
	Labelled int // seed nodes that have a label
	// Order is where the input nodes' rows lie in the batch's matrix of features. It is
	// nil, but where an input projection is trained: Batch has the input nodes in the
	// order of their ids then.
	Order []uint32

	by      *Preparer // the one that made it
	batch   *graph.Batch
	sorter  []sorter // one, where edges may be that many
	records []uint64 // of the sorter
	input   inputOrder
}

// Batch returns the mini-batch that the blocks are derived from, nil if none was made
// ready: the one that was given, but for the numbers of its input nodes where there is an
// Order.
func (p *Prepared) Batch() *graph.Batch { return p.batch }

// By tells whether r has made it.
func (p *Prepared) By(r *Preparer) bool { return p.by == r }

// Preparer makes batches ready for one engine or evaluator. It only reads itself:
// any number of goroutines may share one, each with its own Prepared, also while
// the engine computes.
type Preparer struct {
	weighing   weighing
	sizes      graph.Sizes
	classes    int    // of the labels; 0: no label is looked at
	transpose  []bool // blocks that are needed transposed
	place      bool   // the outermost block's destinations are looked for among its sources
	sortsInput bool   // the input nodes are numbered by their ids
}

// New returns what prepares batches of at most these sizes for layers with these orders
// of operations, in training those of the whole model.
//
// Training transposes a block when its sources get a gradient, or when the gradient of
// the sums comes back per source. Those of the outermost block, whose destinations may
// be scattered, must know then which of them are destinations.
func New(m *model.Model, orders []model.Order, sizes graph.Sizes, training bool) *Preparer {
	weighing, ok := weighings[m.Weighing()]
	if !ok {
		panic(fmt.Sprintf("prepare: edges weighed %q", m.Weighing()))
	}
	r := &Preparer{weighing: weighing, sizes: sizes, classes: m.Classes(), transpose: make([]bool, len(sizes.Src))}
	projects := m.InputProjection > 0
	for l := range r.transpose {
		r.transpose[l] = training && (l > 0 || projects || orders[l] == model.Multiply)
	}
	r.place = training && (projects || r.weighing.own && r.transpose[0])
	r.sortsInput = training && projects
	return r
}

// TransposeAll makes the preparer transpose every block, with the places of the outermost
// one's destinations.
func (r *Preparer) TransposeAll() {
	r.place = true
	for l := range r.transpose {
		r.transpose[l] = true
	}
}

// IgnoreLabels makes the preparer take any label.
func (r *Preparer) IgnoreLabels() { r.classes = 0 }

// Loops tells whether blocks are Looped.
func (r *Preparer) Loops() bool { return r.weighing.loops }

// edges returns the most edges that block l has, with loops.
func (r *Preparer) edges(l int) int {
	if r.weighing.loops {
		return r.sizes.Edges[l] + r.sizes.Dst[l]
	}
	return r.sizes.Edges[l]
}
