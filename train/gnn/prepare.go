package gnn

import (
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/gnn/model"
)

// Prepared is a mini-batch together with everything that a step derives from its
// structure alone, so that it can be derived ahead of the step, on the loader's
// goroutine. It is made by a Preparer, whose buffers it reuses; it refers to the
// batch, which must stay as it is until the step is over.
type Prepared struct {
	by       *Preparer // the one that made it
	batch    *graph.Batch
	blocks   []prepared
	labelled int // seed nodes that have a label
}

// prepared belongs to one block.
type prepared struct {
	// The weights of a destination's sum: over the sources s of its edges,
	//
	//	dst[d] · Σ src[s]·x[s]  +  own[d]·x[d]
	//
	// where nil stands for ones, and for no own term.
	dst, src, own []float32
	// The block transposed, where the backward pass needs it: source s feeds the
	// destinations tindices[tindptr[s]:tindptr[s+1]], ascending.
	tindptr, tindices []uint32
	// place holds, where the backward pass needs it and destinations are scattered
	// among the sources, which destination a source is, plus one.
	place []uint32
	// GAT's edges, transposed by themselves.
	looped looped
}

// destination returns which destination source i is, if it is one. Scattered ones
// must have been placed.
func (p *prepared) destination(b *graph.Block, i int) (int, bool) {
	if b.Dst == nil {
		return i, i < b.NumDst
	}
	k := int(p.place[i])
	return k - 1, k > 0
}

// Batch returns the mini-batch.
func (p *Prepared) Batch() *graph.Batch { return p.batch }

// Preparer makes batches ready for one engine or evaluator. It only reads itself:
// any number of goroutines may share one, each with its own Prepared, also while
// the engine computes.
type Preparer struct {
	model     *model.Model
	sizes     graph.Sizes
	classes   int    // of the labels; 0: no label is looked at
	transpose []bool // blocks that are needed transposed
	place     bool   // the outermost block's destinations are looked for among its sources
}

// newPreparer: training transposes a block when its sources get a gradient, or when
// the gradient of the sums comes back per source. Those of the outermost block, whose
// destinations may be scattered, must know then which of them are destinations.
func newPreparer(p *plan, training bool) *Preparer {
	r := &Preparer{model: p.model, sizes: p.sizes, classes: p.model.Classes(), transpose: make([]bool, len(p.sizes.Src))}
	for i := range r.transpose {
		r.transpose[i] = training && (p.differentiates(p.first+i) || p.orders[i] == model.Multiply)
	}
	r.place = training && (p.projects() || p.model.Kind == model.GCN && r.transpose[0])
	return r
}

// Prepare checks b and derives from it what a step needs, into p, reusing p's
// buffers. The kernels index without bounds of their own, so a batch that is not
// what its lengths promise, is larger than the sizes that the engine was made for,
// or has a label that is no class, is an error of kind fault.ErrInput.
func (r *Preparer) Prepare(p *Prepared, b *graph.Batch) error {
	p.batch = nil
	if err := r.check(b); err != nil {
		return err
	}
	if len(p.blocks) != len(b.Blocks) {
		p.blocks = make([]prepared, len(b.Blocks))
	}
	for l := range b.Blocks {
		q := &p.blocks[l]
		r.weigh(q, b, l)
		switch {
		case r.model.Kind == model.GAT:
			q.looped.build(&b.Blocks[l], r.transpose[l], r.most(l))
		case r.transpose[l]:
			q.tindptr = resized(q.tindptr, b.Blocks[l].NumSrc+2, r.sizes.Src[l]+2)
			q.tindices = resized(q.tindices, len(b.Blocks[l].Indices), r.sizes.Edges[l])
			q.transposeBlock(&b.Blocks[l])
		}
	}
	if k := &b.Blocks[0]; r.place && k.Dst != nil {
		q := &p.blocks[0]
		q.place = resized(q.place, k.NumSrc, r.sizes.Src[0])
		if err := q.placeDestinations(k); err != nil {
			return err
		}
	}
	p.labelled = 0
	for _, y := range b.Labels {
		if y != graph.Unlabelled {
			p.labelled++
		}
	}
	p.batch, p.by = b, r
	return nil
}

func (r *Preparer) check(b *graph.Batch) error {
	if err := b.Validate(); err != nil {
		return fault.New(fault.ErrInput, "gnn: %w", err)
	}
	if len(b.Blocks) != len(r.transpose) {
		return fault.New(fault.ErrInput, "gnn: a batch of %d blocks for %d layers", len(b.Blocks), len(r.transpose))
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc > r.sizes.Src[l] || k.NumDst > r.sizes.Dst[l] || len(k.Indices) > r.sizes.Edges[l] {
			return fault.New(fault.ErrInput, "gnn: layer %d has %d sources, %d destinations, %d edges; buffers were made for %d, %d, %d",
				l, k.NumSrc, k.NumDst, len(k.Indices), r.sizes.Src[l], r.sizes.Dst[l], r.sizes.Edges[l])
		}
		if l > 0 && k.Dst != nil {
			return fault.New(fault.ErrInput, "gnn: layer %d: the destinations of an inner block must be its first sources", l)
		}
	}
	if n := len(b.Targets); n > 0 && r.classes > 0 && n != len(b.Labels)*graph.TargetBytes(r.classes) {
		return fault.New(fault.ErrInput, "gnn: %d bytes of targets for %d seed nodes of %d classes", n, len(b.Labels), r.classes)
	}
	for i, y := range b.Labels {
		if y != graph.Unlabelled && (y < 0 || int(y) >= r.classes) && r.classes > 0 {
			return fault.New(fault.ErrInput, "gnn: seed node %d has label %d of %d classes", i, y, r.classes)
		}
	}
	return nil
}

// Bytes returns the memory that one Prepared needs at the maximum sizes.
func (r *Preparer) Bytes() int64 {
	n := 0
	for l := range r.transpose {
		n += r.weightFloats(l)
		switch {
		case r.model.Kind == model.GAT:
			n += loopedWords(r.transpose[l], r.most(l))
		case r.transpose[l]:
			n += r.sizes.Src[l] + 2 + r.sizes.Edges[l]
		}
	}
	if r.place {
		n += r.sizes.Src[0]
	}
	return 4 * int64(n)
}

// placeDestinations finds out which sources are destinations.
func (p *prepared) placeDestinations(b *graph.Block) error {
	clear(p.place)
	for i, s := range b.Dst {
		if p.place[s] != 0 {
			return fault.New(fault.ErrInput, "gnn: destinations %d and %d lie at the same source", p.place[s]-1, i)
		}
		p.place[s] = uint32(i) + 1
	}
	return nil
}

// transposeBlock sorts the edges by source, counting, so that equal sources keep
// the order of their destinations.
func (p *prepared) transposeBlock(b *graph.Block) {
	ptr := p.tindptr
	clear(ptr)
	for _, s := range b.Indices {
		ptr[s+2]++
	}
	for i := 2; i < len(ptr); i++ {
		ptr[i] += ptr[i-1]
	}
	for d := range b.NumDst {
		for _, s := range b.Indices[b.Indptr[d]:b.Indptr[d+1]] {
			p.tindices[ptr[s+1]] = uint32(d)
			ptr[s+1]++
		}
	}
	p.tindptr = ptr[:b.NumSrc+1]
}

// resized returns a slice of n elements in s's memory, or in new memory with room
// for most.
func resized[T any](s []T, n, most int) []T {
	if cap(s) < n {
		return make([]T, n, most)
	}
	return s[:n]
}
