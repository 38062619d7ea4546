package gids

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
	"diskgnn/iostack"
)

// slot implements featurestore.Slot and featurestore.Landing.
type slot struct {
	featurestore.Loaded
	store *store
	host  *device.Host
	buffers
	onGPU *gpuMatrix // submits the reads and makes the matrix; nil: the host does

	ahead  int64 // bytes that the window read
	flight devrows.Flight
}

// buffers is the memory of a slot, but for the loader's and the requests.
type buffers struct {
	matrix []byte
	stored []byte // rows in the dataset's type, in the matrix's order; the matrix itself for float32
	nodes  []uint32
	wanted wanted
	missed []uint32 // by read: the place of the page in wanted.pages
	reads  []uint32 // by read: the page
	reader reader
}

func (b *buffers) lay(mem *carver, d *design, eval, onGPU bool) {
	f, n := &d.Facts, d.Facts.Inputs(eval)
	if !onGPU {
		b.matrix = list[byte](mem, 4*n*f.Dim)
		if b.stored = b.matrix; f.DType != dtype.Float32 {
			b.stored = list[byte](mem, n*f.RowBytes)
		}
		b.reader.lay(mem)
	}
	b.nodes = list[uint32](mem, n)
	b.wanted.lay(mem, d, n)
	b.missed, b.reads = list[uint32](mem, d.mostPages(n)), list[uint32](mem, d.mostPages(n))
}

// slotBytes returns the memory of a slot; 0 where there are no batches for it.
func (d *design) slotBytes(eval, onGPU bool) int64 {
	if d.Facts.Inputs(eval) == 0 {
		return 0
	}
	return carved(func(mem *carver) { new(buffers).lay(mem, d, eval, onGPU) }) + requestsBytes + d.Source.LoaderBytes(eval)
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s}
	var err error
	if sl.host, err = carve(func(mem *carver) { sl.buffers.lay(mem, s.design, eval, s.side != nil && !eval) }); err == nil {
		sl.reader.table, sl.reader.counts, sl.reader.requests = &s.table, &sl.Rows, make([]iostack.Request, roundReads)
		sl.Loader, err = s.loaders.NewLoader(eval)
	}
	if err == nil && s.side != nil && !eval {
		sl.onGPU, err = s.side.matrix()
	}
	if err == nil && sl.onGPU == nil {
		err = s.table.stack.Register(sl.reader.staging)
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	sl.flight.Host = &sl.reader
	if sl.onGPU != nil {
		sl.flight.GPU = sl.onGPU.slot
	}
	if !eval {
		s.course.add(1)
	}
	return sl, nil
}

// Start submits the read of the graph. The pages to read follow from the graph.
func (sl *slot) Start(r featurestore.Ref) error {
	if err := sl.Landed(); err != nil { // of the batch before, if it was given up
		return err
	}
	sl.ahead = 0
	return sl.Loaded.Start(r)
}

// LoadGraph decodes the graph, finds the pages in lines and submits the first reads of the other pages.
// Batches of evaluation use the constant buffer, but not the lines, and change neither.
func (sl *slot) LoadGraph(ctx context.Context) error {
	input, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	s, w := sl.store, &sl.wanted
	copy(sl.nodes, input)
	nodes := sl.nodes[:len(input)]
	if sl.Ref.Split == featurestore.Train {
		if sl.ahead, err = s.course.decide(ctx, sl.Ref.Index, nodes, w); err != nil {
			return err
		}
	} else {
		w.find(nodes, &s.buffer, s.Facts.RowBytes)
		for j := range w.pages {
			w.held[j], w.into[j] = absent, absent
		}
	}
	for i, v := range nodes {
		input[i] = s.ranks[v]
	}
	misses := 0
	for j, p := range w.pages {
		if w.held[j] == absent {
			sl.missed[misses], sl.reads[misses] = uint32(j), p
			misses++
		}
	}
	hits, accesses := w.counts(s.Facts.RowBytes)
	sl.Rows.BufferRows = len(nodes) - len(w.rows)
	sl.Rows.RAMRows = sl.Rows.BufferRows + hits
	sl.Rows.PageMisses = misses
	sl.Rows.PageHits = int(accesses) - misses
	return sl.flight.Begin(sl.Ref, func() error {
		if sl.onGPU != nil {
			return sl.submit(nodes, sl.missed[:misses])
		}
		return sl.reader.start(sl.reads[:misses], sl.land)
	})
}

// submit submits the GPU's reads of the missed pages.
func (sl *slot) submit(nodes, missed []uint32) error {
	s, m, w := sl.store, sl.onGPU, &sl.wanted
	if err := m.slot.Pages(s.table.file, w.pages, missed, s.Size(), &sl.Rows); err != nil {
		return err
	}
	for _, j := range missed {
		sl.Rows.UsefulBytes += w.bytes(int(j), s.Facts.RowBytes)
	}
	m.begin(nodes, w, &s.buffer)
	return nil
}

// Landed implements featurestore.Landing.
func (sl *slot) Landed() error { return sl.flight.Landed(sl.store.table.sums, sl.store.Damaged) }

var _ featurestore.Landing = (*slot)(nil)

// land copies the batch's rows on a page to their places, and the page into its line: no batch under
// way uses the line's former page.
func (sl *slot) land(k int, content []byte) {
	s, j := sl.store, int(sl.missed[k])
	sl.Rows.UsefulBytes += sl.wanted.copy(j, content, sl.stored, s.Facts.RowBytes)
	if f := sl.wanted.into[j]; f != absent {
		copy(s.line(f), content)
	}
}

// Wait reads the rest of the pages, round by round. If the batch was given up, it ends the reads.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.Loader.Wait(ctx); err != nil {
		return err
	}
	return sl.flight.Wait(ctx)
}

// Assemble completes the matrix from lines and the constant buffer. Training batches come in the order
// of the samples.
func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, train := sl.store, sl.Ref.Split == featurestore.Train
	if train {
		if sl.Ref.Index != s.next {
			return fmt.Errorf("batch %d is assembled out of order: the cache is at batch %d", sl.Ref.Index, s.next)
		}
		s.next = (s.next + 1) % s.Facts.Train
		if sl.onGPU != nil {
			s.course.done()
			return nil
		}
		_ = s.copies.Run((*gather)(sl), len(sl.wanted.pages)) // nothing in it fails
		s.course.done()
	}
	_ = s.copies.Run((*complete)(sl), len(sl.Batch().Input))
	return nil
}

// gather copies parts of rows from lines to the rows' places.
type gather slot

// Do implements copier.Work for some of the wanted pages.
func (g *gather) Do(lo, hi int, _ *[]byte) error {
	for j := lo; j < hi; j++ {
		if f := g.wanted.held[j]; f != absent {
			g.wanted.copy(j, g.store.line(f), g.stored, g.store.Facts.RowBytes)
		}
	}
	return nil
}

// complete makes the matrix: it copies rows from the constant buffer, and widens all rows that are not
// float32.
type complete slot

// Do implements copier.Work for some of the input nodes.
func (c *complete) Do(lo, hi int, _ *[]byte) error {
	f, b := &c.store.Facts, &c.store.buffer
	x, row := binio.View[float32](c.matrix), f.RowBytes
	for i := lo; i < hi; i++ {
		from := b.row(c.nodes[i], row)
		if from == nil {
			if f.DType == dtype.Float32 {
				continue // the row is in place already
			}
			from = c.stored[i*row : (i+1)*row]
		}
		kernel.Widen(x[i*f.Dim:(i+1)*f.Dim], from, f.DType, f.Dim)
	}
	return nil
}

func (sl *slot) Counts() featurestore.Counts {
	c := sl.Loaded.Counts()
	if sl.ahead > 0 { // the window read one batch
		c.Add(featurestore.Counts{BytesRead: sl.ahead, GraphRead: sl.ahead, Requests: 1})
	}
	return c
}

func (sl *slot) X() []float32 {
	if sl.onGPU != nil {
		return nil
	}
	return binio.View[float32](sl.matrix[:4*len(sl.Batch().Input)*sl.store.Facts.Dim])
}

func (sl *slot) Matrix() []byte { return sl.matrix }

func (sl *slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	if sl.onGPU != nil {
		return sl.onGPU.fill(&sl.wanted, copies, x)
	}
	return nil, copies.CopyIn(x, binio.Bytes(sl.X()))
}

func (sl *slot) Free() {
	sl.Loaded.Free()
	if sl.onGPU != nil {
		sl.onGPU.free()
	}
	if sl.host != nil {
		if len(sl.reader.staging) > 0 {
			_ = sl.store.table.stack.Unregister(sl.reader.staging) // Register was a hint
		}
		sl.host.Free()
	}
}
