package packed

import (
	"context"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
)

// gpu is the sink of matrices that a GPU assembles. Rows from disk are copied to the GPU in packed form. One
// kernel gathers and widens rows, and reads rows of the table in RAM over the bus. This is as fast as copying
// rows that the CPU has gathered, and leaves the CPU to other work.
type gpu struct {
	table   gpuTable
	device  *cuda.Device
	landing landing
	train   matrixSize
	eval    matrixSize
	reads   deviceReads // of chunks that land on the GPU; nil: they land in host memory
	bytes   int64       // of the arena

	turns gpurows.Turns
}

// deviceReads are the reads of chunks that land on the GPU.
type deviceReads interface {
	// lay takes memory on the GPU out of the arena.
	lay(a device.Memory) error
	// open prepares for reads. close ends them, also after an error of open.
	open() error
	close()
	// part returns a slot's part of the cold level, with chunks that land in the matrix's memory.
	part(m *gpuMatrix, mem *memory) deviceChunk
}

// deviceChunk is a slot's part of the cold level with a chunk on the GPU.
type deviceChunk interface {
	chunkRows
	// open allocates memory, after the matrix's. free releases it.
	open() error
	free()
	// complete submits to the stream the work after which the chunk is in the matrix's memory.
	complete(copies device.Stream) error
	// landed is Slot.Landed.
	landed() error
}

// newGPU returns the sink of device number view of the layout. train and eval are the sizes of matrices.
func newGPU(src *source, l *Layout, view int, train, eval matrixSize) *gpu {
	on, devices := l.GPU, 1
	if view > 0 {
		on = l.Peers[view-1]
	}
	if l.Divided {
		devices += len(l.Peers)
	}
	g := &gpu{device: cuda.DeviceOf(on), bytes: l.GPUBytes - l.queued.deviceBytes(), train: train, eval: eval, table: gpuTable{
		Table: gpurows.Table{Device: on, Near: l.GPURows, Devices: devices, Part: view % devices, DType: src.facts.DType, Dim: src.facts.Dim},
		ram:   ramRows{src: src, first: l.GPURows, end: l.heldHot(), eval: l.HeldEval}}}
	if g.landing = inTurn; src.facts.DType == dtype.Float32 {
		g.landing = inMatrix
	}
	return g
}

// landing chooses the memory on the GPU for rows from disk: for float32 the matrix itself, otherwise the
// memory of a turn, from which a kernel widens them.
type landing struct {
	// bytes returns the memory of a turn for the given bytes of rows.
	bytes func(rows int64) int64
	// at returns the memory of claimed rows in the turn or in the matrix.
	at func(t *gpurows.Turn, x device.Buffer, s stretch, rowBytes int64) device.Buffer
	// widened returns the rows that a kernel has to widen.
	widened func(sent []sending) []sending
}

var (
	inTurn = landing{
		bytes: func(rows int64) int64 { return rows },
		at: func(t *gpurows.Turn, _ device.Buffer, s stretch, rowBytes int64) device.Buffer {
			return t.Rows.Slice(int64(s.from)*rowBytes, int64(s.rows)*rowBytes)
		},
		widened: func(sent []sending) []sending { return sent },
	}
	inMatrix = landing{
		bytes: func(int64) int64 { return 0 },
		at: func(_ *gpurows.Turn, x device.Buffer, s stretch, rowBytes int64) device.Buffer {
			return x.Slice(int64(s.to)*rowBytes, int64(s.rows)*rowBytes)
		},
		widened: func([]sending) []sending { return nil },
	}
)

func (g *gpu) packed() bool { return true }

// lay takes the memory of turns for training and for evaluation batches, and the memory of levels, out of the
// arena.
func (g *gpu) lay(a device.Memory) error {
	of := func(most matrixSize) gpurows.TurnBytes {
		return gpurows.TurnBytes{IDs: 4 * int64(most.taken+most.admitted), Rows: g.landing.bytes(int64(most.disk) * g.table.RowBytes())}
	}
	if err := g.turns.Lay(a, of(g.train), of(g.eval)); err != nil {
		return err
	}
	if g.reads != nil {
		if err := g.reads.lay(a); err != nil {
			return err
		}
	}
	return g.table.LayParts(a)
}

func (g *gpu) count(l *featurestore.Layout) {
	l.RAMBytes = g.table.ram.bytes()
	l.GPURowsBytes, l.GPUBytes = g.table.Bytes(), gpurows.OpenBytes(&g.table.Table, g.lay)
}

func (g *gpu) open() error {
	if err := g.turns.Open(&g.table.Table, g.bytes, g.lay, g.table.open); err != nil || g.reads == nil {
		return err
	}
	return g.reads.open()
}

func (g *gpu) close() error {
	if g.reads != nil {
		g.reads.close()
	}
	err := g.turns.Close(&g.table.Table)
	g.table.ram.close()
	return err
}

// fill first waits for batches that were given up, since they may still change the table.
func (g *gpu) fill(ctx context.Context, rep progress.Reporter) (int64, error) {
	return fillAll(ctx, []*gpu{g}, rep)
}

// fillAll is fill for all devices of a process. It reads every row once.
func fillAll(ctx context.Context, sinks []*gpu, rep progress.Reporter) (int64, error) {
	var fills []*filling
	for _, g := range sinks {
		if err := g.device.Attached(g.turns.Stream().Synchronize); err != nil {
			return 0, err
		}
		fills = append(fills, &filling{table: &g.table, stream: g.turns.Stream()})
	}
	n, err := fillNear(ctx, fills, rep)
	if err != nil {
		return n, err
	}
	ram, err := sinks[0].table.ram.fill(ctx, rep)
	return n + ram, err
}

func (g *gpu) matrix(b *batch, m *memory, size matrixSize) matrix {
	n := &gpuMatrix{gpu: g, b: b, turn: g.turns.Training, mem: m.land(int64(size.landed) * g.table.RowBytes()), ids: m.take(4 * int64(size.taken+size.admitted))}
	if size.eval {
		n.turn = g.turns.Evaluation
	}
	return n
}

// gpuMatrix is a slot's memory for matrices that the GPU assembles: rows from disk in packed form, and
// entries of the table.
type gpuMatrix struct {
	*gpu
	b    *batch
	turn func() *gpurows.Turn
	mem  *device.Host // rows from disk, in the order in which they were claimed
	ids  *device.Host // entries of the table to take, then entries that take admitted rows
	pins *gpurows.Pins

	// The slot's memory on the GPU for chunks, if reads land there.
	chunkBytes int64
	arena      *cuda.Arena
	chunkMem   device.Buffer // the arena
	read       deviceChunk   // nil: chunks land in host memory

	sent  []sending // rows from disk
	room  int64     // bytes of mem in use
	taken []stretch // rows from the table
	// Rows from disk that the table admits.
	admitted stretch
}

// sending is a stretch of rows from disk, in host memory or in the GPU's.
type sending struct {
	stretch
	host   []byte
	device device.Buffer
	copy   func(r *sending, s device.Stream, to device.Buffer) error
}

func fromHost(r *sending, s device.Stream, to device.Buffer) error   { return s.CopyIn(to, r.host) }
func fromDevice(r *sending, s device.Stream, to device.Buffer) error { return s.Copy(to, r.device) }

// own adds device memory for chunks to the slot.
func (m *gpuMatrix) own(mem *memory, bytes int64) {
	m.chunkBytes = binio.AlignUp(bytes, cuda.Align)
	mem.device += m.chunkBytes
}

// chunk implements matrix. It allocates memory on the GPU, if the GPU has rows of chunks.
func (m *gpuMatrix) chunk(mem *memory) chunkRows {
	if m.reads == nil {
		return nil
	}
	m.read = m.reads.part(m, mem)
	return m.read
}

// open lets the GPU copy from the slot.
func (m *gpuMatrix) open() (err error) {
	if m.pins, err = gpurows.Pin(m.device, m.mem, m.ids); err != nil || m.chunkBytes == 0 {
		return err
	}
	err = m.device.Attached(func() (err error) {
		if m.arena, err = m.device.NewArena(m.chunkBytes); err == nil {
			m.chunkMem, err = m.arena.Take(m.chunkBytes)
		}
		return err
	})
	if err != nil {
		return err
	}
	return m.read.open()
}

func (m *gpuMatrix) landed() error {
	if m.read == nil {
		return nil
	}
	return m.read.landed()
}

func (m *gpuMatrix) free() {
	if m.read != nil {
		m.read.free()
	}
	m.pins.Free()
	_ = m.device.Attached(func() error { // fails only after a fault, which was reported
		if m.arena != nil {
			m.arena.Free()
		}
		return nil
	})
	m.arena = nil
}

func (m *gpuMatrix) memory() []byte  { return nil }
func (m *gpuMatrix) x(int) []float32 { return nil }

func (m *gpuMatrix) begin() {
	m.sent, m.taken, m.room, m.admitted = m.sent[:0], m.taken[:0], 0, stretch{}
}

func (m *gpuMatrix) land(s stretch) places {
	n := int64(s.rows) * m.table.RowBytes()
	rows := m.mem.Bytes()[m.room : m.room+n]
	m.room += n
	m.sent = append(m.sent, sending{stretch: s, host: rows, copy: fromHost})
	return places{rows: rows}
}

// landDirect returns the device memory in which claimed rows land.
func (m *gpuMatrix) landDirect(s stretch) device.Buffer {
	rows := m.chunkMem.Slice(0, int64(s.rows)*m.table.RowBytes())
	m.sent = append(m.sent, sending{stretch: s, device: rows, copy: fromDevice})
	return rows
}

func (m *gpuMatrix) put(to places, k int, row []byte) { copy(to.rows[k*len(row):], row) }

func (m *gpuMatrix) take(s stretch, entries []uint32) {
	copy(m.ids.Uint32s()[s.from:s.from+s.rows], entries)
	m.b.GPURows += m.table.NearOf(entries)
	m.taken = append(m.taken, s)
}

// admit implements matrix. The chunk's rows are the first in the matrix and in mem.
func (m *gpuMatrix) admit(from int, _ []byte, entries []uint32) {
	copy(m.ids.Uint32s()[m.b.RAMRows:], entries)
	m.admitted = stretch{to: from, from: from, rows: len(entries)}
}

// fill submits the copies of rows from disk and, after them on the stream of gathers, the gathers and the
// changes of the table. That stream has the batches in the order in which they are computed, so every
// batch sees the table after the changes of all earlier batches, in the GPU's memory and in RAM.
func (m *gpuMatrix) fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	t := m.turn()
	if err := m.send(copies, t, x); err != nil {
		return nil, err
	}
	if err := m.turns.Begin(t, copies); err != nil {
		return nil, err
	}
	if err := m.gather(t, x); err != nil {
		return nil, err
	}
	if err := m.place(t, x); err != nil {
		return nil, err
	}
	return m.turns.End(t)
}

func (m *gpuMatrix) send(copies device.Stream, t *gpurows.Turn, x device.Buffer) error {
	if n := m.b.RAMRows + m.admitted.rows; n > 0 {
		if err := copies.CopyIn(t.IDs, binio.Bytes(m.ids.Uint32s()[:n])); err != nil {
			return err
		}
	}
	if m.read != nil {
		if err := m.read.complete(copies); err != nil {
			return err
		}
	}
	for i := range m.sent {
		r := &m.sent[i]
		if err := r.copy(r, copies, m.landing.at(t, x, r.stretch, m.table.RowBytes())); err != nil {
			return err
		}
	}
	return nil
}

// gather submits the copies of rows to their places in the matrix.
func (m *gpuMatrix) gather(t *gpurows.Turn, x device.Buffer) error {
	stream, row := m.turns.Stream(), 4*int64(m.b.src.facts.Dim)
	to := func(s stretch) device.Buffer { return x.Slice(int64(s.to)*row, int64(s.rows)*row) }
	for _, s := range m.taken {
		if err := m.table.Gather(stream, to(s), t.IDs.Slice(4*int64(s.from), 4*int64(s.rows)), s.rows); err != nil {
			return err
		}
	}
	for _, r := range m.landing.widened(m.sent) {
		if err := m.table.Widen(stream, to(r.stretch), m.landing.at(t, x, r.stretch, m.table.RowBytes()), r.rows); err != nil {
			return err
		}
	}
	return nil
}

// place submits the copies of admitted rows to the table, after the gathers from it.
func (m *gpuMatrix) place(t *gpurows.Turn, x device.Buffer) error {
	n := m.admitted.rows
	if n == 0 {
		return nil
	}
	rows := m.landing.at(t, x, m.admitted, m.table.RowBytes())
	return m.table.Place(m.turns.Stream(), rows, t.IDs.Slice(4*int64(m.b.RAMRows), 4*int64(n)), n)
}
