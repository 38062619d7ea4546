package gids

import (
	"errors"
	"unsafe"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/binio"
)

// gpu is the device side of a GPU that submits the reads of pages, and makes the matrices of training
// batches. The first lines are in its memory. The constant buffer and the other lines are in RAM; the GPU reads
// and writes them over the bus. All pages of a batch are in the slot's memory on the device, in ascending
// order: missed pages land there, pages in lines are copied there. So a row on two pages is contiguous.
//
//	copies    complete the reads ─► pages from lines ─► pages to lines ─► rows out of pages
//	gathers   these rows, and rows of the constant buffer, to the matrix
//
// Batches come to the lines in the order in which they compute.
type gpu struct {
	gpurows.Table // near: rows out of pages, of each turn; far: the constant buffer
	facts         *featurestore.Facts
	plan          *gpureads.Plan
	pages         int   // of a batch, at most
	bytes         int64 // of the device's memory
	turns         gpurows.Turns
	reader        *gpureads.Reader
	near          int              // lines in its memory
	lines         [2]device.Buffer // in its memory, and in RAM
	changed       *cuda.Event      // after the last batch's changes of lines
}

func newGPU(d *design, o own) *gpu {
	n := int64(d.Facts.Inputs(false))
	g := &gpu{facts: &d.Facts, plan: o.reads, pages: d.mostPages(int(n)), near: o.near}
	g.Table = gpurows.Table{Device: o.gpu, Near: gpurows.LandingRows(n, 0), DType: d.Facts.DType, Dim: d.Facts.Dim}
	g.bytes = gpurows.OpenBytes(&g.Table, g.lay)
	return g
}

// lay takes the device memory, without the rows, out of the arena.
func (g *gpu) lay(a device.Memory) (err error) {
	if g.lines[0], err = a.Take(int64(g.near) * binio.Page); err != nil {
		return err
	}
	return g.turns.Lay(a, gpurows.TurnBytes{IDs: 4 * int64(g.facts.Inputs(false))}, gpurows.TurnBytes{})
}

// count adds the memory of the side and its slots to a layout.
func (g *gpu) count(l *featurestore.Layout) {
	l.GPU, l.GPUBytes = g.Device, g.bytes
	l.GPURowsBytes = int64(g.near) * binio.Page
	l.GPURows = min(g.facts.Nodes, l.GPURowsBytes/g.RowBytes())
	l.SlotBytes += g.listBytes() + 4*int64(g.facts.Inputs(false))
	g.plan.Count(l)
	dry := new(cuda.Arena)
	_ = new(gpuMatrix).lay(g, dry)
	l.GPUSlotBytes += dry.Used()
}

// listBytes is the size of a batch's lists of pages from lines and to lines.
func (g *gpu) listBytes() int64 { return 12 * int64(g.pages) }

// open takes the device's memory, and gives the device access to the levels.
func (g *gpu) open(v *levels, reader *gpureads.Reader) error {
	skip := int64(0)
	within := func(b []byte) int64 {
		return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(v.host.Bytes()))))
	}
	if len(v.buffer.rows) > 0 {
		skip = within(v.buffer.rows)
	}
	err := g.turns.Open(&g.Table, g.bytes, g.lay, func(a device.Memory) (err error) {
		if err = g.Open(a, v.host, skip); err != nil {
			return err
		}
		g.changed, err = cuda.DeviceOf(g.Device).NewEvent()
		return err
	})
	if err != nil {
		return err
	}
	if n := int64(len(v.lines)); n > 0 {
		g.lines[1] = g.RAM().Slice(within(v.lines), n)
	}
	g.reader = reader
	return nil
}

// put copies bytes into the lines in the device's memory, and waits for the copy.
func (g *gpu) put(at int64, b []byte) error {
	return g.turns.Put(g.Device, g.lines[0], at, b)
}

// settle waits for the changes of lines by batches that were given up.
func (g *gpu) settle() error { return g.Device.Attached(g.changed.Synchronize) }

func (g *gpu) close() {
	_ = g.Device.Attached(func() error { // fails only after a fault, which was reported
		if g.changed != nil {
			_ = g.changed.Synchronize()
			g.changed.Free()
		}
		return nil
	})
	_ = g.turns.Close(&g.Table) // likewise
}

// gpuMatrix is a slot's memory for the matrices that the GPU makes.
type gpuMatrix struct {
	*gpu
	slot     *gpureads.Slot
	arena    *cuda.Arena
	from, to device.Buffer
	host     *cuda.Pinned // hostFrom, hostTo and ids
	ids      []uint32     // entries of the table, in the matrix's order; for rows out of pages, as of turn 0
	hostFrom []uint64     // by copied page: its offset in the lines or in the landing
	hostTo   []uint32     // by copied page: its destination, in pages

	wanted *wanted // of the batch
	course *course

	rows   int
	moves  []move // copies of pages from lines, then to lines
	copied int    // pages of all moves
}

// move is a copy of n pages from a buffer to another one: places from first on in the lists of copied pages.
type move struct {
	to, from device.Buffer
	first, n int
}

// lay takes the device's memory.
func (m *gpuMatrix) lay(g *gpu, a device.Memory) error {
	var errs [2]error
	m.from, errs[0] = a.Take(8 * int64(g.pages))
	m.to, errs[1] = a.Take(4 * int64(g.pages))
	return errors.Join(errs[:]...)
}

// matrix returns a slot's memory for batches with the given pages.
func (g *gpu) matrix(w *wanted, c *course) (_ *gpuMatrix, err error) {
	m := &gpuMatrix{gpu: g, wanted: w, course: c}
	n, p := int64(g.facts.Inputs(false)), int64(g.pages)
	d := cuda.DeviceOf(g.Device)
	err = d.Attached(func() (err error) {
		dry := new(cuda.Arena)
		_ = m.lay(g, dry)
		if m.arena, err = d.NewArena(dry.Used()); err != nil {
			return err
		}
		if err = m.lay(g, m.arena); err != nil {
			return err
		}
		m.host, err = d.NewPinned(g.listBytes() + 4*n)
		return err
	})
	if err == nil {
		b := m.host.Bytes()
		m.hostFrom, m.hostTo, m.ids = binio.View[uint64](b[:8*p]), binio.View[uint32](b[8*p:12*p]), binio.View[uint32](b[12*p:])
		m.slot, err = g.reader.NewSlot()
	}
	if err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

func (m *gpuMatrix) Free() {
	if m.slot != nil {
		m.slot.Free()
	}
	_ = m.Device.Attached(func() error { // fails only after a fault, which was reported
		if m.host != nil {
			m.host.Free()
		}
		if m.arena != nil {
			m.arena.Free()
		}
		return nil
	})
}

// begin records the places of a batch's rows and the copies of its pages, after the cache has decided for
// the batch.
func (m *gpuMatrix) begin(nodes []uint32, w *wanted, b *buffer) {
	m.rows = len(w.rows)
	for i, v := range nodes {
		if b.has(v) {
			m.ids[i] = uint32(m.Near) + b.placeOf[v] - 1
		}
	}
	row, j := int64(m.facts.RowBytes), 0
	for k, r := range w.rows {
		begin := int64(r>>32) * row
		for int64(w.pages[j]) < begin/binio.Page {
			j++
		}
		m.slot.Row(k, int64(j)*binio.Page+begin%binio.Page)
		m.ids[uint32(r)] = uint32(k)
	}
	m.moves, m.copied = m.moves[:0], 0
	m.list(w.held[:len(w.pages)], false)
	m.list(w.into[:len(w.pages)], true)
}

// list lists the copies between lines and the landing, where page j has the line lines[j] or absent: from lines,
// or if in is set, to lines.
func (m *gpuMatrix) list(lines []int32, in bool) {
	for level, memory := range m.lines {
		v := move{to: m.slot.Landing(), from: memory, first: m.copied}
		if in {
			v.to, v.from = v.from, v.to
		}
		for j, f := range lines {
			on, place := m.line(f)
			if on != level {
				continue
			}
			from, to := place, j
			if in {
				from, to = to, from
			}
			m.hostFrom[m.copied], m.hostTo[m.copied] = uint64(from)*binio.Page, uint32(to)
			m.copied++
		}
		v.n = m.copied - v.first
		m.moves = append(m.moves, v)
	}
}

// line returns the number of the memory in gpu.lines that has a line, and its place there; absent has none.
func (g *gpu) line(f int32) (level, place int) {
	switch {
	case f == absent:
		return -1, 0
	case int(f) < g.near:
		return 0, int(f)
	}
	return 1, int(f) - g.near
}

// Assemble lets a later batch be in flight: Fill makes the matrix.
func (m *gpuMatrix) Assemble(int)    { m.course.done() }
func (m *gpuMatrix) Memory() []byte  { return nil }
func (m *gpuMatrix) X(int) []float32 { return nil }

// Fill implements machine.Matrix.
func (m *gpuMatrix) Fill(n int, copies device.Stream, x device.Buffer) (device.Span, error) {
	t, row := m.turns.Training(), m.RowBytes()
	landing := t.Landing(int64(m.facts.Inputs(false)))
	for _, r := range m.wanted.rows {
		m.ids[uint32(r)] += uint32(landing)
	}
	if err := m.slot.Complete(copies); err != nil {
		return nil, err
	}
	if err := m.exchange(copies); err != nil {
		return nil, err
	}
	if err := m.slot.Extract(copies, m.Rows().Slice(landing*row, int64(m.rows)*row), m.rows); err != nil {
		return nil, err
	}
	if err := m.turns.Gather(t, &m.Table, copies, x, m.ids[:n], n); err != nil {
		return nil, err
	}
	return m.turns.End(t)
}

// exchange submits the copies of pages from lines, and to lines.
func (m *gpuMatrix) exchange(copies device.Stream) error {
	n := m.copied
	if n == 0 {
		return nil
	}
	s := cuda.StreamOf(copies)
	if err := errors.Join(s.CopyIn(m.from, binio.Bytes(m.hostFrom[:n])), s.CopyIn(m.to, binio.Bytes(m.hostTo[:n])), s.Wait(m.changed)); err != nil {
		return err
	}
	for _, v := range m.moves {
		if v.n == 0 {
			continue
		}
		at, n := int64(v.first), int64(v.n)
		if err := (kernels.Extract{Out: v.to, To: m.to.Slice(4*at, 4*n), Source: v.from, RowBytes: binio.Page,
			From: m.from.Slice(8*at, 8*n), Step: binio.Page, Rows: kernels.Rows(v.n)}).Launch(s); err != nil {
			return err
		}
	}
	return m.changed.Record(s)
}
