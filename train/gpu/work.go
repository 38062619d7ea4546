package gpu

import (
	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Work is the memory in which one batch at a time is made ready: pinned, as the device
// copies it.
type Work struct {
	engine   *Engine
	net      *network
	pinned   *cuda.Pinned
	features *cuda.Pinned // the memory that features come in; nil: it is not pinned
	prepared prepare.Prepared
	bucket   int // of the network's, that of the batch
}

// NewWork makes a work for Backward or, with eval, for Infer. The features of its batches
// will lie in the given memory, which is pinned until Close: outside Go's heap, or nil
// if they may lie anywhere.
func (e *Engine) NewWork(eval bool, features []byte) (engine.Work, error) {
	detach, err := e.device.Attach()
	if err != nil {
		return nil, err
	}
	defer detach()
	w := &Work{engine: e, net: e.train}
	if eval {
		if w.net = e.eval; w.net == nil {
			return nil, errNoEvaluation
		}
	}
	if w.pinned, err = e.device.NewPinned(w.net.frame.bytes); err != nil {
		return nil, err
	}
	if len(features) > 0 {
		if w.features, err = e.device.Register(features); err != nil {
			w.pinned.Free()
			return nil, err
		}
	}
	w.prepared = w.net.frame.room(w.pinned.Bytes(), w.net.preparer.Loops())
	e.works[w] = true
	return w, nil
}

// WorkBytes returns the memory of a work for Backward, most of it pinned, and of one for Infer.
func (e *Engine) WorkBytes() (train, eval int64) {
	train = e.train.frame.bytes + e.train.preparer.SortingBytes()
	if e.eval != nil {
		eval = e.eval.frame.bytes
	}
	return train, eval
}

// Close gives the memory back. The features' must still be there.
func (w *Work) Close() {
	if !w.engine.works[w] {
		return // with the engine
	}
	if detach, err := w.engine.device.Attach(); err == nil {
		w.free()
		detach()
	}
}

func (w *Work) free() {
	delete(w.engine.works, w)
	w.pinned.Free()
	if w.features != nil {
		w.features.Free()
	}
}

// Prepare makes b ready. b must stay as it is until the batch is computed.
func (w *Work) Prepare(b *graph.Batch) error {
	n := w.net
	if err := n.preparer.Prepare(&w.prepared, b); err != nil {
		return err
	}
	b = w.prepared.Batch()
	w.bucket = 0
	for w.bucket < len(n.buckets)-1 && !fits(b, n.buckets[w.bucket]) {
		w.bucket++
	}
	f, memory := n.frame, w.pinned.Bytes()
	counts := in[uint32](memory, f.counts)
	for l := range b.Blocks {
		k, to := &b.Blocks[l], &f.blocks[l]
		counts[2*l], counts[2*l+1] = uint32(k.NumSrc), uint32(k.NumDst)
		if !n.preparer.Loops() {
			copy(in[uint32](memory, to.indptr), k.Indptr)
			copy(in[uint32](memory, to.indices), k.Indices)
		}
	}
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
	copy(in[uint32](memory, f.ids), b.Input)
	if n.training {
		w.label(b)
	}
	return nil
}

// label copies what the loss needs.
func (w *Work) label(b *graph.Batch) {
	n, f, memory := w.net, w.net.frame, w.pinned.Bytes()
	copy(in[int32](memory, f.labels), b.Labels)
	classes := n.model.Classes()
	if n.loss.kind == model.Binary {
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
	terms := n.loss.kind.Terms(int64(w.prepared.Labelled), classes)
	if inverse[0] = engine.Inverse(terms); n.sums && terms > 0 {
		inverse[0] = 1
	}
}

// check makes sure that the batch was prepared for the network, and that its features
// are there, as far as that is known.
func (w *Work) check(n *network, f engine.Features) error {
	b := w.prepared.Batch()
	switch {
	case b == nil:
		return fault.New(fault.ErrInput, "gpu: the batch was not prepared")
	case w.net != n:
		return fault.New(fault.ErrInput, "gpu: the batch was prepared for something else")
	case n.training && n.loss.kind == model.CrossEntropy && len(b.Targets) > 0:
		return fault.New(fault.ErrInput, "gpu: the loss %s is of one class per seed node, the batch has any number: %s is for these", model.CrossEntropy, model.Binary)
	}
	if x, ok := f.(engine.Rows); ok && len(x) < b.Blocks[0].NumSrc*n.model.Features() {
		return fault.New(fault.ErrInput, "gpu: %d feature elements for %d input nodes of width %d", len(x), b.Blocks[0].NumSrc, n.model.Features())
	}
	return nil
}
