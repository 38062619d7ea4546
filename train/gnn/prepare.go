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
	// inverse is 1/number of sampled edges of every destination, 0 without edges.
	inverse []float32
	// The block transposed, where the backward pass needs it: source s feeds the
	// destinations tindices[tindptr[s]:tindptr[s+1]], ascending.
	tindptr, tindices []uint32
}

// Batch returns the mini-batch.
func (p *Prepared) Batch() *graph.Batch { return p.batch }

// Preparer makes batches ready for one engine or evaluator. It only reads itself:
// any number of goroutines may share one, each with its own Prepared, also while
// the engine computes.
type Preparer struct {
	sizes     graph.Sizes
	classes   int
	transpose []bool // layers that need the transposed block
}

// newPreparer: training transposes a block when its sources get a gradient (every
// layer but the first) or when the gradient of the sums comes back per source.
func newPreparer(m *model.Model, orders []model.Order, sizes graph.Sizes, training bool) *Preparer {
	p := &Preparer{sizes: sizes, classes: m.Classes(), transpose: make([]bool, m.Layers())}
	for l := range p.transpose {
		p.transpose[l] = training && (l > 0 || orders[l] == model.Multiply)
	}
	return p
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
		q.inverse = resized(q.inverse, b.Blocks[l].NumDst, r.sizes.Dst[l])
		q.invert(&b.Blocks[l])
		if r.transpose[l] {
			q.tindptr = resized(q.tindptr, b.Blocks[l].NumSrc+2, r.sizes.Src[l]+2)
			q.tindices = resized(q.tindices, len(b.Blocks[l].Indices), r.sizes.Edges[l])
			q.transposeBlock(&b.Blocks[l])
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
	for i, y := range b.Labels {
		if y != graph.Unlabelled && (y < 0 || int(y) >= r.classes) {
			return fault.New(fault.ErrInput, "gnn: seed node %d has label %d of %d classes", i, y, r.classes)
		}
	}
	return nil
}

// Bytes returns the memory that one Prepared needs at the maximum sizes.
func (r *Preparer) Bytes() int64 {
	n := 0
	for l := range r.transpose {
		n += r.sizes.Dst[l]
		if r.transpose[l] {
			n += r.sizes.Src[l] + 2 + r.sizes.Edges[l]
		}
	}
	return 4 * int64(n)
}

func (p *prepared) invert(b *graph.Block) {
	for i := range p.inverse {
		p.inverse[i] = 0
		if n := b.Indptr[i+1] - b.Indptr[i]; n > 0 {
			p.inverse[i] = 1 / float32(n)
		}
	}
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
