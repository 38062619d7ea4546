package online

import (
	"context"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
)

// slot implements featurestore.Slot and featurestore.Landing.
type slot struct {
	machine.Landing
	store  *store
	memory memory
	buffers

	ahead int64 // bytes that the window read
	turn  *turn
}

// buffers is the memory of a slot, but for the loader's.
type buffers struct {
	matrix matrix
	held   []int32  // by input node: the frame that holds its row, or residency.Absent
	into   []int32  // by input node: the frame that takes its row, or residency.Absent
	missed []uint32 // nodes of the rows to read
	places []uint32 // by miss: the row in which it lands, see matrix.land
	reader *reader  // nil: the GPU reads
}

func (b *buffers) lay(m *memory, t *table, c cache, counts *featurestore.Counts, eval, read bool) {
	n := t.Facts.Inputs(eval)
	b.matrix = c.matrix(m, eval)
	b.held, b.into = list[int32](m, n), list[int32](m, n)
	b.missed, b.places = list[uint32](m, n), list[uint32](m, n)
	if read {
		b.reader = newReader(m, t, counts)
	}
}

// slotBytes returns the memory of a slot, in bytes; 0 if no batches need it.
func (v *levels) slotBytes(of cache, eval bool, reads *devrows.Plan) int64 {
	if v.Facts.Inputs(eval) == 0 {
		return 0
	}
	m := &memory{dry: true}
	new(buffers).lay(m, &table{levels: v}, of, nil, eval, reads == nil)
	return m.held() + v.Source.LoaderBytes(eval)
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s, turn: newTurn()}
	sl.Files, sl.In = &s.table.Files, &s.order
	sl.lay(&sl.memory, &s.table, s.cache, &sl.Rows, eval, eval || s.table.Devices == nil)
	sl.Of = sl.matrix
	err := sl.memory.err
	if err == nil {
		err = sl.matrix.open()
	}
	if err == nil {
		sl.Loader, err = s.table.Loaders.NewLoader(eval)
	}
	if err == nil && sl.reader != nil {
		err = sl.Register(sl.reader.staging.Bytes())
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	sl.Reads = devrows.Flight{GPU: sl.matrix.device(), Host: sl.reader}
	if !eval {
		s.course.add(1)
	}
	return sl, nil
}

// Start submits the read of the graph. The rows to read follow from the graph.
func (sl *slot) Start(r featurestore.Ref) error {
	sl.ahead = 0
	return sl.Landing.Start(r)
}

// LoadGraph decodes the graph, makes the policy decide, and submits the first reads of missed rows.
func (sl *slot) LoadGraph(ctx context.Context) error {
	nodes, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	held, into := sl.held[:len(nodes)], sl.into[:len(nodes)]
	if sl.Ref.Split == featurestore.Train {
		if sl.ahead, err = sl.store.course.decide(ctx, sl.turn, sl.Ref.Index, nodes, held, into); err != nil {
			return err
		}
	} else {
		for i := range nodes {
			held[i], into[i] = residency.Absent, residency.Absent
		}
	}
	rows, near := sl.matrix.land(held, into, sl.places)
	misses, ranks := 0, sl.store.table.Ranks()
	for i, v := range nodes {
		if held[i] == residency.Absent {
			sl.missed[misses] = v
			misses++
		}
		nodes[i] = ranks[v]
	}
	sl.Rows.RAMRows, sl.Rows.GPURows = len(nodes)-misses, near
	return sl.Reads.Begin(sl.Ref, func() error {
		if d := sl.Reads.GPU; d != nil {
			t := &sl.store.table
			return d.Rows(t.Files.Rows, sl.missed[:misses], sl.places, t.design.Planner, t.Size(), &sl.Rows)
		}
		return sl.reader.start(sl.missed[:misses], sl.places[:misses], rows)
	})
}

func (sl *slot) Counts() featurestore.Counts {
	c := sl.Loaded.Counts()
	if sl.ahead > 0 {
		c.Add(featurestore.Counts{BytesRead: sl.ahead, GraphRead: sl.ahead, Requests: sl.turn.reads})
	}
	return c
}

func (sl *slot) Free() {
	sl.Landing.Free()
	sl.memory.free()
}
