package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Work is the pinned memory in which one batch at a time is prepared for the copy to the device.
type Work struct {
	of       *works
	plan     *plan
	frame    *frame
	pinned   *cuda.Pinned
	features *cuda.Pinned // the memory that features come in; nil: it is not pinned
	prepared prepare.Prepared
	bits     []kernels.BitsBlock // of the batch, if the device decodes it
	bucket   int                 // number of the batch's bucket in the network's plan
}

// works are an engine's open works.
type works struct {
	device *cuda.Device
	open   map[*Work]bool
}

// Close releases the pinned memory of the work, and unpins the memory of the features, which must still
// exist. A work of a closed engine is closed already.
func (w *Work) Close() {
	if !w.of.open[w] {
		return // with the engine
	}
	if detach, err := w.of.device.Attach(); err == nil {
		w.free()
		detach()
	}
}

func (w *Work) free() {
	delete(w.of.open, w)
	free(w.pinned, w.features)
}

// Prepare derives the data of b, or leaves that to the device. b must not change until the batch is computed.
func (w *Work) Prepare(b *graph.Batch) error {
	n := w.plan
	if n.inBits {
		if err := w.accept(b); err != nil {
			return err
		}
	} else {
		if err := n.preparer.Prepare(&w.prepared, b); err != nil {
			return err
		}
		b = w.prepared.Batch()
		w.copyBlocks(b)
	}
	w.bucket = 0
	for w.bucket < len(n.buckets)-1 && !fits(b, n.buckets[w.bucket]) {
		w.bucket++
	}
	copy(in[uint32](w.pinned.Bytes(), w.frame.ids), b.Input)
	if n.training {
		w.label(b)
	}
	return nil
}

// accept stores where the arrays of blocks in bits are to lie on the device.
func (w *Work) accept(b *graph.Batch) error {
	f, memory, need := w.frame, w.pinned.Bytes(), 0
	if err := w.plan.preparer.Accept(&w.prepared, b); err != nil {
		return err
	}
	w.bits = w.bits[:0]
	for l := range b.Blocks {
		k := &b.Blocks[l]
		w.bits = append(w.bits, kernels.BitsBlock{Sources: k.NumSrc, Destinations: k.NumDst, Edges: k.Bits.Edges,
			Arrays: [3]kernels.Bits{kernels.Bits(k.Bits.Counts), kernels.Bits(k.Bits.Indices), kernels.Bits(k.Bits.Dst)}})
		need += w.bits[l].Words()
	}
	if need > int(f.bits.bytes/4) {
		w.prepared = prepare.Prepared{}
		return fault.New(fault.ErrCorrupt, "gpu: the blocks of a batch have %d words, but with the least widths they have at most %d", need, f.bits.bytes/4)
	}
	if f.degrees.bytes > 0 && len(b.Degree) != len(b.Input) {
		w.prepared = prepare.Prepared{}
		return fault.New(fault.ErrInput, "gpu: a batch has %d degrees for %d input nodes", len(b.Degree), len(b.Input))
	}
	copy(in[uint32](memory, f.degrees), b.Degree)
	at := 0
	for l := range w.bits {
		at = w.shape(l).Lay(&w.bits[l], at)
	}
	return nil
}

// shape returns the record of block l in bits.
func (w *Work) shape(l int) *kernels.Shape {
	words := in[uint32](w.pinned.Bytes(), w.frame.shapes)
	return (*kernels.Shape)(words[l*len(kernels.Shape{}):])
}

// copyBits enqueues the copies of blocks in bits to their places on the device.
func (w *Work) copyBits(s *cuda.Stream, words cuda.Buffer) error {
	for l := range w.bits {
		if err := w.shape(l).CopyIn(s, words, &w.bits[l]); err != nil {
			return err
		}
	}
	return nil
}

// copyBlocks stores the blocks of a prepared batch that are not there yet.
func (w *Work) copyBlocks(b *graph.Batch) {
	n, f, memory := w.plan, w.frame, w.pinned.Bytes()
	counts := in[uint32](memory, f.counts)
	for l := range b.Blocks {
		k, to := &b.Blocks[l], &f.blocks[l]
		counts[2*l], counts[2*l+1] = uint32(k.NumSrc), uint32(k.NumDst)
		if !n.preparer.Loops() {
			copy(in[uint32](memory, to.indptr), k.Indptr)
			copy(in[uint32](memory, to.indices), k.Indices)
		}
	}
	for l := 1; l < len(b.Blocks); l++ {
		copy(in[uint32](memory, f.blocks[l].positions), b.Blocks[l].Dst) // of typed blocks
	}
	w.base(b)
	outermost, to := &b.Blocks[0], &f.blocks[0]
	positions := in[uint32](memory, to.positions)
	if copy(positions, outermost.Dst) == 0 {
		for i := range outermost.NumDst {
			positions[i] = uint32(i)
		}
	}
	if place := in[uint32](memory, to.place); place != nil && outermost.Dst == nil {
		clear(place)
		for i := range outermost.NumDst {
			place[i] = uint32(i) + 1
		}
	}
}

// base stores the first columns of the rows' scores, where the model attends to rows: a relation has a column for each
// head.
func (w *Work) base(b *graph.Batch) {
	if b.Types == nil {
		return
	}
	for l := range b.Blocks {
		base := in[uint32](w.pinned.Bytes(), w.frame.blocks[l].base)
		if base == nil {
			continue
		}
		row, from := 0, uint32(0)
		for kind, end := range w.prepared.Blocks[l].Ends {
			first, per := b.Types.Into(kind)
			for range end - from {
				for r := range per {
					base[row] = uint32((first + r) * w.plan.model.Heads)
					row++
				}
			}
			from = end
		}
	}
}

// label copies the labels for the loss.
func (w *Work) label(b *graph.Batch) {
	n, f, memory := w.plan, w.frame, w.pinned.Bytes()
	copy(in[int32](memory, f.labels), b.Labels)
	classes := n.model.Classes()
	if n.lossKind == model.Binary {
		row := graph.TargetBytes(classes)
		targets := memory[f.targets.from:][:len(b.Labels)*row]
		if copy(targets, b.Targets) == 0 {
			clear(targets)
			for i, y := range b.Labels {
				if y != graph.Unlabelled {
					graph.AddClass(targets[i*row:], int(y))
				}
			}
		}
	}
	inverse := in[float32](memory, f.inverse)
	terms := n.lossKind.Terms(int64(w.prepared.Labelled), classes)
	if inverse[0] = engine.Inverse(terms); n.sums && terms > 0 {
		inverse[0] = 1
	}
}

// check checks that the batch was prepared for the plan, and that its features exist, as far as
// that is known.
func (w *Work) check(n *plan, f engine.Features) error {
	b := w.prepared.Batch()
	switch {
	case b == nil:
		return fault.New(fault.ErrInput, "gpu: the batch was not prepared")
	case w.plan != n:
		return fault.New(fault.ErrInput, "gpu: the batch was prepared for another engine or evaluator")
	case n.training && n.lossKind == model.CrossEntropy && len(b.Targets) > 0:
		return fault.New(fault.ErrInput, "gpu: the loss %s needs one class per seed node, but the batch is multi-label: use %s", model.CrossEntropy, model.Binary)
	}
	if x, ok := f.(engine.Rows); ok && len(x) < b.Blocks[0].NumSrc*n.model.Features() {
		return fault.New(fault.ErrInput, "gpu: %d feature elements do not fill %d input nodes of width %d", len(x), b.Blocks[0].NumSrc, n.model.Features())
	}
	return nil
}
