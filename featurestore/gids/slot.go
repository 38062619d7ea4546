package gids

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// slot implements featurestore.Slot and featurestore.Landing.
type slot struct {
	machine.Landing
	store  *store
	memory machine.Memory
	buffers
	onGPU *gpuMatrix // submits the reads and makes the matrix; nil: the host does
}

// buffers is the memory of a slot, but for the loader's.
type buffers struct {
	matrix []byte
	stored []byte // rows in the dataset's type, in the matrix's order; the matrix itself for float32
	nodes  []uint32
	wanted wanted
	missed []uint32        // by read: the place of the page in wanted.pages
	reads  []uint32        // by read: the page
	reader *machine.Reader // nil: the GPU reads
}

// lay takes the memory. files and counts are the reader's.
func (b *buffers) lay(mem *machine.Memory, d *design, eval, onGPU bool, files *machine.Files, counts *featurestore.Counts) {
	f, n := &d.Facts, d.Facts.Inputs(eval)
	if !onGPU {
		b.matrix = machine.Numbers[byte](mem, 4*n*f.Dim)
		if b.stored = b.matrix; f.DType != dtype.Float32 {
			b.stored = machine.Numbers[byte](mem, n*f.RowBytes)
		}
		b.reader = machine.NewReader(mem, reading(), files, counts)
	}
	b.nodes = machine.Numbers[uint32](mem, n)
	b.wanted.lay(mem, d, n)
	b.missed, b.reads = machine.Numbers[uint32](mem, d.mostPages(n)), machine.Numbers[uint32](mem, d.mostPages(n))
}

// slotBytes returns the memory of a slot; 0 where there are no batches for it.
func (d *design) slotBytes(eval, onGPU bool) int64 {
	if d.Facts.Inputs(eval) == 0 {
		return 0
	}
	return machine.Counted(func(mem *machine.Memory) { new(buffers).lay(mem, d, eval, onGPU, nil, nil) }) + d.Source.LoaderBytes(eval)
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl, onGPU := &slot{store: s}, s.side != nil && !eval
	sl.Files, sl.In, sl.Of = &s.Files, &s.order, (*hostMatrix)(sl)
	sl.lay(&sl.memory, s.design, eval, onGPU, &s.Files, &sl.Rows)
	err := sl.memory.Err
	if err == nil {
		sl.Loader, err = s.Loaders.NewLoader(eval)
	}
	switch {
	case err == nil && onGPU:
		if sl.onGPU, err = s.side.matrix(&sl.wanted, &s.course); err == nil {
			sl.Of, sl.Reads.GPU = sl.onGPU, sl.onGPU.slot
		}
	case err == nil:
		sl.Reads.Host = sl.reader
		err = sl.Register(sl.reader.Staging.Bytes())
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	if !eval {
		s.course.add(1)
	}
	return sl, nil
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
		ahead, err := s.course.decide(ctx, sl.Ref.Index, nodes, w)
		if err != nil {
			return err
		}
		if ahead > 0 { // the window read one batch
			sl.Rows.Add(featurestore.Counts{BytesRead: ahead, GraphRead: ahead, Requests: 1})
		}
	} else {
		w.find(nodes, &s.buffer, s.Facts.RowBytes)
		for j := range w.pages {
			w.held[j], w.into[j] = absent, absent
		}
	}
	ranks := s.Ranks()
	for i, v := range nodes {
		input[i] = ranks[v]
	}
	misses := 0
	for j, p := range w.pages {
		if w.held[j] == absent {
			sl.missed[misses], sl.reads[misses] = uint32(j), p
			sl.Rows.UsefulBytes += w.bytes(j, s.Facts.RowBytes)
			misses++
		}
	}
	hits, onGPU, accesses := w.counts(s.Facts.RowBytes, s.near)
	sl.Rows.BufferRows = len(nodes) - len(w.rows)
	sl.Rows.RAMRows, sl.Rows.GPURows = sl.Rows.BufferRows+hits, onGPU
	sl.Rows.PageMisses = misses
	sl.Rows.PageHits = int(accesses) - misses
	return sl.Reads.Begin(sl.Ref, func() error {
		if sl.onGPU != nil {
			return sl.submit(nodes, sl.missed[:misses])
		}
		return sl.reader.Start(sl.reads[:misses], sl)
	})
}

// submit submits the GPU's reads of the missed pages.
func (sl *slot) submit(nodes, missed []uint32) error {
	s, m, w := sl.store, sl.onGPU, &sl.wanted
	if err := m.slot.Pages(s.Files.Rows, w.pages, missed, s.Size(), &sl.Rows); err != nil {
		return err
	}
	m.begin(nodes, w, &s.buffer)
	return nil
}

// Put implements machine.Sink: it copies the batch's rows on a page to their places, and the page into its line.
// No batch under way uses the line's former page.
func (sl *slot) Put(k int, content []byte) error {
	s, j := sl.store, int(sl.missed[k])
	sl.wanted.copy(j, content, sl.stored, s.Facts.RowBytes)
	if f := sl.wanted.into[j]; f != absent {
		copy(s.line(f), content)
	}
	return nil
}

// hostMatrix is a slot as a matrix in RAM.
type hostMatrix slot

// Assemble completes the matrix of n rows from lines and the constant buffer.
func (m *hostMatrix) Assemble(n int) {
	s := m.store
	if m.Ref.Split == featurestore.Train {
		_ = s.copies.Run((*gather)(m), len(m.wanted.pages)) // nothing in it fails
		s.course.done()
	}
	_ = s.copies.Run((*complete)(m), n)
}

func (m *hostMatrix) Memory() []byte { return m.matrix }

func (m *hostMatrix) X(n int) []float32 {
	return binio.View[float32](m.matrix[:4*n*m.store.Facts.Dim])
}

func (m *hostMatrix) Fill(n int, copies device.Stream, x device.Buffer) (device.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(m.X(n)))
}

// Free does nothing: the slot frees its memory.
func (m *hostMatrix) Free() {}

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

func (sl *slot) Free() {
	sl.Landing.Free()
	sl.memory.Free()
}
