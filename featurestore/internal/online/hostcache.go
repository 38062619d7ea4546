package online

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// hostCache has frames in RAM. The CPU gathers.
type hostCache struct {
	machine.Frames
	facts  *featurestore.Facts
	frames int64
}

func (c *hostCache) bytes() int64 {
	return binio.AlignUp(c.frames*int64(c.facts.RowBytes), device.PageSize)
}

func (c *hostCache) count(l *featurestore.Layout) { l.RAMBytes += c.bytes() }

func (c *hostCache) open() error { return c.Open(c.bytes()) }

func (c *hostCache) close() { c.Close() }

func (c *hostCache) settle() error { return nil }

// refill reads the rows into their frames.
func (c *hostCache) refill(ctx context.Context, _ *memory, r *reader, nodes []uint32) error {
	return r.read(ctx, nodes, c.RAM.Bytes())
}

func (c *hostCache) refillBytes() int64 { return 0 }

func (c *hostCache) matrix(m *memory, eval bool) matrix {
	f, n := c.facts, c.facts.Inputs(eval)
	h := &hostMatrix{cache: c, HostMatrix: machine.HostMatrix{RAM: m.host(4 * int64(n) * int64(f.Dim)), Dim: f.Dim}}
	if h.stored = h.RAM; f.DType != dtype.Float32 {
		h.stored = m.host(int64(n) * int64(f.RowBytes))
	}
	return h
}

// hostMatrix is a matrix in RAM, and the misses in its order. Misses in float32 land in the matrix itself.
type hostMatrix struct {
	machine.HostMatrix
	cache      *hostCache
	stored     *device.Host // misses in the dataset's type; the matrix itself for float32
	held, into []int32
}

func (m *hostMatrix) open() error { return nil }

func (m *hostMatrix) device() *devrows.Slot { return nil }

func (m *hostMatrix) land(held, into []int32, places []uint32) (rows []byte, near int) {
	m.held, m.into = held, into
	k := 0
	for i, frame := range held {
		if frame == residency.Absent {
			places[k] = uint32(i)
			k++
		}
	}
	return m.stored.Bytes(), 0
}

func (m *hostMatrix) Assemble(int) {
	_ = m.cache.Copies.Run((*gather)(m), len(m.held)) // nothing of it fails
	_ = m.cache.Copies.Run((*admit)(m), len(m.into))
}

// gather makes rows of the matrix from frames and, for types other than float32, from the misses.
type gather hostMatrix

// Do implements copier.Work.
func (g *gather) Do(lo, hi int, _ *[]byte) error {
	f := g.cache.facts
	frames, stored, x, row := g.cache.RAM.Bytes(), g.stored.Bytes(), g.RAM.Float32s(), f.RowBytes
	for i := lo; i < hi; i++ {
		from, k := stored, i
		if frame := g.held[i]; frame != residency.Absent {
			from, k = frames, int(frame)
		} else if f.DType == dtype.Float32 {
			continue // the miss landed in the matrix
		}
		kernel.Widen(x[i*f.Dim:(i+1)*f.Dim], from[k*row:(k+1)*row], f.DType, f.Dim)
	}
	return nil
}

// admit copies misses into frames.
type admit hostMatrix

// Do implements copier.Work.
func (a *admit) Do(lo, hi int, _ *[]byte) error {
	frames, stored, row := a.cache.RAM.Bytes(), a.stored.Bytes(), a.cache.facts.RowBytes
	for i := lo; i < hi; i++ {
		if frame := int(a.into[i]); frame >= 0 {
			copy(frames[frame*row:(frame+1)*row], stored[i*row:(i+1)*row])
		}
	}
	return nil
}

// Free does nothing: the slot frees its memory.
func (m *hostMatrix) Free() {}
