package featurestore

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// Loaded is a batch with a graph that a Loader reads. The slots of all stores on a Source share it.
type Loaded struct {
	Loader Loader
	Ref    Ref
	Rows   Counts // without the batch's own graph, which Loader counts

	batch *graph.Batch
}

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

// HostSlot is the common part of slots with a feature matrix in RAM.
type HostSlot struct {
	Loaded
	matrix, nodes *device.Host
	dim           int
}

// Open allocates the matrix and a loader, for the largest training batch, or if eval is set, for the
// largest evaluation batch. Call Free also after an error.
func (s *HostSlot) Open(loaders Loaders, f *Facts, eval bool) error {
	var errs [3]error
	n := f.Inputs(eval)
	s.dim = f.Dim
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
	input, err := s.Load(ctx)
	if err != nil {
		return err
	}
	copy(s.nodes.Uint32s(), input)
	for i, v := range input {
		input[i] = ranks[v]
	}
	return nil
}

// Nodes returns the input nodes of the batch, copied by LoadRanked. The caller may change them.
func (s *HostSlot) Nodes() []uint32 { return s.nodes.Uint32s()[:len(s.batch.Input)] }

// X implements Slot.
func (s *HostSlot) X() []float32 { return s.matrix.Float32s()[:len(s.batch.Input)*s.dim] }

// Matrix implements Slot.
func (s *HostSlot) Matrix() []byte { return s.matrix.Bytes() }

// Fill implements Slot.
func (s *HostSlot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
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
