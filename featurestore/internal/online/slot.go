package online

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/residency"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// slot is a batch on its way.
type slot struct {
	store  *store
	eval   bool
	loader featurestore.Loader
	memory memory
	buffers

	ref     featurestore.Ref
	batch   *graph.Batch
	counts  featurestore.Counts // of the rows
	ahead   int64               // bytes read of the graphs of batches to come
	turn    *turn
	reading bool // reads of rows may be in flight
}

// buffers is the memory of a slot, but for the loader's.
type buffers struct {
	matrix *device.Host
	stored *device.Host // rows from disk as the dataset has them, in the matrix's order; the matrix if that is float32
	held   []int32      // by input node: the frame that holds its row, or residency.Absent
	into   []int32      // and the one that takes it
	missed []uint32     // nodes whose rows are read
	places []uint32     // of these in the matrix
	reader *reader
}

// lay takes a slot's buffers, or counts them.
func (b *buffers) lay(m *memory, t *table, counts *featurestore.Counts, eval bool) {
	f, n := &t.facts, t.facts.Inputs(eval)
	b.matrix = m.host(4 * int64(n) * int64(f.Dim))
	if b.stored = b.matrix; f.DType != dtype.Float32 {
		b.stored = m.host(int64(n) * int64(f.RowBytes))
	}
	b.held, b.into = list[int32](m, n), list[int32](m, n)
	b.missed, b.places = list[uint32](m, n), list[uint32](m, n)
	b.reader = newReader(m, t, counts)
}

// slotBytes returns the memory of a slot; 0 where there are no batches for it.
func (c *candidate) slotBytes(eval bool) int64 {
	if c.facts.Inputs(eval) == 0 {
		return 0
	}
	m := &memory{dry: true}
	new(buffers).lay(m, &table{candidate: c}, nil, eval)
	return m.held() + c.source.LoaderBytes(eval)
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s, eval: eval, turn: newTurn()}
	sl.lay(&sl.memory, &s.table, &sl.counts, eval)
	err := sl.memory.err
	if err == nil {
		sl.loader, err = s.loaders.NewLoader(eval)
	}
	if err == nil {
		err = s.table.stack.Register(sl.reader.staging.Bytes())
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

// Start submits the read of the graph: which rows are read follows from it.
func (sl *slot) Start(r featurestore.Ref) error {
	sl.ref, sl.batch, sl.counts, sl.ahead = r, nil, featurestore.Counts{}, 0
	return sl.loader.Start(r)
}

// LoadGraph decodes the graph, finds out which rows the frames will hold and submits the
// first reads of the others.
func (sl *slot) LoadGraph(ctx context.Context) (err error) {
	if err := sl.loader.Wait(ctx); err != nil {
		return err
	}
	if sl.batch, err = sl.loader.Decode(); err != nil {
		return err
	}
	nodes := sl.batch.Input
	held, into := sl.held[:len(nodes)], sl.into[:len(nodes)]
	if sl.ref.Split == featurestore.Train {
		if sl.ahead, err = sl.store.course.decide(ctx, sl.turn, sl.ref.Index, nodes, held, into); err != nil {
			return err
		}
	} else {
		for i := range nodes {
			held[i], into[i] = residency.Absent, residency.Absent
		}
	}
	misses, ranks := 0, sl.store.ranks.Uint32s()
	for i, v := range nodes {
		if held[i] == residency.Absent {
			sl.missed[misses], sl.places[misses] = v, uint32(i)
			misses++
		}
		nodes[i] = ranks[v]
	}
	sl.counts.RAMRows = len(nodes) - misses
	sl.reading = true
	return sl.ended(sl.reader.start(sl.missed[:misses], sl.places[:misses], sl.stored.Bytes()))
}

// ended gives the reads of rows up if there is an error, which it returns.
func (sl *slot) ended(err error) error {
	if err == nil {
		return nil
	}
	sl.reader.drop()
	sl.reading = false
	return fmt.Errorf("rows of %v: %w", sl.ref, err)
}

// Wait reads the rest of the rows, round by round. Of a batch that is given up it ends the
// reads.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.loader.Wait(ctx); err != nil || !sl.reading {
		return err
	}
	if err := sl.ended(sl.reader.finish(ctx)); err != nil {
		return err
	}
	sl.reading = false
	return nil
}

// Assemble completes the matrix with the rows that frames hold, and gives the frames the
// rows that the policy put in. Training batches come in the order of the samples.
func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := sl.store
	if sl.ref.Split == featurestore.Train {
		if sl.ref.Index != s.next {
			return fmt.Errorf("batch %d is assembled when the cache is that of batch %d", sl.ref.Index, s.next)
		}
		s.next = (s.next + 1) % s.facts.Train
	}
	_ = s.copies.Run((*gather)(sl), len(sl.batch.Input)) // nothing in it fails
	if sl.ref.Split == featurestore.Train {
		_ = s.copies.Run((*admit)(sl), len(sl.batch.Input))
	}
	return nil
}

// gather makes rows of the matrix from the frames and, where they are to be widened, from
// what was read.
type gather slot

// Do implements copier.Work.
func (g *gather) Do(lo, hi int, _ *[]byte) error {
	f := &g.store.facts
	frames, stored, x, row := g.store.frames.Bytes(), g.stored.Bytes(), g.matrix.Float32s(), f.RowBytes
	for i := lo; i < hi; i++ {
		from, k := stored, i
		if frame := g.held[i]; frame != residency.Absent {
			from, k = frames, int(frame)
		} else if f.DType == dtype.Float32 {
			continue // it was read into the matrix
		}
		kernel.Widen(x[i*f.Dim:(i+1)*f.Dim], from[k*row:(k+1)*row], f.DType, f.Dim)
	}
	return nil
}

// admit copies rows that were read into frames.
type admit slot

// Do implements copier.Work.
func (a *admit) Do(lo, hi int, _ *[]byte) error {
	frames, stored, row := a.store.frames.Bytes(), a.stored.Bytes(), a.store.facts.RowBytes
	for i := lo; i < hi; i++ {
		if frame := int(a.into[i]); frame >= 0 {
			copy(frames[frame*row:(frame+1)*row], stored[i*row:(i+1)*row])
		}
	}
	return nil
}

func (sl *slot) Batch() *graph.Batch { return sl.batch }

func (sl *slot) Counts() featurestore.Counts {
	c := sl.loader.Counts()
	c.Add(sl.counts)
	if sl.ahead > 0 {
		c.Add(featurestore.Counts{BytesRead: sl.ahead, GraphRead: sl.ahead, Requests: sl.turn.reads})
	}
	return c
}

func (sl *slot) X() []float32 {
	return sl.matrix.Float32s()[:len(sl.batch.Input)*sl.store.facts.Dim]
}

func (sl *slot) Matrix() []byte { return sl.matrix.Bytes() }

func (sl *slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(sl.X()))
}

func (sl *slot) Free() {
	if sl.loader != nil {
		sl.loader.Free()
	}
	if sl.reader != nil {
		_ = sl.store.table.stack.Unregister(sl.reader.staging.Bytes()) // Register was a hint
	}
	sl.memory.free()
}
