package hyperion

import (
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/kernel"
)

// host assembles matrices in RAM. RAM has all held rows, in the dataset's type.
type host struct {
	machine.Frames
	facts *featurestore.Facts
	rows  int64
}

func (h *host) bytes() int64 { return h.rows * int64(h.facts.RowBytes) }

func (h *host) count(l *featurestore.Layout) {
	l.RAMBytes = machine.Pages(h.bytes())
	matrix := func(eval bool) int64 { return machine.Pages(4 * int64(h.facts.Inputs(eval)) * int64(h.facts.Dim)) }
	l.SlotBytes, l.EvalSlotBytes = matrix(false), matrix(true)
}

func (h *host) open() error { return h.Open(h.bytes()) }

func (h *host) close() { h.Close() }

func (h *host) filling() (filling, error) { return (*hostFilling)(h), nil }

type hostFilling host

func (h *hostFilling) put(frame int32, row []byte) error {
	copy(h.RAM.Bytes()[int(frame)*len(row):], row)
	return nil
}

func (h *hostFilling) end() error { return nil }

func (h *host) matrix(eval bool) (matrix, error) {
	m, err := machine.NewHostMatrix(h.facts.Inputs(eval), h.facts.Dim)
	if err != nil {
		return nil, err
	}
	return &hostMatrix{HostMatrix: m, host: h}, nil
}

// hostMatrix is a matrix in RAM.
type hostMatrix struct {
	machine.HostMatrix
	host         *host
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
	kernel.Widen(m.Row(place), row, m.host.facts.DType, m.Dim)
}

func (m *hostMatrix) Assemble(int) { _ = m.host.Copies.Run((*hits)(m), len(m.held)) } // which cannot fail

// hits is the work of gathering the held rows.
type hits hostMatrix

// Do implements copier.Work.
func (h *hits) Do(lo, hi int, _ *[]byte) error {
	m, row := (*hostMatrix)(h), h.host.facts.RowBytes
	for i := lo; i < hi; i++ {
		if f := int(m.held[i]); m.held[i] != residency.Absent {
			m.widen(i, m.host.RAM.Bytes()[f*row:(f+1)*row])
		}
	}
	return nil
}

func (m *hostMatrix) device() *devrows.Slot { return nil }
