package phases

import (
	"context"
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/featurestore/internal/machine"
)

// Frames are the memory of residents: frames of one row each, in the dataset's type. If a GPU computes, the first
// frames are in its memory and the others in RAM, and the GPU gathers from both.
//
// The GPU gathers a batch in Fill, after later batches may have been assembled. So a frame that an earlier batch
// may use is written only after Settle. Written rows are in place for the batch of the present Turn if Flush
// follows the last Write.
type Frames struct {
	Fresh // of their rows
	machine.Staged
	facts *featurestore.Facts
	bytes int64 // of all frames

	ram machine.RAM // if the host computes

	gpu     *gpurows.Frames // nil: the host computes
	staging *device.Host    // the memory of Staged
	writer  *gpurows.Writer
	pending atomic.Int64  // batches between Assemble and Fill
	filled  chan struct{} // has a token after Fill
	settled bool          // since the last Assemble
}

// newFrames returns n frames, of which near are on the GPU, without taking their memory.
func newFrames(f *featurestore.Facts, gpu device.GPU, near, n int64) *Frames {
	s := &Frames{facts: f, bytes: n * int64(f.RowBytes), filled: make(chan struct{}, 1)}
	s.Near = near * int64(f.RowBytes)
	if gpu != nil {
		s.gpu = &gpurows.Frames{Table: gpurows.Table{Device: gpu, Near: near, DType: f.DType, Dim: f.Dim}}
		s.Put = func(at int64, b []byte) error { return s.writer.Put(s.gpu.Rows(), at, b) }
	}
	return s
}

// lay takes the device memory, without the rows, out of an arena.
func (s *Frames) lay(a device.Memory) error {
	return s.gpu.Turns.Lay(a, gpurows.TurnBytes{IDs: 4 * int64(s.facts.Inputs(false))}, gpurows.TurnBytes{})
}

// count adds the memory of the frames and of the slots' matrices to a layout.
func (s *Frames) count(l *featurestore.Layout) {
	l.RAMBytes += machine.Pages(s.bytes-s.Near) + machine.Pages(machine.StagingBytes(s.Near)) + FreshBytes(s.bytes/int64(s.facts.RowBytes))
	l.SlotBytes += machine.EntriesBytes(s.facts.Inputs(false), s.facts.Dim, s.gpu != nil)
	if s.gpu != nil {
		l.GPU, l.GPURows, l.GPURowsBytes = s.gpu.Device, s.gpu.Near, s.Near
		l.GPUBytes = gpurows.OpenBytes(&s.gpu.Table, s.lay)
	}
}

// open takes the memory. Call close also after an error.
func (s *Frames) open() (err error) {
	s.Fresh = NewFresh(s.bytes / int64(s.facts.RowBytes))
	if s.gpu == nil {
		if err = s.ram.Open(s.bytes); err == nil {
			s.RAM = s.ram.Rows.Bytes()
		}
		return err
	}
	if s.staging, err = device.NewHost(int(machine.StagingBytes(s.Near))); err != nil {
		return err
	}
	s.Memory = s.staging.Bytes()
	if err = s.gpu.OpenFrames(s.bytes-s.Near, gpurows.OpenBytes(&s.gpu.Table, s.lay), s.lay); err != nil {
		return err
	}
	s.RAM = s.gpu.RAM.Bytes()
	s.writer, err = gpurows.NewWriter(s.gpu.Device, s.staging)
	return err
}

// close releases the memory.
func (s *Frames) close() {
	if s.gpu == nil {
		s.ram.Close()
		return
	}
	s.writer.Free()
	s.gpu.CloseFrames()
	if s.staging != nil {
		s.staging.Free()
	}
}

// Bytes returns the n bytes of frames from byte at on, if all of them are in RAM, or else nil.
func (s *Frames) Bytes(at, n int64) []byte {
	if at < s.Near {
		return nil
	}
	return s.RAM[at-s.Near : at-s.Near+n]
}

// Settle returns when no earlier batch needs the rows in frames any more.
func (s *Frames) Settle(ctx context.Context) error {
	if s.gpu == nil || s.settled {
		return nil
	}
	for s.pending.Load() > 0 {
		select {
		case <-s.filled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := s.gpu.Device.Attached(s.gpu.Turns.Stream().Synchronize)
	s.settled = err == nil
	return err
}

// giveUp forgets batches that Fill has not gathered, and bytes that Flush has not copied.
func (s *Frames) giveUp(ctx context.Context) error {
	s.Drop()
	s.pending.Store(0)
	return s.Settle(ctx)
}

// Uses counts uses of the rows in some frames: the first since they were read, and of the others, the rows on the
// GPU.
func (s *Frames) Uses(frames []uint32) (first, near int) {
	end := s.Near / int64(s.facts.RowBytes)
	for _, f := range frames {
		switch {
		case s.Use(f):
			first++
		case int64(f) < end:
			near++
		}
	}
	return first, near
}

// entries returns a slot's matrix, with frames as entries.
func (s *Frames) entries() (machine.Entries, error) {
	if s.gpu == nil {
		return s.ram.NewEntries(s.facts, false)
	}
	m, err := machine.NewGPUEntries(s.gpu, s.facts, false)
	if err != nil {
		return nil, err
	}
	return pending{m, s}, nil
}

// pending is a slot's matrix that Fill gathers.
type pending struct {
	machine.Entries
	frames *Frames
}

// Assemble lets Settle wait for the batch.
func (p pending) Assemble(int) {
	p.frames.settled = false
	p.frames.pending.Add(1)
}

// Fill submits the gather.
func (p pending) Fill(n int, copies device.Stream, x device.Buffer) (device.Span, error) {
	span, err := p.Entries.Fill(n, copies, x)
	p.frames.pending.Add(-1)
	select {
	case p.frames.filled <- struct{}{}:
	default: // Settle will look again in any case
	}
	return span, err
}
