package machine

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// hostCache has frames in RAM. The CPU gathers.
type hostCache struct {
	Frames
	ram   RAM
	facts *featurestore.Facts
}

func (c *hostCache) bytes() int64 { return c.All * int64(c.facts.RowBytes) }

func (c *hostCache) Count(l *featurestore.Layout) { l.RAMBytes += Pages(c.bytes()) }

func (c *hostCache) open(*gpureads.Reader) error { return c.ram.Open(c.bytes()) }

func (c *hostCache) close() { c.ram.Close() }

func (c *hostCache) Settle() error { return nil }

func (c *hostCache) Fill(_ *Memory, put func(FillFrame) error) error {
	return put(func(frame int32, row []byte) error {
		copy(c.ram.Rows.Bytes()[int64(frame)*int64(len(row)):], row)
		return nil
	})
}

func (c *hostCache) matrix(m *Memory, eval bool) matrix {
	f, n := c.facts, int64(c.facts.Inputs(eval))
	h := &hostMatrix{cache: c, HostMatrix: HostMatrix{RAM: m.Host(4 * n * int64(f.Dim)), Dim: f.Dim}}
	switch {
	case f.DType == dtype.Float32:
		h.stored = h.RAM
	case !c.Fixed:
		h.stored = m.Host(n * int64(f.RowBytes))
	}
	return h
}

// hostMatrix is a matrix in RAM.
type hostMatrix struct {
	HostMatrix
	cache *hostCache
	// stored has the misses in the dataset's type, in the matrix's order: the matrix itself for float32. If it
	// is nil, misses are widened when they land, and none enters a frame.
	stored     *device.Host
	held, into []int32
	places     []uint32
}

func (m *hostMatrix) open() error { return nil }

func (m *hostMatrix) device() *gpureads.Slot { return nil }

func (m *hostMatrix) land(held, into []int32, places []uint32) (near int) {
	m.held, m.into, m.places = held, into, places
	k := 0
	for i, frame := range held {
		if frame == residency.Absent {
			places[k] = uint32(i)
			k++
		}
	}
	return 0
}

func (m *hostMatrix) Put(k int, row []byte) error {
	i := int(m.places[k])
	if m.stored == nil {
		kernel.Widen(m.Row(i), row, m.cache.facts.DType, m.Dim)
	} else {
		copy(m.stored.Bytes()[i*len(row):], row)
	}
	return nil
}

func (m *hostMatrix) Assemble(int) {
	_ = m.cache.ram.Copies.Run((*gather)(m), len(m.held)) // nothing of it fails
	if !m.cache.Fixed {
		_ = m.cache.ram.Copies.Run((*admit)(m), len(m.into))
	}
}

// gather makes rows of the matrix from frames and, for types other than float32, from the stored misses.
type gather hostMatrix

// Do implements copier.Work.
func (g *gather) Do(lo, hi int, _ *[]byte) error {
	f := g.cache.facts
	frames, x, row := g.cache.ram.Rows.Bytes(), g.RAM.Float32s(), f.RowBytes
	for i := lo; i < hi; i++ {
		from, k := frames, int(g.held[i])
		if g.held[i] == residency.Absent {
			if g.stored == nil || g.stored == g.RAM {
				continue // the miss landed in the matrix
			}
			from, k = g.stored.Bytes(), i
		}
		kernel.Widen(x[i*f.Dim:(i+1)*f.Dim], from[k*row:(k+1)*row], f.DType, f.Dim)
	}
	return nil
}

// admit copies misses into frames.
type admit hostMatrix

// Do implements copier.Work.
func (a *admit) Do(lo, hi int, _ *[]byte) error {
	frames, stored, row := a.cache.ram.Rows.Bytes(), a.stored.Bytes(), a.cache.facts.RowBytes
	for i := lo; i < hi; i++ {
		if frame := int(a.into[i]); frame >= 0 {
			copy(frames[frame*row:(frame+1)*row], stored[i*row:(i+1)*row])
		}
	}
	return nil
}

// Free does nothing: the slot frees its memory.
func (m *hostMatrix) Free() {}
