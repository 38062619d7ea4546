// Package gpusampler draws batches on a GPU, from a graph that lies in the GPU's memory or in pinned
// memory of the host, which the GPU reads over the bus. The batches equal package sampler's, bit by
// bit: package kernels says how.
//
//	Topology  the graph where the GPU reads it, one of a process
//	Sampler   Draw: copy the seed nodes in, draw hop after hop, copy the blocks out
//
// Only uniform sampling is done here, without partitions.
package gpusampler

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// Topology is a copy of a graph in memory that a GPU reads. Any number of samplers may share it.
type Topology struct {
	device          *cuda.Device
	arena           *cuda.Arena // of the device's memory; nil: it is in the host's
	host            *device.Host
	pinned          *cuda.Pinned
	indptr, indices cuda.Buffer
}

// step is the number of bytes that are copied between two checks of the context. It is also the extra
// memory of copying.
const step = 4 << 20

// indptrBytes returns the size of the index pointers, rounded up so that the indices are aligned.
func indptrBytes(nodes int64) int64 { return binio.AlignUp(8*(nodes+1), cuda.Align) }

// Bytes returns the bytes of device memory or host memory that a Topology takes: whole pages.
func Bytes(nodes, edges int64) int64 {
	return binio.AlignUp(indptrBytes(nodes)+4*edges, device.PageSize)
}

// Place copies a graph to memory that the device reads: the device's memory if near is set, else
// pinned host memory. guard must call its argument, which reads g, and return its error or the error
// of a page fault. The caller frees the result.
func Place(ctx context.Context, on device.GPU, g *graph.CSC, near bool, guard func(func() error) error) (_ *Topology, err error) {
	d := cuda.DeviceOf(on)
	t := &Topology{device: d}
	defer func() {
		if err != nil {
			t.Free()
		}
	}()
	err = d.Attached(func() error {
		bytes := Bytes(int64(g.NumNodes()), int64(len(g.Indices)))
		if near {
			return t.copyIn(ctx, g, bytes, guard)
		}
		return t.pin(ctx, g, bytes, guard)
	})
	if err != nil {
		return nil, fmt.Errorf("copy the topology for the GPU: %w", err)
	}
	return t, nil
}

func (t *Topology) cut(g *graph.CSC, memory cuda.Buffer) {
	first := indptrBytes(int64(g.NumNodes()))
	t.indptr, t.indices = memory.Slice(0, int64(8*len(g.Indptr))), memory.Slice(first, int64(4*len(g.Indices)))
}

func (t *Topology) copyIn(ctx context.Context, g *graph.CSC, bytes int64, guard func(func() error) error) (err error) {
	if t.arena, err = t.device.NewArena(bytes); err != nil {
		return err
	}
	memory, err := t.arena.Take(bytes)
	if err != nil {
		return err
	}
	t.cut(g, memory)
	s, err := t.device.NewStream()
	if err != nil {
		return err
	}
	defer s.Free()
	bounce := make([]byte, step) // since the driver must not read mapped pages, which may be gone
	return copyParts(ctx, g, guard, func(part int, at int64, b []byte) error {
		to := [...]cuda.Buffer{t.indptr, t.indices}[part]
		return errors.Join(s.CopyIn(to.Slice(at, int64(len(b))), b), s.Synchronize())
	}, func(_ int, _ int64, n int) []byte { return bounce[:n] })
}

// pin copies the graph to pinned memory of the host's.
func (t *Topology) pin(ctx context.Context, g *graph.CSC, bytes int64, guard func(func() error) error) (err error) {
	if t.host, err = device.NewHost(int(bytes)); err != nil {
		return err
	}
	t.host.Prefer(t.device.Node)
	first := indptrBytes(int64(g.NumNodes()))
	parts := [...][]byte{t.host.Bytes(), t.host.Bytes()[first:]}
	err = copyParts(ctx, g, guard, func(int, int64, []byte) error { return nil },
		func(part int, at int64, n int) []byte { return parts[part][at : at+int64(n)] })
	if err != nil {
		return err
	}
	if t.pinned, err = t.device.Register(t.host.Bytes()); err != nil {
		return err
	}
	memory, err := t.pinned.Buffer()
	if err == nil {
		t.cut(g, memory)
	}
	return err
}

// copyParts copies the index pointers, which are part 0, and the indices, step by step, to
// where to says, and has put do the rest.
func copyParts(ctx context.Context, g *graph.CSC, guard func(func() error) error, put func(part int, at int64, b []byte) error, to func(part int, at int64, n int) []byte) error {
	for part, from := range [...][]byte{binio.Bytes(g.Indptr), binio.Bytes(g.Indices)} {
		for at := 0; at < len(from); at += step {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := to(part, int64(at), min(step, len(from)-at))
			err := guard(func() error { copy(b, from[at:]); return nil })
			if err == nil {
				err = put(part, int64(at), b)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Free frees the memory. No sampler may use the topology any more.
func (t *Topology) Free() {
	_ = t.device.Attached(func() error { // fails only after a fault, which was reported
		if t.pinned != nil {
			t.pinned.Free()
		}
		if t.arena != nil {
			t.arena.Free()
		}
		return nil
	})
	if t.host != nil {
		t.host.Free()
	}
}
