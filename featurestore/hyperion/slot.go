package hyperion

import (
	"context"
	"errors"
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
	matrix matrix
	reader *reader // nil: the GPU reads

	held   []int32  // by input node: its frame, or residency.Absent
	places []int32  // by missed row: its place in the matrix
	missed []uint32 // by missed row: its node
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	n := s.Facts.Inputs(eval)
	sl := &slot{store: s, held: make([]int32, n), places: make([]int32, n), missed: make([]uint32, n)}
	sl.Files = &s.Files
	var errs [3]error
	if eval || s.Devices == nil {
		sl.reader, errs[0] = newReader(s.levels, &s.Files, min(s.requests, n), machine.Single{}, &sl.Rows)
	}
	sl.Loader, errs[1] = s.Loaders.NewLoader(eval)
	if sl.matrix, errs[2] = s.side.matrix(eval); errs[2] == nil {
		sl.Of = sl.matrix
	}
	err := errors.Join(errs[:]...)
	if err == nil && sl.reader != nil {
		err = sl.Register(sl.reader.staging.Bytes())
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	sl.Reads = devrows.Flight{GPU: sl.matrix.device(), Host: sl.reader}
	return sl, nil
}

// LoadGraph decodes the graph, and submits reads of the rows that are not held.
func (sl *slot) LoadGraph(ctx context.Context) error {
	nodes, err := sl.Load(ctx)
	if err != nil {
		return err
	}
	ranks := sl.store.Ranks()
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
	return sl.Reads.Begin(sl.Ref, func() error {
		if d := sl.Reads.GPU; d != nil {
			return d.Rows(sl.store.Files.Rows, sl.missed[:misses], nil, machine.Single{}, sl.store.Size(), &sl.Rows)
		}
		return sl.reader.start(sl.missed[:misses], sl.matrix)
	})
}

func (sl *slot) Free() {
	sl.Landing.Free()
	if sl.reader != nil {
		sl.reader.staging.Free()
	}
}
