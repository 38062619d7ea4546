// Package gpusampler draws batches on a GPU, from a graph that lies in the GPU's memory, or in pinned memory of
// the host, which the GPU reads over the bus, or in both. The batches equal package sampler's, bit by bit: package
// kernels says how.
//
//	Placement  which parts of the graph lie in which memory
//	Topology   the graph where the GPU reads it, one of a process
//	Sampler    Draw: copy the seed nodes in, draw hop after hop, copy the blocks out
//
// Only uniform sampling is done here, without partitions.
package gpusampler

import (
	"context"
	"errors"
	"fmt"
	"math"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Topology is a copy of a graph in memory that a GPU reads. Any number of samplers may share it.
type Topology struct {
	device  *cuda.Device
	arena   *cuda.Arena
	host    *device.Host
	pinned  *cuda.Pinned
	records cuda.Buffer
	far     cuda.Buffer // all lists, in the host's memory, or none
	near    cuda.Buffer // lists in the device's memory
}

// step is the number of bytes that are copied to the device at once. Place takes two steps of extra memory.
// The context is checked after each nodesAtOnce nodes.
const (
	step        = 2 << 20
	nodesAtOnce = 1 << 16
)

// Place copies a graph to the memory that p says, where the device reads it. g must be the graph of p. guard must
// call its argument, which reads g, and return its error or the error of a page fault. The caller frees the result.
func Place(ctx context.Context, on device.GPU, g *graph.CSC, p *Placement, guard func(func() error) error) (_ *Topology, err error) {
	t := &Topology{device: cuda.DeviceOf(on)}
	defer func() {
		if err != nil {
			t.Free()
		}
	}()
	if err = t.device.Attached(func() error { return t.copyIn(ctx, g, p, guard) }); err != nil {
		return nil, fmt.Errorf("copy the topology for the GPU: %w", err)
	}
	return t, nil
}

// copyIn takes the memory, and copies the graph there.
func (t *Topology) copyIn(ctx context.Context, g *graph.CSC, p *Placement, guard func(func() error) error) (err error) {
	if t.arena, err = t.device.NewArena(p.GPU); err != nil {
		return err
	}
	if t.host, err = device.NewHost(int(p.RAM)); err != nil {
		return err
	}
	t.host.Prefer(t.device.Node)
	s, err := t.device.NewStream()
	if err != nil {
		return err
	}
	defer s.Free()
	c := copying{g: g, near: p.near(), far: t.host.Bytes(), records: writer{stream: s}, lists: writer{stream: s}}
	bytes := kernels.SampleRecord * int64(g.NumNodes())
	if p.GPU > 0 {
		t.records, _ = t.arena.Take(bytes) // Choose has counted both
		t.near, _ = t.arena.Take(4 * p.edges)
		c.records.to, c.lists.to = t.records, t.near
	} else {
		c.records.host, c.far = c.far[:bytes], c.far[recordBytes(g.NumNodes()):]
	}
	if err := c.all(ctx, guard); err != nil {
		return err
	}
	return t.pin(bytes, 4*int64(len(g.Indices)))
}

// pin pins the memory of the host, in which lists, and records unless the device has them, take these bytes.
func (t *Topology) pin(records, lists int64) (err error) {
	if t.pinned, err = t.device.Register(t.host.Bytes()); err != nil {
		return err
	}
	memory, err := t.pinned.Buffer()
	if err != nil || memory.Bytes() == 0 {
		return err
	}
	from := int64(0)
	if t.records.Bytes() == 0 {
		t.records, from = memory.Slice(0, records), binio.AlignUp(records, cuda.Align)
	}
	t.far = memory.Slice(from, lists)
	return nil
}

// copying is a copy under way.
type copying struct {
	g              *graph.CSC
	near           func(v int, degree int64) bool
	far            []byte // all lists, or empty
	records, lists writer // lists are those in device memory
}

func (c *copying) all(ctx context.Context, guard func(func() error) error) error {
	nodes := c.g.NumNodes()
	for first := 0; first < nodes; first += nodesAtOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := guard(func() error { return c.nodes(first, min(first+nodesAtOnce, nodes)) }); err != nil {
			return err
		}
	}
	return errors.Join(c.records.flush(), c.lists.flush())
}

// nodes copies the records and lists of the nodes from first to before last.
func (c *copying) nodes(first, last int) error {
	for v := first; v < last; v++ {
		list, err := c.g.Row(uint32(v))
		degree, place := int64(len(list)), uint64(c.g.Indptr[v])
		switch {
		case err != nil:
			return err
		case degree > math.MaxUint32:
			return fault.New(fault.ErrBudget, "node %d has %d in-neighbours, more than a GPU counts", v, degree)
		}
		if len(c.far) > 0 {
			copy(c.far[4*place:], binio.Bytes(list))
		}
		if c.near(v, degree) {
			place = kernels.SampleNear | uint64(c.lists.at+int64(len(c.lists.waiting)))
			if err := c.lists.write(list); err != nil {
				return err
			}
		}
		if err := c.records.write([]uint32{uint32(place), uint32(place >> 32), uint32(degree)}); err != nil {
			return err
		}
	}
	return nil
}

// writer writes words to the device's memory or the host's, one after the other. Words for the device wait in
// memory of its own, since the driver must not read mapped pages, which may be gone.
type writer struct {
	host    []byte // or, if that is nil:
	to      cuda.Buffer
	stream  *cuda.Stream
	at      int64 // the words that were written
	waiting []uint32
}

func (w *writer) write(words []uint32) error {
	if w.host != nil {
		w.at += int64(copy(w.host[4*w.at:], binio.Bytes(words))) / 4
		return nil
	}
	if w.waiting == nil {
		w.waiting = make([]uint32, 0, step/4)
	}
	for len(words) > 0 {
		n := min(len(words), cap(w.waiting)-len(w.waiting))
		w.waiting, words = append(w.waiting, words[:n]...), words[n:]
		if len(w.waiting) == cap(w.waiting) {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush copies the words that wait.
func (w *writer) flush() error {
	b := binio.Bytes(w.waiting)
	if len(b) == 0 {
		return nil
	}
	if 4*w.at+int64(len(b)) > w.to.Bytes() {
		return fault.New(fault.ErrCorrupt, "the topology changed while it was copied")
	}
	err := errors.Join(w.stream.CopyIn(w.to.Slice(4*w.at, int64(len(b))), b), w.stream.Synchronize())
	w.at += int64(len(w.waiting))
	w.waiting = w.waiting[:0]
	return err
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
