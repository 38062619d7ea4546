package hyperion

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/online"
	"diskgnn/featurestore/residency"
	"diskgnn/graph"
)

// slot is a batch on its way.
type slot struct {
	store  *store
	loader featurestore.Loader
	matrix matrix
	reader *reader // nil: the GPU reads

	held   []int32  // by input node: its frame, or residency.Absent
	places []int32  // in the matrix, of those that are absent
	missed []uint32 // their nodes

	ref     featurestore.Ref
	batch   *graph.Batch
	counts  featurestore.Counts // of the rows
	reading bool                // reads of rows may be in flight
}

// listBytes is what a slot's lists take of an input node.
const listBytes = 3 * 4

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	n := s.facts.Inputs(eval)
	sl := &slot{store: s, held: make([]int32, n), places: make([]int32, n), missed: make([]uint32, n)}
	var errs [3]error
	if eval || s.devices == nil {
		sl.reader, errs[0] = s.newReader(min(s.requests, n), online.Single{}, &sl.counts)
	}
	sl.loader, errs[1] = s.loaders.NewLoader(eval)
	sl.matrix, errs[2] = s.side.matrix(eval)
	err := errors.Join(errs[:]...)
	if err == nil && sl.reader != nil {
		err = s.stack.Register(sl.reader.staging.Bytes())
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// Start submits the read of the graph: which rows are read follows from it.
func (sl *slot) Start(r featurestore.Ref) error {
	if err := sl.Landed(); err != nil { // of a batch that nobody looked at
		return err
	}
	sl.ref, sl.batch, sl.counts = r, nil, featurestore.Counts{}
	return sl.loader.Start(r)
}

// LoadGraph decodes the graph, and submits the reads of the rows that are not held.
func (sl *slot) LoadGraph(ctx context.Context) (err error) {
	if err := sl.loader.Wait(ctx); err != nil {
		return err
	}
	if sl.batch, err = sl.loader.Decode(); err != nil {
		return err
	}
	nodes, ranks := sl.batch.Input, sl.store.ranks.Uint32s()
	held := sl.held[:len(nodes)]
	sl.store.policy.Batch(nodes, held, sl.places) // whose places none takes are not known yet
	misses := 0
	for i, v := range nodes {
		if held[i] == residency.Absent {
			sl.missed[misses], sl.places[misses] = v, int32(i)
			misses++
		}
		nodes[i] = ranks[v]
	}
	sl.counts.RAMRows, sl.counts.GPURows = len(nodes)-misses, sl.matrix.begin(held, sl.places[:misses])
	sl.reading = true
	if d := sl.matrix.device(); d != nil {
		return sl.ended(d.Rows(sl.store.file, sl.missed[:misses], nil, online.Single{}, sl.store.size(), &sl.counts))
	}
	return sl.ended(sl.reader.start(sl.missed[:misses], sl.matrix))
}

// Landed implements featurestore.Landing.
func (sl *slot) Landed() error {
	d := sl.matrix.device()
	if d == nil || !sl.reading {
		return nil
	}
	err := d.Landed(sl.store.pages)
	if err != nil {
		err = sl.store.damaged(err)
	}
	sl.reading = err != nil
	return sl.ended(err)
}

var _ featurestore.Landing = (*slot)(nil)

// ended gives the reads of rows up if there is an error, which it returns.
func (sl *slot) ended(err error) error {
	if err == nil {
		return nil
	}
	if d := sl.matrix.device(); d != nil {
		d.End()
	} else {
		sl.reader.drop()
	}
	sl.reading = false
	return fmt.Errorf("rows of %v: %w", sl.ref, err)
}

// Wait completes the reads of the rows. Of a batch that is given up it ends them.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.loader.Wait(ctx); err != nil || !sl.reading {
		return err
	}
	if sl.matrix.device() != nil {
		return sl.ended(ctx.Err()) // reads go on until Fill has completed them
	}
	if err := sl.ended(sl.reader.finish(ctx)); err != nil {
		return err
	}
	sl.reading = false
	return nil
}

func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sl.matrix.assemble()
	return nil
}

func (sl *slot) Batch() *graph.Batch { return sl.batch }

func (sl *slot) Counts() featurestore.Counts {
	c := sl.loader.Counts()
	c.Add(sl.counts)
	return c
}

func (sl *slot) X() []float32 { return sl.matrix.x() }

func (sl *slot) Matrix() []byte { return sl.matrix.memory() }

func (sl *slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return sl.matrix.fill(copies, x)
}

func (sl *slot) Free() {
	if sl.loader != nil {
		sl.loader.Free()
	}
	if sl.reader != nil {
		_ = sl.store.stack.Unregister(sl.reader.staging.Bytes()) // Register was a hint
		sl.reader.staging.Free()
	}
	if sl.matrix != nil {
		sl.matrix.free()
	}
}
