package packed

import (
	"errors"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/iostack"
)

// gpuSlot is what a slot has for the GPU beside its matrix, which holds the rows that
// are sent as they are packed.
type gpuSlot struct {
	ids    *device.Host // ranks of the rows that the levels hold
	arena  *cuda.Arena
	chunk  cuda.Buffer // of the device's, that the batch's chunk is read into; may be none
	pinned []*cuda.Pinned
	eval   bool
	sent   [2]stretch // what is sent
	known  [2]stretch // what the levels hold
}

// stretch is a number of adjacent rows: where they go in the feature matrix, and where
// they are, in rows of those that are sent or as elements of ids.
type stretch struct{ to, from, rows int }

func (s stretch) end() int { return s.from + s.rows }

// pin lets the GPU copy from the slot.
func (sl *Slot) pin() error {
	g := sl.store.gpu
	if g == nil {
		return nil
	}
	detach, err := g.device.Attach()
	if err != nil {
		return err
	}
	defer detach()
	for _, h := range []*device.Host{sl.matrix, sl.gpu.ids} {
		h.Prefer(g.device.Node)
		p, err := g.device.Register(h.Bytes())
		if err != nil {
			return err
		}
		sl.gpu.pinned = append(sl.gpu.pinned, p)
	}
	if g.checks == nil || sl.gpu.eval {
		return nil
	}
	n := sl.store.layout.GPUSlotBytes
	if sl.gpu.arena, err = g.device.NewArena(n); err != nil {
		return err
	}
	if sl.gpu.chunk, err = sl.gpu.arena.Take(n); err != nil {
		return err
	}
	return iostack.RegisterDevice(sl.store.stack, sl.gpu.chunk)
}

func (sl *Slot) unpin() {
	g := sl.store.gpu
	if g == nil {
		return
	}
	if detach, err := g.device.Attach(); err == nil {
		for _, p := range sl.gpu.pinned {
			p.Free()
		}
		if sl.gpu.arena != nil {
			_ = iostack.UnregisterDevice(sl.store.stack, sl.gpu.chunk) // RegisterDevice was a hint
			sl.gpu.arena.Free()
		}
		detach()
	}
	sl.gpu.pinned, sl.gpu.arena = nil, nil
}

// route notes which rows are sent from the slot, and lists the ranks of the others.
func (sl *Slot) route(sent, known [2]stretch) {
	sl.gpu.sent, sl.gpu.known = sent, known
	ids := sl.gpu.ids.Uint32s()
	for _, k := range known {
		copy(ids[k.from:k.end()], sl.Batch.Input[k.to:])
	}
}

// Fill asks for the work that makes x the feature matrix of the assembled batch: copies
// on the given stream, and what follows on a stream of the store's, whose time is
// returned; x is complete once both are done, nil standing for nothing to follow. The
// slot must stay as it is until the copies are done. With x goes a batch's memory on the
// device: of training batches, the one before the last must have been computed, of
// others the last. The calling goroutine is attached.
func (sl *Slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	g := sl.store.gpu
	if g == nil {
		return nil, copies.CopyIn(x, binio.Bytes(sl.X()))
	}
	t := &g.turns[turns]
	if !sl.gpu.eval {
		t = &g.turns[g.next]
		g.next = (g.next + 1) % turns
	}
	if err := sl.send(copies, t, x); err != nil {
		return nil, err
	}
	if err := errors.Join(t.landed.Record(copies), g.gathers.Wait(t.landed), t.span.Begin(g.gathers)); err != nil {
		return nil, err
	}
	if err := sl.gather(t, x); err != nil {
		return nil, err
	}
	return t.span, t.span.End(g.gathers)
}

// send asks for the copies.
func (sl *Slot) send(copies *cuda.Stream, t *turn, x cuda.Buffer) error {
	f := &sl.store.facts
	rb := f.RowBytes
	if n := sl.gpu.known[1].end(); n > 0 {
		if err := copies.CopyIn(t.ids, binio.Bytes(sl.gpu.ids.Uint32s()[:n])); err != nil {
			return err
		}
	}
	rows := sl.matrix.Bytes()
	for i, s := range sl.gpu.sent {
		to, at := x, s.to
		if f.DType != dtype.Float32 { // it is widened from there
			to, at = t.rows, s.from
		}
		to = to.Slice(int64(at)*int64(rb), int64(s.rows)*int64(rb))
		var err error
		if i == 0 && sl.direct() {
			err = copies.Copy(to, sl.gpu.chunk.Slice(0, to.Bytes()))
		} else {
			err = copies.CopyIn(to, rows[:to.Bytes()])
			rows = rows[to.Bytes():]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gather asks for what brings rows to their places.
func (sl *Slot) gather(t *turn, x cuda.Buffer) error {
	s := sl.store
	g, f := s.gpu, &s.facts
	at := func(k stretch) kernels.Gather {
		row := 4 * int64(f.Dim)
		return kernels.Gather{Out: x.Slice(int64(k.to)*row, int64(k.rows)*row), Stride: f.Dim, Type: f.DType, Width: f.Dim, Rows: kernels.Rows(k.rows)}
	}
	for _, k := range sl.gpu.known {
		a := at(k)
		a.Table, a.Far, a.Near, a.Index = g.table, g.far, int(s.layout.GPURows), t.ids.Slice(4*int64(k.from), 4*int64(k.rows))
		if err := a.Launch(g.gathers); err != nil {
			return err
		}
	}
	if f.DType == dtype.Float32 {
		return nil
	}
	for _, k := range sl.gpu.sent {
		a := at(k)
		a.Table = t.rows.Slice(int64(k.from)*int64(f.RowBytes), int64(k.rows)*int64(f.RowBytes))
		if err := a.Launch(g.gathers); err != nil {
			return err
		}
	}
	return nil
}
