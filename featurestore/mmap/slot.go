package mmap

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// slot is a batch on its way.
type slot struct {
	store  *store
	loader featurestore.Loader
	matrix *device.Host
	nodes  *device.Host // of the rows, by which they are gathered

	ref     featurestore.Ref
	batch   *graph.Batch
	counts  featurestore.Counts // of the rows
	waiting bool                // for Wait to gather
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl, n := &slot{store: s}, s.facts.Inputs(eval)
	var errs [3]error
	sl.matrix, errs[0] = device.NewHost(4 * n * s.facts.Dim)
	sl.nodes, errs[1] = device.NewHost(4 * n)
	sl.loader, errs[2] = s.loaders.NewLoader(eval)
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// Start submits the read of the graph: which rows are touched follows from it.
func (sl *slot) Start(r featurestore.Ref) error {
	sl.ref, sl.batch, sl.counts, sl.waiting = r, nil, featurestore.Counts{}, false
	return sl.loader.Start(r)
}

func (sl *slot) LoadGraph(ctx context.Context) (err error) {
	if err := sl.loader.Wait(ctx); err != nil {
		return err
	}
	if sl.batch, err = sl.loader.Decode(); err != nil {
		return err
	}
	nodes, ranks := sl.batch.Input, sl.store.ranks.Uint32s()
	copy(sl.nodes.Uint32s(), nodes)
	for i, v := range nodes {
		nodes[i] = ranks[v]
	}
	sl.waiting = true
	return nil
}

// Wait gathers the rows. One batch is gathered at a time: the pages that one leaves in the
// page cache serve the next, so the counts follow from the order of the calls.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.loader.Wait(ctx); err != nil || !sl.waiting {
		return err
	}
	sl.waiting = false
	if err := sl.store.gather(ctx, sl.nodes.Uint32s()[:len(sl.batch.Input)], sl.X(), &sl.counts); err != nil {
		return fmt.Errorf("rows of %v: %w", sl.ref, err)
	}
	return nil
}

// Assemble has nothing left to do.
func (sl *slot) Assemble(ctx context.Context) error { return ctx.Err() }

func (sl *slot) Batch() *graph.Batch { return sl.batch }

func (sl *slot) Counts() featurestore.Counts {
	c := sl.loader.Counts()
	c.Add(sl.counts)
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
	for _, h := range []*device.Host{sl.matrix, sl.nodes} {
		if h != nil {
			h.Free()
		}
	}
}
