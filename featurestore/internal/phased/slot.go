package phased

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

// slot is a training batch on its way.
type slot struct {
	store  *store
	loader featurestore.Loader
	matrix *device.Host
	frames *device.Host // of the input nodes; until Assemble, these nodes

	ref    featurestore.Ref
	batch  *graph.Batch
	counts featurestore.Counts // of the rows, and of graphs that were read ahead
}

func (s *store) newSlot() (featurestore.Slot, error) {
	sl, n := &slot{store: s}, s.facts.Inputs(false)
	var errs [3]error
	sl.matrix, errs[0] = device.NewHost(4 * n * s.facts.Dim)
	sl.frames, errs[1] = device.NewHost(4 * n)
	sl.loader, errs[2] = s.loaders.NewLoader(false)
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// Start submits the read of the graph.
func (sl *slot) Start(r featurestore.Ref) error {
	sl.ref, sl.batch, sl.counts = r, nil, featurestore.Counts{}
	return sl.loader.Start(r)
}

func (sl *slot) LoadGraph(ctx context.Context) (err error) {
	if err := sl.loader.Wait(ctx); err != nil {
		return err
	}
	if sl.batch, err = sl.loader.Decode(); err != nil {
		return err
	}
	nodes, ranks := sl.batch.Input, sl.store.single.(ranked).Ranks()
	copy(sl.frames.Uint32s(), nodes)
	for i, v := range nodes {
		nodes[i] = ranks[v]
	}
	return nil
}

// Wait has nothing to wait for but, of a batch that is given up, its graph.
func (sl *slot) Wait(ctx context.Context) error { return sl.loader.Wait(ctx) }

// Assemble makes the rows resident, and gathers them. Batches come in the order of the samples.
func (sl *slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := sl.store
	if sl.ref.Index != s.next {
		return fmt.Errorf("batch %d is assembled when the rows are those of batch %d", sl.ref.Index, s.next)
	}
	s.next = (s.next + 1) % s.facts.Train
	first, err := 0, s.residents.Turn(ctx, sl.ref.Index, &sl.counts)
	if err == nil {
		first, err = s.residents.Find(sl.list())
	}
	if err != nil {
		return fmt.Errorf("rows of %v: %w", sl.ref, err)
	}
	sl.counts.UsefulBytes, sl.counts.RAMRows = int64(first)*int64(s.facts.RowBytes), len(sl.batch.Input)-first
	s.copier.Gather(sl.X(), s.residents.Rows(), sl.list(), s.facts.DType, s.facts.Dim)
	return nil
}

// list returns the frames.
func (sl *slot) list() []uint32 { return sl.frames.Uint32s()[:len(sl.batch.Input)] }

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
	for _, h := range []*device.Host{sl.matrix, sl.frames} {
		if h != nil {
			h.Free()
		}
	}
}
