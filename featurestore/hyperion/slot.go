package hyperion

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
)

// slot implements featurestore.Slot and featurestore.Landing.
type slot struct {
	featurestore.Loaded
	store  *store
	matrix matrix
	reader *reader // nil: the GPU reads

	held   []int32  // by input node: its frame, or residency.Absent
	places []int32  // by missed row: its place in the matrix
	missed []uint32 // by missed row: its node

	reads devrows.Flight
}

// listBytes is the memory of a slot's lists for an input node.
const listBytes = 3 * 4

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	n := s.Facts.Inputs(eval)
	sl := &slot{store: s, held: make([]int32, n), places: make([]int32, n), missed: make([]uint32, n)}
	var errs [3]error
	if eval || s.devices == nil {
		sl.reader, errs[0] = s.newReader(min(s.requests, n), machine.Single{}, &sl.Rows)
	}
	sl.Loader, errs[1] = s.loaders.NewLoader(eval)
	sl.matrix, errs[2] = s.side.matrix(eval)
	err := errors.Join(errs[:]...)
	if err == nil && sl.reader != nil {
		err = s.stack.Register(sl.reader.staging.Bytes())
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	sl.reads = devrows.Flight{GPU: sl.matrix.device(), Host: sl.reader}
	return sl, nil
}

// Start submits the read of the graph. The rows to read follow from the graph.
func (sl *slot) Start(r featurestore.Ref) error {
	if err := sl.Landed(); err != nil { // of the batch before, if it was given up
		return err
	}
	return sl.Loaded.Start(r)
}

// LoadGraph decodes the graph, and submits reads of the rows that are not held.
func (sl *slot) LoadGraph(ctx context.Context) error {
	nodes, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	ranks := sl.store.ranks.Uint32s()
	held := sl.held[:len(nodes)]
	sl.store.policy.Batch(nodes, held, sl.places) // the policy admits no row: places is overwritten below
	misses := 0
	for i, v := range nodes {
		if held[i] == residency.Absent {
			sl.missed[misses], sl.places[misses] = v, int32(i)
			misses++
		}
		nodes[i] = ranks[v]
	}
	sl.Rows.RAMRows, sl.Rows.GPURows = len(nodes)-misses, sl.matrix.begin(held, sl.places[:misses])
	return sl.reads.Begin(sl.Ref, func() error {
		if d := sl.reads.GPU; d != nil {
			return d.Rows(sl.store.file, sl.missed[:misses], nil, machine.Single{}, sl.store.Size(), &sl.Rows)
		}
		return sl.reader.start(sl.missed[:misses], sl.matrix)
	})
}

// Landed implements featurestore.Landing.
func (sl *slot) Landed() error { return sl.reads.Landed(sl.store.pages, sl.store.Damaged) }

var _ featurestore.Landing = (*slot)(nil)

// Wait completes the reads of the rows. If the batch was given up, it ends them.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.Loader.Wait(ctx); err != nil {
		return err
	}
	return sl.reads.Wait(ctx)
}

func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sl.matrix.assemble()
	return nil
}

func (sl *slot) X() []float32 { return sl.matrix.x() }

func (sl *slot) Matrix() []byte { return sl.matrix.memory() }

func (sl *slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return sl.matrix.fill(copies, x)
}

func (sl *slot) Free() {
	sl.Loaded.Free()
	if sl.reader != nil {
		_ = sl.store.stack.Unregister(sl.reader.staging.Bytes()) // Register was a hint
		sl.reader.staging.Free()
	}
	if sl.matrix != nil {
		sl.matrix.free()
	}
}
