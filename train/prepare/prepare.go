// Package prepare derives from a mini-batch's structure what a step needs of it, for every
// engine: the weights of sums, blocks transposed, self-loops.
package prepare

import (
	"fmt"

	"diskgnn/graph"
	"diskgnn/internal/fault"
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

// Block is what was derived from one block.
type Block struct {
	// The weights of a destination's sum: over the sources s of its edges,
	//
	//	Dst[d] · Σ Src[s]·x[s]  +  Own[d]·x[d]
	//
	// where nil stands for ones, and for no own term.
	Dst, Src, Own []float32
	// The block transposed, where the backward pass needs it: source s feeds the
	// destinations TIndices[TIndptr[s]:TIndptr[s+1]], ascending.
	TIndptr, TIndices []uint32
	// Place holds, where the backward pass needs it and destinations are scattered
	// among the sources, which destination a source is, plus one.
	Place []uint32
	// The block with loops, transposed by itself, where a layer weighs edges itself.
	Looped Looped
}

// Destination returns which destination source i is, if it is one. Scattered ones
// must have been placed.
func (p *Block) Destination(b *graph.Block, i int) (int, bool) {
	if b.Dst == nil {
		return i, i < b.NumDst
	}
	k := int(p.Place[i])
	return k - 1, k > 0
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

// Prepare checks b and derives from it what a step needs, into p, reusing p's
// buffers. The kernels index without bounds of their own, so a batch that is not
// what its lengths promise, is larger than the sizes that the engine was made for,
// or has a label that is no class, is an error of kind fault.ErrInput.
func (r *Preparer) Prepare(p *Prepared, b *graph.Batch) error { return r.prepare(p, b, nil) }

// PrepareRange does the same for a batch of one block that is a range of the whole graph:
// destinations with all of their neighbours. out has, for every input node, the edges of
// the whole graph that it is the source of. They matter where the model counts the edges
// of a block (model.BlockNorm): the block is the whole graph then, wherever it was cut.
func (r *Preparer) PrepareRange(p *Prepared, b *graph.Batch, out []uint32) error {
	if len(b.Blocks) != 1 || len(out) != len(b.Input) {
		return fault.New(fault.ErrInput, "prepare: a range of %d blocks, with the edges of %d of %d input nodes", len(b.Blocks), len(out), len(b.Input))
	}
	return r.prepare(p, b, out)
}

// prepare does both; out is nil for a batch by itself.
func (r *Preparer) prepare(p *Prepared, b *graph.Batch, out []uint32) error {
	p.batch = nil
	if err := r.check(b); err != nil {
		return err
	}
	r.room(p)
	if r.sortsInput {
		b = r.sortInput(p, b)
	} else {
		p.Order = nil
	}
	for l := range b.Blocks {
		r.weigh(p.Blocks, b, l, out)
		switch k := &b.Blocks[l]; {
		case r.weighing.loops:
			r.loopBlock(p, k, l)
		case r.transpose[l]:
			r.transposeBlock(&p.Blocks[l], k, l)
		}
	}
	if k := &b.Blocks[0]; r.place && k.Dst != nil {
		q := &p.Blocks[0]
		q.Place = q.Place[:k.NumSrc]
		if err := q.placeDestinations(k); err != nil {
			return err
		}
	}
	p.Labelled = 0
	for _, y := range b.Labels {
		if y != graph.Unlabelled {
			p.Labelled++
		}
	}
	p.batch, p.by = b, r
	return nil
}

func (r *Preparer) check(b *graph.Batch) error {
	if err := b.Validate(); err != nil {
		return fault.New(fault.ErrInput, "prepare: %w", err)
	}
	if len(b.Blocks) != len(r.transpose) {
		return fault.New(fault.ErrInput, "prepare: a batch of %d blocks for %d layers", len(b.Blocks), len(r.transpose))
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc > r.sizes.Src[l] || k.NumDst > r.sizes.Dst[l] || len(k.Indices) > r.sizes.Edges[l] {
			return fault.New(fault.ErrInput, "prepare: layer %d has %d sources, %d destinations, %d edges; buffers were made for %d, %d, %d",
				l, k.NumSrc, k.NumDst, len(k.Indices), r.sizes.Src[l], r.sizes.Dst[l], r.sizes.Edges[l])
		}
		if l > 0 && k.Dst != nil {
			return fault.New(fault.ErrInput, "prepare: layer %d: the destinations of an inner block must be its first sources", l)
		}
	}
	if n := len(b.Targets); n > 0 && r.classes > 0 && n != len(b.Labels)*graph.TargetBytes(r.classes) {
		return fault.New(fault.ErrInput, "prepare: %d bytes of targets for %d seed nodes of %d classes", n, len(b.Labels), r.classes)
	}
	for i, y := range b.Labels {
		if y != graph.Unlabelled && (y < 0 || int(y) >= r.classes) && r.classes > 0 {
			return fault.New(fault.ErrInput, "prepare: seed node %d has label %d of %d classes", i, y, r.classes)
		}
	}
	return nil
}

// Loops tells whether blocks are Looped.
func (r *Preparer) Loops() bool { return r.weighing.loops }

// edges returns the most edges that block l has, with loops.
func (r *Preparer) edges(l int) int {
	if r.weighing.loops {
		return r.sizes.Edges[l] + r.sizes.Dst[l]
	}
	return r.sizes.Edges[l]
}

// placeDestinations finds out which sources are destinations.
func (p *Block) placeDestinations(b *graph.Block) error {
	clear(p.Place)
	for i, s := range b.Dst {
		if p.Place[s] != 0 {
			return fault.New(fault.ErrInput, "prepare: destinations %d and %d lie at the same source", p.Place[s]-1, i)
		}
		p.Place[s] = uint32(i) + 1
	}
	return nil
}
