package memory

import (
	"context"
	"errors"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/progress"
)

// hostTable has all rows in RAM, by node, in the dataset's type. The CPU gathers.
type hostTable struct {
	machine.RAM
	facts *featurestore.Facts
}

func (t *hostTable) bytes() int64 { return t.facts.Nodes * int64(t.facts.RowBytes) }

func (t *hostTable) count(l *featurestore.Layout) {
	l.RAMBytes = machine.Pages(t.bytes())
	slot := func(eval bool) int64 {
		n := int64(t.facts.Inputs(eval))
		return machine.Pages(4*n*int64(t.facts.Dim)) + machine.Pages(4*n)
	}
	l.SlotBytes, l.EvalSlotBytes = slot(false), slot(true)
}

func (t *hostTable) open() error { return t.Open(t.bytes()) }

func (t *hostTable) close() { t.Close() }

// fill reads the pieces into their places.
func (t *hostTable) fill(ctx context.Context, r *tableReader, _ []uint32, rep progress.Reporter) (int64, error) {
	rows := t.Rows.Bytes()
	return r.read(ctx, rep, pieces{
		room: func(_ int, at, n int64) ([]byte, error) { return rows[at : at+n], nil },
		take: func(int, []byte) error { return nil },
	})
}

func (t *hostTable) matrix(eval bool) (matrix, error) {
	m, n := &hostMatrix{table: t}, t.facts.Inputs(eval)
	var errs [2]error
	m.HostMatrix, errs[0] = machine.NewHostMatrix(n, t.facts.Dim)
	m.nodes, errs[1] = device.NewHost(4 * n)
	if err := errors.Join(errs[:]...); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// hostMatrix is a matrix in RAM, and its input nodes.
type hostMatrix struct {
	machine.HostMatrix
	table *hostTable
	nodes *device.Host
}

func (m *hostMatrix) name(input, ranks []uint32) int {
	copy(m.nodes.Uint32s(), input)
	for i, v := range input {
		input[i] = ranks[v]
	}
	return 0
}

func (m *hostMatrix) Assemble(n int) {
	t := m.table
	t.Copies.Gather(m.X(n), t.Rows.Bytes(), m.nodes.Uint32s()[:n], t.facts.DType, m.Dim)
}

func (m *hostMatrix) Free() {
	m.HostMatrix.Free()
	if m.nodes != nil {
		m.nodes.Free()
	}
}
