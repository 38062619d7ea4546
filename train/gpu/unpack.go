package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// take enqueues the copy of a batch, without its constants, and its decoding. With capture, the decoding of later batches is
// launched in one piece.
func (i *input) take(s *cuda.Stream, w *Work, f engine.Features, capture bool) error {
	i.now = &i.buckets[w.bucket]
	if b := w.prepared.Batch(); b.Types != nil {
		for l := range b.Blocks {
			i.ends[l], i.sources[l] = append(i.ends[l][:0], w.prepared.Blocks[l].Ends...), b.Blocks[l].NumSrc
		}
	}
	span, err := f.Fill(s, i.x)
	if err != nil {
		return err
	}
	i.gathering = cuda.SpanOf(span)
	if err := s.CopyIn(i.frame, w.pinned.Bytes()); err != nil || !i.plan.inBits {
		return err
	}
	if err := w.copyBits(s, i.at.bits.on(i.frame)); err != nil {
		return err
	}
	b := i.now
	if b.unpack == nil && b.warm && capture {
		if b.unpack, err = s.Capture("decoding", func() error { return i.unpack(s) }); err != nil {
			return err
		}
	}
	if b.unpack != nil {
		return b.unpack.Launch(s)
	}
	return i.unpack(s)
}

// told enqueues the copy of the shapes of the batch's blocks to the results.
func (i *input) told(s *cuda.Stream) error {
	_, _, shapes := i.parts()
	return s.CopyOut(shapes, i.shapes)
}

// wrong returns the error of a batch that the device found wrong, once its shapes have been told.
func (i *input) wrong() error {
	_, _, shapes := i.parts()
	words := binio.View[uint32](shapes)
	for l := range len(words) / len(kernels.Shape{}) {
		if what := kernels.Wrong(words[l*len(kernels.Shape{})+kernels.ShapeWrong]); what != "" {
			return fault.New(fault.ErrCorrupt, "layer %d of the batch: %s", l, what)
		}
	}
	return nil
}

// unpack enqueues the decoding of the batch's blocks, in the sizes of its bucket. It derives the data that package prepare derives on
// the host.
func (i *input) unpack(s *cuda.Stream) error {
	for l := range i.now.blocks {
		if err := i.unpackBlock(s, l); err != nil {
			return err
		}
	}
	return nil
}

func (i *input) unpackBlock(s *cuda.Stream, l int) error {
	n, b, c := i.plan, &i.now.blocks[l], &i.at.scratch
	on := func(p span) cuda.Buffer { return p.on(i.frame) }
	shape := i.shapes.Slice(int64(l)*kernels.ShapeBytes, kernels.ShapeBytes)
	word := func(at int) cuda.Buffer { return shape.Slice(4*int64(at), 4) }
	edges := kernels.Count{Most: i.now.sizes.Edges[l], At: word(kernels.ShapeEdges)}
	u := kernels.Unpack{Words: on(i.at.bits), Shape: shape, Sources: b.src, Destinations: b.dst, Edges: edges,
		Indptr: b.indptr, Indices: b.indices, Positions: b.positions, Places: b.place, Sums: on(c.sums)}
	if n.model.Weighing() == model.Averaged {
		u.Means = b.outer
	}
	if n.preparer.Loops() {
		u.Indptr, u.Indices = on(c.indptr), on(c.indices)
	}
	if err := u.Launch(s); err != nil {
		return err
	}
	if n.model.Weighing() == model.ByGraph {
		w := kernels.Weigh{Src: b.inner, Dst: b.outer, Own: b.own, Degrees: on(i.at.degrees), Positions: i.now.blocks[0].positions, Outermost: l == 0,
			Indptr: b.indptr, Sources: b.src, Destinations: b.dst}
		if err := w.Launch(s); err != nil {
			return err
		}
	}
	if n.preparer.Loops() {
		edges = kernels.Count{Most: b.edges, At: word(kernels.ShapeLooped)}
		o := kernels.Loop{Indptr: b.indptr, Indices: b.indices, Edges: edges, From: u.Indptr, Sources: u.Indices, Positions: b.positions,
			Destinations: b.dst, Counts: on(c.byDestination), Sums: on(c.sums)}
		if err := o.Launch(s); err != nil {
			return err
		}
	}
	if b.tindptr == (cuda.Buffer{}) {
		return nil
	}
	return kernels.Transpose{TIndptr: b.tindptr, TIndices: b.tindices, TEdges: b.tedges, Indptr: b.indptr, Indices: b.indices,
		Sources: b.src, Edges: edges, Destinations: b.dst, Counts: on(c.bySource), Arrivals: on(c.arrivals), Slots: on(c.slots), Sums: on(c.sums)}.Launch(s)
}
