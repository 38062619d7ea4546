package hyperion

import (
	"errors"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
)

// gpu assembles matrices on a GPU. The first frames are in its memory. The other frames are in RAM, and the
// GPU reads them over the bus. Missed rows land after the frames in its memory, as entries of the same
// table, so one kernel gathers from all three:
//
//	entry   0         near          near + 2·train + eval
//	        │ frames  │ landings    │ frames from near on, in RAM
//
// Training batches land in two places in turn, evaluation batches in a third.
type gpu struct {
	gpurows.Frames
	facts            *featurestore.Facts
	near, rows       int64       // frames on the GPU, and all frames
	bytes            int64       // of the device's memory
	arrived, entries cuda.Buffer // rows to be copied to frames, and their entries
	reads            *devrows.Plan
	devices          *devrows.Reader // reads the misses of training batches on the GPU; nil: the host does
}

func newGPU(f *featurestore.Facts, l *featurestore.Layout, o own) *gpu {
	g := &gpu{facts: f, near: o.near, rows: o.rows, bytes: l.GPUBytes - o.reads.DeviceBytes(), reads: o.reads}
	landing := gpurows.LandingRows(int64(f.Inputs(false)), int64(f.Inputs(true)))
	g.Table = gpurows.Table{Device: l.GPU, Near: g.near + landing, DType: f.DType, Dim: f.Dim}
	return g
}

// arriving returns the number of rows that are copied to their frames at a time.
func (g *gpu) arriving() int64 { return min(g.facts.Nodes, max(1, arrivingBytes/g.RowBytes())) }

const arrivingBytes = 1 << 20

// lay takes the device memory, without the table's, out of the arena.
func (g *gpu) lay(a *cuda.Arena) error {
	turn := func(eval bool) gpurows.TurnBytes { return gpurows.TurnBytes{IDs: 4 * int64(g.facts.Inputs(eval))} }
	var errs [3]error
	errs[0] = g.Turns.Lay(a, turn(false), turn(true))
	g.arrived, errs[1] = a.Take(g.arriving() * g.RowBytes())
	g.entries, errs[2] = a.Take(4 * g.arriving())
	return errors.Join(errs[:]...)
}

func (g *gpu) ramBytes() int64 { return (g.rows - g.near) * g.RowBytes() }

func (g *gpu) count(l *featurestore.Layout) {
	l.GPURowsBytes, l.GPUBytes = g.near*g.RowBytes(), gpurows.OpenBytes(&g.Table, g.lay)
	l.RAMBytes, l.KeepBytes = machine.Pages(g.ramBytes()), machine.Pages(g.arriving()*g.RowBytes())+machine.Pages(4*g.arriving())
	slot := func(eval bool) int64 {
		n := int64(g.facts.Inputs(eval))
		if g.reads != nil && !eval {
			return machine.Pages(4 * n)
		}
		return machine.Pages(n*g.RowBytes()) + machine.Pages(4*n)
	}
	l.SlotBytes, l.EvalSlotBytes = slot(false), slot(true)
}

func (g *gpu) open() error { return g.OpenFrames(g.ramBytes(), g.bytes, g.lay) }

func (g *gpu) close() { g.CloseFrames() }

func (g *gpu) filling() (_ filling, err error) {
	f := &gpuFilling{gpu: g}
	if f.rows, err = g.pin(g.arriving() * g.RowBytes()); err != nil {
		return nil, err
	}
	if f.frames, err = g.pin(4 * g.arriving()); err != nil {
		return nil, errors.Join(err, f.end())
	}
	return f, nil
}

// gpuFilling writes rows to their frames. It copies rows to the GPU in groups.
type gpuFilling struct {
	*gpu
	rows, frames *pinned
	n            int // of them
}

func (f *gpuFilling) put(frame int32, row []byte) error {
	if i := int64(frame) - f.near; i >= 0 {
		copy(f.Frames.RAM.Bytes()[i*f.RowBytes():], row)
		return nil
	}
	copy(f.rows.Bytes()[f.n*len(row):], row)
	f.frames.Uint32s()[f.n] = uint32(frame)
	if f.n++; int64(f.n) < f.arriving() {
		return nil
	}
	return f.place()
}

// place copies the collected rows to their frames on the GPU, and waits for the copy.
func (f *gpuFilling) place() error {
	n := f.n
	f.n = 0
	if n == 0 {
		return nil
	}
	return f.Device.Attached(func() error {
		s := f.Turns.Stream()
		if err := s.CopyIn(f.arrived, f.rows.Bytes()[:int64(n)*f.RowBytes()]); err != nil {
			return err
		}
		if err := s.CopyIn(f.entries, binio.Bytes(f.frames.Uint32s()[:n])); err != nil {
			return err
		}
		if err := f.Place(s, f.arrived, f.entries, n); err != nil {
			return err
		}
		return s.Synchronize()
	})
}

func (f *gpuFilling) end() error {
	var err error
	if f.frames != nil {
		err = f.place()
		f.frames.free()
	}
	f.rows.free()
	return err
}

// pinned is host memory that a GPU copies from.
type pinned struct {
	*device.Host
	pins *gpurows.Pins
}

func (g *gpu) pin(bytes int64) (_ *pinned, err error) {
	p := new(pinned)
	if p.Host, err = device.NewHost(int(bytes)); err != nil {
		return nil, err
	}
	if p.pins, err = gpurows.Pin(g.Device, p.Host); err != nil {
		p.Host.Free()
		return nil, err
	}
	return p, nil
}

func (p *pinned) free() {
	p.pins.Free()
	p.Host.Free()
}

func (g *gpu) matrix(eval bool) (_ matrix, err error) {
	m, n := &gpuMatrix{gpu: g, Matrix: g.Turns.NewMatrix(eval)}, int64(g.facts.Inputs(eval))
	if m.ids, err = g.pin(4 * n); err != nil {
		return nil, err
	}
	if g.devices != nil && !eval {
		m.slot, err = g.devices.NewSlot()
	} else {
		m.rows, err = g.pin(n * g.RowBytes())
	}
	if err != nil {
		m.ids.free()
		return nil, err
	}
	return m, nil
}

// gpuMatrix is a slot's memory for matrices that the GPU assembles: the rows read, and the entries of the
// table that make up the matrix.
type gpuMatrix struct {
	*gpu
	gpurows.Matrix
	rows, ids *pinned
	slot      *devrows.Slot // if the GPU reads; rows is unused then
	places    []int32
}

func (m *gpuMatrix) begin(held, places []int32) (near int) {
	m.places = places
	ids := m.ids.Uint32s()
	for i, frame := range held {
		switch {
		case frame == residency.Absent: // fill sets the entry, in the batch's landing
		case int64(frame) < m.near:
			ids[i] = uint32(frame)
			near++
		default:
			ids[i] = uint32(m.Near + int64(frame) - m.near)
		}
	}
	return near
}

func (m *gpuMatrix) put(k int, row []byte) error {
	copy(m.rows.Bytes()[k*len(row):], row)
	return nil
}

func (m *gpuMatrix) Assemble(int) {}

// Fill submits the copies of the rows read and of the entries and, after them on the table's stream, the
// gather.
func (m *gpuMatrix) Fill(n int, copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	t := m.Turn()
	landing := m.near + t.Landing(int64(m.facts.Inputs(false)))
	for k, place := range m.places {
		m.ids.Uint32s()[place] = uint32(landing + int64(k))
	}
	if read := int64(len(m.places)) * m.RowBytes(); read > 0 {
		if err := m.bring(copies, m.Rows().Slice(landing*m.RowBytes(), read)); err != nil {
			return nil, err
		}
	}
	if err := m.Turns.Gather(t, &m.Table, copies, x, m.ids.Uint32s()[:n], n); err != nil {
		return nil, err
	}
	return m.Turns.End(t)
}

// bring submits the copies of the rows read to rows of the table.
func (m *gpuMatrix) bring(copies *cuda.Stream, to cuda.Buffer) error {
	if m.slot != nil {
		return m.slot.Fill(copies, to, len(m.places))
	}
	return copies.CopyIn(to, m.rows.Bytes()[:to.Bytes()])
}

func (m *gpuMatrix) device() *devrows.Slot { return m.slot }

func (m *gpuMatrix) Free() {
	if m.slot != nil {
		m.slot.Free()
	} else {
		m.rows.free()
	}
	m.ids.free()
}
