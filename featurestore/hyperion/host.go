package hyperion

import (
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
)

// host assembles matrices in RAM. RAM has all held rows, in the dataset's type.
type host struct {
	facts  *featurestore.Facts
	rows   int64
	mem    *device.Host
	copies *copier.Copier
}

func (h *host) bytes() int64 { return h.rows * int64(h.facts.RowBytes) }

func (h *host) count(l *featurestore.Layout) {
	l.RAMBytes = machine.Pages(h.bytes())
	matrix := func(eval bool) int64 { return machine.Pages(4 * int64(h.facts.Inputs(eval)) * int64(h.facts.Dim)) }
	l.SlotBytes, l.EvalSlotBytes = matrix(false), matrix(true)
}

func (h *host) open() (err error) {
	h.mem, err = device.NewHost(int(h.bytes()))
	h.copies = copier.New(copier.Enough())
	h.copies.Start()
	return err
}

func (h *host) close() {
	if h.copies != nil {
		h.copies.Close()
	}
	if h.mem != nil {
		h.mem.Free()
	}
}

func (h *host) filling() (filling, error) { return (*hostFilling)(h), nil }

type hostFilling host

func (h *hostFilling) put(frame int32, row []byte) error {
	copy(h.mem.Bytes()[int(frame)*len(row):], row)
	return nil
}

func (h *hostFilling) end() error { return nil }

func (h *host) matrix(eval bool) (matrix, error) {
	mem, err := device.NewHost(4 * h.facts.Inputs(eval) * h.facts.Dim)
	if err != nil {
		return nil, err
	}
	return &hostMatrix{host: h, mem: mem}, nil
}

// hostMatrix is a matrix in RAM.
type hostMatrix struct {
	*host
	mem          *device.Host
	held, places []int32
}

func (m *hostMatrix) begin(held, places []int32) int {
	m.held, m.places = held, places
	return 0
}

// put widens a row into its place in the matrix.
func (m *hostMatrix) put(k int, row []byte) error {
	m.widen(int(m.places[k]), row)
	return nil
}

func (m *hostMatrix) widen(place int, row []byte) {
	dim := m.facts.Dim
	kernel.Widen(m.mem.Float32s()[place*dim:(place+1)*dim], row, m.facts.DType, dim)
}

func (m *hostMatrix) assemble() { _ = m.copies.Run((*hits)(m), len(m.held)) } // which cannot fail

// hits is the work of gathering the held rows.
type hits hostMatrix

// Do implements copier.Work.
func (h *hits) Do(lo, hi int, _ *[]byte) error {
	m, row := (*hostMatrix)(h), h.facts.RowBytes
	for i := lo; i < hi; i++ {
		if f := int(m.held[i]); m.held[i] != residency.Absent {
			m.widen(i, m.host.mem.Bytes()[f*row:(f+1)*row])
		}
	}
	return nil
}

func (m *hostMatrix) device() *devrows.Slot { return nil }

func (m *hostMatrix) memory() []byte { return m.mem.Bytes() }

func (m *hostMatrix) x() []float32 { return m.mem.Float32s()[:len(m.held)*m.facts.Dim] }

func (m *hostMatrix) fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(m.x()))
}

func (m *hostMatrix) free() { m.mem.Free() }
