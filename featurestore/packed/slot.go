package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// Slot holds one batch on its way: its graph, its feature matrix, and the memory
// that reads land in. Everything is reserved when the slot is made, at the pack's
// maxima. A slot belongs to one goroutine at a time.
type Slot struct {
	// Batch is the decoded graph of the batch loaded last; its memory is reused.
	Batch graph.Batch
	// BytesRead and UsefulBytes are, of the batch loaded last, what was read from
	// disk and how much of that the batch is made of: its graph and its rows.
	BytesRead, UsefulBytes int64
	// SSDRead and SSDUseful are what the SSD level has of them.
	SSDRead, SSDUseful int64
	// GraphRead is what the graph has of BytesRead, and RAMRows are the rows that no
	// read was for.
	GraphRead int64
	RAMRows   int

	store   *Store
	batch   int
	plan    packfile.Plan
	matrix  *device.Host // float32; for the GPU, rows as packed that are sent to it
	wire    *device.Host // of chunks that are not float32 rows as they are
	raw     *device.Host // the graph's bytes
	staging [2]*device.Host
	graph   iostack.Group // the graph's read
	group   iostack.Group // the chunk's
	rows    rowReader     // through staging
	req     []iostack.Request

	used       bool // by a batch
	registered bool // its memory, with the stack
	// The files that started reads come from: of the graph, the chunk, the SSD level.
	graphFile, chunk, ssd *cachedFile
	cold                  int // rows of the chunk's prefix
	load                  chunkLoad
	gpu                   gpuSlot
}

// NewSlot makes a slot for training batches.
func (s *Store) NewSlot() (*Slot, error) { return s.newSlot(slotSizes(s.pack, &s.layout), false) }

// NewEvalSlot makes a slot for validation and test batches.
func (s *Store) NewEvalSlot() (*Slot, error) {
	return s.newSlot(evalSlotSizes(s.pack, &s.layout), true)
}

func (s *Store) newSlot(b slotBytes, eval bool) (*Slot, error) {
	sl := &Slot{store: s, req: make([]iostack.Request, 0, 64)}
	sl.gpu.eval = eval
	sizes := s.facts.TrainSizes
	if eval {
		sizes = s.facts.EvalSizes
	} else {
		sl.plan = s.pack.NewPlan()
	}
	sl.Batch = sizes.NewBatch(s.facts.TargetBytes)
	for _, m := range []struct {
		dst   **device.Host
		bytes int64
	}{
		{&sl.matrix, b.matrix}, {&sl.wire, b.wire}, {&sl.raw, binio.AlignUp(s.facts.GraphBytes, device.PageSize)},
		{&sl.staging[0], b.staging}, {&sl.staging[1], b.staging}, {&sl.gpu.ids, b.ids},
	} {
		h, err := device.NewHost(int(m.bytes))
		if err != nil {
			sl.Free()
			return nil, fmt.Errorf("slot: %w", err)
		}
		*m.dst = h
	}
	if err := sl.pin(); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// landing returns the slot's memory that reads land in.
func (sl *Slot) landing() [][]byte {
	return [][]byte{sl.matrix.Bytes(), sl.wire.Bytes(), sl.raw.Bytes(), sl.staging[0].Bytes(), sl.staging[1].Bytes()}
}

// register announces the slot's memory to the stack, from its second batch on. Announced
// memory is pinned, for which the kernel has to find all of it first: a second for all slots
// together, or more on a virtual machine, in which the drive would be idle if they began
// with it. The first batch's reads bring in the memory that they land in, side by side.
func (sl *Slot) register() error {
	if !sl.used || sl.registered {
		sl.used = true
		return nil
	}
	if err := sl.store.stack.Register(sl.landing()...); err != nil {
		return fmt.Errorf("register a slot's memory: %w", err)
	}
	sl.registered = true
	return nil
}

// Free gives the slot's memory back. No read may be in flight: Wait first.
func (sl *Slot) Free() {
	sl.unpin()
	for _, h := range []*device.Host{sl.matrix, sl.wire, sl.raw, sl.staging[0], sl.staging[1]} {
		if h == nil {
			continue
		}
		if sl.registered {
			_ = sl.store.stack.Unregister(h.Bytes()) // Register was a hint
		}
		h.Free()
	}
	if sl.gpu.ids != nil {
		sl.gpu.ids.Free()
	}
}

// Matrix returns the memory in which X lies, whichever batch it is of, until Free; none
// where the GPU assembles it.
func (sl *Slot) Matrix() []byte {
	if sl.store.gpu != nil {
		return nil
	}
	return sl.matrix.Bytes()
}

// X returns the batch's feature matrix, input nodes × dim, row-major. It is
// complete after Assemble or LoadEval, and the slot's until it loads again. Where the GPU
// assembles it there is none: see Fill.
func (sl *Slot) X() []float32 {
	if sl.store.gpu != nil {
		return nil
	}
	return sl.matrix.Float32s()[:len(sl.Batch.Input)*sl.store.facts.Dim]
}

// Start submits the reads of training batch i's graph and of its chunk, as far as no
// cache holds its rows: the index knows where both lie. It returns at once, but for the
// slot's second batch, before which its memory is registered; the slot must be waited for,
// even after an error.
func (s *Store) Start(sl *Slot, i int) error {
	if err := sl.register(); err != nil {
		return err
	}
	if err := s.startGraph(sl, i); err != nil {
		return fmt.Errorf("graph of batch %d: %w", i, err)
	}
	if err := s.startChunk(sl); err != nil {
		return fmt.Errorf("chunk of batch %d: %w", i, err)
	}
	return nil
}

// startGraph makes the slot that of a batch, whose graph it asks for.
func (s *Store) startGraph(sl *Slot, i int) (err error) {
	t := &s.pack.Index().Train[i]
	sl.batch, sl.cold = i, 0
	sl.clearCounts()
	if sl.graphFile, err = s.files.take(packfile.GraphFile(s.pack.Group(i))); err != nil {
		return err
	}
	return s.submitGraph(sl, sl.graphFile.File, t.GraphOffset, t.GraphBytes)
}

// LoadGraph waits for the graph of the batch that the slot was started for, checks and
// decodes it, and submits the first reads of the batch's rows from the SSD level.
func (s *Store) LoadGraph(ctx context.Context, sl *Slot) error {
	if err := s.loadGraph(ctx, sl); err != nil {
		return err
	}
	if err := s.startSSD(sl); err != nil {
		return fmt.Errorf("SSD level of batch %d: %w", sl.batch, err)
	}
	return nil
}

// loadGraph waits for the graph, checks and decodes it.
func (s *Store) loadGraph(ctx context.Context, sl *Slot) error {
	n := s.pack.Index().Train[sl.batch].GraphBytes
	if err := s.endGraph(ctx, sl); err != nil {
		return fmt.Errorf("graph of batch %d: %w", sl.batch, err)
	}
	sl.UsefulBytes += int64(n)
	return s.pack.DecodeTrainGraph(sl.batch, sl.raw.Bytes()[:n], &sl.Batch, &sl.plan)
}

// endGraph returns when the graph's read is over, if there is one.
func (s *Store) endGraph(ctx context.Context, sl *Slot) error {
	f := sl.graphFile
	sl.graphFile = nil
	return errors.Join(s.stack.Wait(ctx, &sl.graph), s.files.give(f))
}

func (sl *Slot) clearCounts() {
	sl.BytesRead, sl.UsefulBytes, sl.SSDRead, sl.SSDUseful = 0, 0, 0, 0
	sl.GraphRead, sl.RAMRows = 0, 0
}

// submitGraph asks for a graph's bytes.
func (s *Store) submitGraph(sl *Slot, file iostack.File, off int64, n int) error {
	err := s.submit(sl, &sl.graph, file, off, sl.raw.Bytes()[:n])
	sl.GraphRead = sl.BytesRead
	return err
}

// submit asks for one range and counts what reading it takes.
func (s *Store) submit(sl *Slot, g *iostack.Group, file iostack.File, off int64, buf []byte) error {
	sl.req = append(sl.req[:0], iostack.Request{File: file, Offset: off, Buf: buf})
	if err := s.stack.Submit(g, sl.req); err != nil {
		return err
	}
	sl.BytesRead += extent(file, off, int64(len(buf)))
	return nil
}

// extent returns the bytes that reading a range moves: whole pages when direct.
func extent(f iostack.File, off, n int64) int64 {
	if direct, _ := f.Direct(); !direct || n == 0 {
		return n
	}
	return min(binio.AlignUp(off+n, binio.Page), binio.AlignUp(f.Size(), binio.Page)) - off/binio.Page*binio.Page
}

func (s *Store) startChunk(sl *Slot) error {
	t := &s.pack.Index().Train[sl.batch]
	sl.cold = t.ColdRows(s.layout.Through)
	if sl.cold == 0 {
		return nil
	}
	file, err := s.files.take(packfile.ColdFile(s.pack.Group(sl.batch)))
	if err != nil {
		return err
	}
	sl.chunk = file
	if sl.direct() {
		return s.startDirect(sl, t)
	}
	return s.submit(sl, &sl.group, file.File, t.ChunkOffset, sl.chunkBytes())
}

// chunkBytes returns the memory that the chunk's prefix lands in.
func (sl *Slot) chunkBytes() []byte {
	s := sl.store
	n := s.pack.Index().Train[sl.batch].Extent(s.pack.Form(), s.layout.Through)
	if s.layout.inPlace(s.pack) {
		return sl.matrix.Bytes()[:n]
	}
	return sl.wire.Bytes()[:n]
}

// Wait returns when the chunk has landed, and the rows of the SSD level, read and
// checked round after round, are in the matrix. When ctx ends first it returns once no
// read can still write into the slot.
func (s *Store) Wait(ctx context.Context, sl *Slot) error {
	err := s.stack.Wait(ctx, &sl.group)
	if err != nil {
		err = fmt.Errorf("chunk of batch %d: %w", sl.batch, err)
	}
	err = errors.Join(err, s.endGraph(ctx, sl)) // of a batch that is given up
	err = s.endSSD(ctx, sl, err)
	f := sl.chunk
	sl.chunk = nil
	return errors.Join(err, s.files.give(f))
}

// Assemble checks the chunk and completes the matrix, or what Fill makes it of. It is
// called by one goroutine. Under policy min it changes the cache: batches are assembled
// in the pack's order, from the one that the cache was filled for.
func (s *Store) Assemble(ctx context.Context, sl *Slot) error {
	if sl.cold > 0 {
		if err := s.loadChunk(sl); err != nil {
			return fmt.Errorf("chunk of batch %d: %w", sl.batch, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	first, n := s.ssdRows(sl.batch)
	sl.RAMRows = len(sl.Batch.Input) - sl.cold - n
	if s.min != nil {
		return s.assembleMin(sl)
	}
	// The caches hold the warmer bands of both levels, and what is always hot.
	if s.gpu != nil {
		sl.route([2]stretch{{rows: sl.cold}, {to: first, from: sl.cold, rows: n}},
			[2]stretch{{to: sl.cold, rows: first - sl.cold}, {to: first + n, from: first - sl.cold, rows: len(sl.Batch.Input) - first - n}})
		return nil
	}
	s.gatherHot(sl, sl.cold, first)
	s.gatherHot(sl, first+n, len(sl.Batch.Input))
	return nil
}

// loadChunk checks the chunk and puts its rows into the matrix, if they are not there.
func (s *Store) loadChunk(sl *Slot) error {
	t, form := &s.pack.Index().Train[sl.batch], s.pack.Form()
	if sl.direct() {
		sl.UsefulBytes += t.Stored(form, s.layout.Through)
		return s.gpu.checks.verify(sl, t)
	}
	to, dim := sl.places(0, 0, sl.cold), s.facts.Dim
	if s.facts.DType == dtype.Float32 && to.rows == nil {
		to.rows = binio.Bytes(to.x)
	}
	sl.load = chunkLoad{
		batch: t, through: s.layout.Through, name: s.pack.Path(packfile.ColdFile(s.pack.Group(sl.batch))),
		stored: sl.chunkBytes(), rows: to.rows, x: to.x,
	}
	if s.min != nil {
		s.min.keep(&sl.load, t, form)
	}
	sl.UsefulBytes += t.Stored(form, s.layout.Through)
	if err := s.copies.check(&sl.load, s.facts.DType, dim); err != nil {
		return err
	}
	if !form.Compressed() && to.rows == nil {
		s.copies.widen(to.x, sl.load.stored, s.facts.DType, dim)
	}
	return nil
}

// gatherHot copies the matrix's rows lo ≤ i < hi out of RAM, by rank.
func (s *Store) gatherHot(sl *Slot, lo, hi int) {
	dim := s.facts.Dim
	s.copies.gather(sl.X()[lo*dim:hi*dim], s.cache.Bytes(), sl.Batch.Input[lo:hi], s.facts.DType, dim)
}
