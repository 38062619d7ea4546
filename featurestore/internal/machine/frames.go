package machine

import (
	"context"
	"fmt"
	"iter"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/residency"
	"diskgnn/iostack"
)

// NewCache returns the cache of some frames, without opening it or allocating memory.
func NewCache(f *featurestore.Facts, s Frames) Cache {
	if s.GPU == nil {
		return &hostCache{Frames: s, facts: f}
	}
	return newGPUCache(f, s)
}

// FrameStore is the common part of stores that hold single rows in frames: the files, the cache and the slots.
type FrameStore struct {
	Files
	Cache Cache
	Reads Reading // of misses, by the host
	In    *Order  // of training batches; nil: any
	// Decider returns the decider of a new slot.
	Decider func(eval bool) Decider
}

// Decider decides which input nodes of a slot's batches have a row in a frame.
type Decider interface {
	// Decide sets held[i] to the frame with the row of nodes[i], and into[i] to the frame that takes it, or
	// both to residency.Absent. It returns the counts of reads that the decision took.
	Decide(ctx context.Context, r featurestore.Ref, nodes []uint32, held, into []int32) (featurestore.Counts, error)
}

// NoFrames decides that all rows are read, and enter no frame.
type NoFrames struct{}

// Decide implements Decider.
func (NoFrames) Decide(_ context.Context, _ featurestore.Ref, _ []uint32, held, into []int32) (featurestore.Counts, error) {
	for i := range held {
		held[i], into[i] = residency.Absent, residency.Absent
	}
	return featurestore.Counts{}, nil
}

// OpenFrames opens the files, and takes the memory of the cache of some frames. Call CloseFrames also after an
// error.
func (s *FrameStore) OpenFrames(of *Table, stack iostack.Stack, frames Frames) error {
	s.Cache = NewCache(&of.Facts, frames)
	if err := s.Files.Open(of, stack, frames.Reads, frames.GPU); err != nil {
		return err
	}
	return s.Cache.open(s.Devices)
}

// CloseFrames closes the files, and releases the memory.
func (s *FrameStore) CloseFrames() error {
	err := s.Files.Close()
	if s.Cache != nil {
		s.Cache.close()
	}
	return err
}

// View implements featurestore.Store.
func (s *FrameStore) View(int) featurestore.View { return s }

// Refill reads rows in the given way, and writes them to frames: pieces has lists of nodes, and the frame of
// each node, or nil for the frames from 0 on. No batch may be under way. It returns the bytes read.
func (s *FrameStore) Refill(ctx context.Context, by Reading, pieces iter.Seq2[[]uint32, []int32]) (read int64, err error) {
	m := new(Memory)
	defer m.Free()
	var counts featurestore.Counts
	r := NewReader(m, by, &s.Files, &counts)
	if m.Err != nil {
		return 0, m.Err
	}
	err = s.Cache.Fill(m, func(to FillFrame) error {
		for nodes, frames := range pieces {
			if err := r.Read(ctx, nodes, filling{to, frames}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("fill the cache: %w", err)
	}
	return counts.BytesRead, nil
}

// filling is a Sink that writes rows to frames.
type filling struct {
	to     FillFrame
	frames []int32
}

func (f filling) Put(k int, row []byte) error {
	if f.frames == nil {
		return f.to(int32(k), row)
	}
	return f.to(f.frames[k], row)
}

// RefillBytes returns the memory of Refill, in bytes.
func RefillBytes(by Reading, c Cache) int64 {
	return Counted(func(m *Memory) {
		NewReader(m, by, nil, nil)
		_ = c.Fill(m, func(FillFrame) error { return nil }) // a dry memory only counts
	})
}

// frameSlot implements featurestore.Slot and featurestore.Landing.
type frameSlot struct {
	Landing
	store   *FrameStore
	decider Decider
	memory  Memory
	frameLists
}

// frameLists is the memory of a slot, but for the loader's.
type frameLists struct {
	matrix matrix
	held   []int32  // by input node: the frame that holds its row, or residency.Absent
	into   []int32  // by input node: the frame that takes its row, or residency.Absent
	missed []uint32 // nodes of the rows to read
	places []uint32 // by miss: its place, see matrix.land
	reader *Reader  // nil: the GPU reads
}

// lay takes the memory. files and counts are the reader's, by is nil if a GPU reads the misses.
func (b *frameLists) lay(m *Memory, t *Table, c Cache, eval bool, by *Reading, files *Files, counts *featurestore.Counts) {
	n := t.Facts.Inputs(eval)
	b.matrix = c.matrix(m, eval)
	b.held, b.into = List[int32](m, n), List[int32](m, n)
	b.missed, b.places = List[uint32](m, n), List[uint32](m, n)
	if by != nil {
		each := *by
		each.Requests = min(each.Requests, max(1, n)) // a request has one node at least
		b.reader = NewReader(m, each, files, counts)
	}
}

// FrameSlotBytes returns the memory of slots with rows in frames of a table, in bytes: of a slot for training
// batches, and of one for evaluation batches; 0 if there are no such batches. The host reads misses in the given
// way, or if byGPU is set, for evaluation alone.
func FrameSlotBytes(t *Table, c Cache, by Reading, byGPU bool) (train, eval int64) {
	of := func(eval bool, by *Reading) int64 {
		if t.Facts.Inputs(eval) == 0 {
			return 0
		}
		return t.Source.LoaderBytes(eval) + Counted(func(m *Memory) { new(frameLists).lay(m, t, c, eval, by, nil, nil) })
	}
	eval = of(true, &by)
	if byGPU {
		return of(false, nil), eval
	}
	return of(false, &by), eval
}

// NewSlot implements featurestore.View.
func (s *FrameStore) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &frameSlot{store: s}
	sl.Files, sl.In = &s.Files, s.In
	by := &s.Reads
	if s.Devices != nil && !eval {
		by = nil
	}
	sl.lay(&sl.memory, s.of, s.Cache, eval, by, &s.Files, &sl.Rows)
	sl.Of = sl.matrix
	err := sl.memory.Err
	if err == nil {
		err = sl.matrix.open()
	}
	if err == nil {
		sl.Loader, err = s.Loaders.NewLoader(eval)
	}
	if err == nil && sl.reader != nil {
		err = sl.Register(sl.reader.Staging.Bytes())
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	sl.Reads = gpureads.Flight{GPU: sl.matrix.device(), Host: sl.reader}
	sl.decider = s.Decider(eval)
	return sl, nil
}

// LoadGraph decodes the graph, decides, and submits the first reads of missed rows.
func (sl *frameSlot) LoadGraph(ctx context.Context) error {
	nodes, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	held, into := sl.held[:len(nodes)], sl.into[:len(nodes)]
	counts, err := sl.decider.Decide(ctx, sl.Ref, nodes, held, into)
	if err != nil {
		return err
	}
	s := sl.store
	sl.Rows.Add(counts)
	sl.Rows.GPURows = sl.matrix.land(held, into, sl.places)
	misses, ranks := 0, s.Ranks()
	for i, v := range nodes {
		if held[i] == residency.Absent {
			sl.missed[misses] = v
			misses++
		}
		nodes[i] = ranks[v]
	}
	sl.Rows.RAMRows = len(nodes) - misses
	sl.Rows.UsefulBytes += int64(misses) * int64(s.Reads.Row)
	return sl.Reads.Begin(sl.Ref, func() error {
		if d := sl.Reads.GPU; d != nil {
			return d.Rows(s.Files.Rows, sl.missed[:misses], sl.places, s.Reads.Planner, s.of.Size(), &sl.Rows)
		}
		return sl.reader.Start(sl.missed[:misses], sl.matrix)
	})
}

// Free implements featurestore.Slot.
func (sl *frameSlot) Free() {
	sl.Landing.Free()
	sl.memory.Free()
}
