package featurestore

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// Loaded is a batch with a graph that a Loader reads. The slots of all stores on a Source share it.
type Loaded struct {
	Loader Loader
	Ref    Ref
	Rows   Counts // without the batch's own graph, which Loader counts

	batch   *graph.Batch
	onInput func(nodes []uint32)
}

// OnInput implements Named.
func (l *Loaded) OnInput(f func(nodes []uint32)) { l.onInput = f }

// Start implements Slot: it submits the read of the graph, and counts rows anew.
func (l *Loaded) Start(r Ref) error {
	l.Ref, l.batch, l.Rows = r, nil, Counts{}
	return l.Loader.Start(r)
}

// Load waits for the graph, decodes it, and returns its input nodes. The caller may change them.
func (l *Loaded) Load(ctx context.Context) (input []uint32, err error) {
	if err := l.Loader.Wait(ctx); err != nil {
		return nil, err
	}
	if l.batch, err = l.Loader.Decode(); err != nil {
		return nil, err
	}
	if l.onInput != nil {
		l.onInput(l.batch.Input)
	}
	return l.batch.Input, nil
}

// Batch implements Slot.
func (l *Loaded) Batch() *graph.Batch { return l.batch }

// Counts implements Slot.
func (l *Loaded) Counts() Counts {
	c := l.Loader.Counts()
	c.Add(l.Rows)
	return c
}

// Free frees the loader, if there is one.
func (l *Loaded) Free() {
	if l.Loader != nil {
		l.Loader.Free()
	}
}

// LoadRanked loads the graph, copies its input nodes to nodes, and replaces them in the batch by their ranks.
// ranks is by node.
func (l *Loaded) LoadRanked(ctx context.Context, nodes, ranks []uint32) error {
	input, err := l.Load(ctx)
	if err != nil {
		return err
	}
	copy(nodes, input)
	for i, v := range input {
		input[i] = ranks[v]
	}
	return nil
}

// HostSlot is the common part of slots with a feature matrix in RAM.
type HostSlot struct {
	Loaded
	matrix, nodes *device.Host
	dtype         dtype.Type // of the rows
	dim           int
}

// HostSlotBytes returns the memory of a HostSlot for a Layout, in bytes; 0 if the source has no such batches.
func HostSlotBytes(s Source, eval bool) int64 {
	f := s.Facts()
	n := int64(f.Inputs(eval))
	if n == 0 {
		return 0
	}
	return binio.AlignUp(4*n*int64(f.Dim), device.PageSize) + binio.AlignUp(4*n, device.PageSize) + s.LoaderBytes(eval)
}

// Open allocates the matrix and a loader, for the largest training batch, or if eval is set, for the
// largest evaluation batch. Call Free also after an error.
func (s *HostSlot) Open(loaders Loaders, f *Facts, eval bool) error {
	var errs [3]error
	n := f.Inputs(eval)
	s.dtype, s.dim = f.DType, f.Dim
	s.matrix, errs[0] = device.NewHost(4 * n * f.Dim)
	s.nodes, errs[1] = device.NewHost(4 * n)
	s.Loader, errs[2] = loaders.NewLoader(eval)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("slot: %w", err)
	}
	return nil
}

// LoadRanked loads the graph, copies its input nodes for Nodes, and replaces them in the batch by their
// ranks. ranks is by node.
func (s *HostSlot) LoadRanked(ctx context.Context, ranks []uint32) error {
	return s.Loaded.LoadRanked(ctx, s.nodes.Uint32s(), ranks)
}

// Nodes returns the input nodes of the batch, copied by LoadRanked. The caller may change them.
func (s *HostSlot) Nodes() []uint32 { return s.nodes.Uint32s()[:len(s.batch.Input)] }

// SetRow widens a row of the store's type to the row of the i-th input node in the matrix.
func (s *HostSlot) SetRow(i int, row []byte) {
	dtype.Convert(binio.Bytes(s.X()[i*s.dim:(i+1)*s.dim]), dtype.Float32, row, s.dtype)
}

// X implements Slot.
func (s *HostSlot) X() []float32 { return s.matrix.Float32s()[:len(s.batch.Input)*s.dim] }

// Matrix implements Slot.
func (s *HostSlot) Matrix() []byte { return s.matrix.Bytes() }

// Fill implements Slot.
func (s *HostSlot) Fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(s.X()))
}

// Free implements Slot.
func (s *HostSlot) Free() {
	s.Loaded.Free()
	for _, h := range []*device.Host{s.matrix, s.nodes} {
		if h != nil {
			h.Free()
		}
	}
}
