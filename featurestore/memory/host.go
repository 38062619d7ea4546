package memory

import (
	"context"
	"errors"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// hostTable has all rows in RAM, by node, in the dataset's type. The CPU gathers.
type hostTable struct {
	facts  *featurestore.Facts
	rows   *device.Host
	copies *copier.Copier
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

func (t *hostTable) open() (err error) {
	t.rows, err = device.NewHost(int(t.bytes()))
	t.copies = copier.New(copier.Enough())
	t.copies.Start()
	return err
}

func (t *hostTable) close() {
	if t.copies != nil {
		t.copies.Close()
	}
	if t.rows != nil {
		t.rows.Free()
	}
}

// fill reads the pieces into their places.
func (t *hostTable) fill(ctx context.Context, r *tableReader, _ []uint32, rep progress.Reporter) (int64, error) {
	rows := t.rows.Bytes()
	return r.read(ctx, rep, pieces{
		room: func(_ int, at, n int64) ([]byte, error) { return rows[at : at+n], nil },
		take: func(int, []byte) error { return nil },
	})
}

func (t *hostTable) matrix(eval bool) (matrix, error) {
	m := &hostMatrix{hostTable: t}
	n := t.facts.Inputs(eval)
	var errs [2]error
	m.mem, errs[0] = device.NewHost(4 * n * t.facts.Dim)
	m.nodes, errs[1] = device.NewHost(4 * n)
	if err := errors.Join(errs[:]...); err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// hostMatrix is a matrix in RAM, and its input nodes.
type hostMatrix struct {
	*hostTable
	mem, nodes *device.Host
}

func (m *hostMatrix) name(input, ranks []uint32) int {
	copy(m.nodes.Uint32s(), input)
	for i, v := range input {
		input[i] = ranks[v]
	}
	return 0
}

func (m *hostMatrix) assemble(rows int) {
	m.copies.Gather(m.x(rows), m.rows.Bytes(), m.nodes.Uint32s()[:rows], m.facts.DType, m.facts.Dim)
}

func (m *hostMatrix) memory() []byte { return m.mem.Bytes() }

func (m *hostMatrix) x(rows int) []float32 { return m.mem.Float32s()[:rows*m.facts.Dim] }

func (m *hostMatrix) fill(rows int, copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(m.x(rows)))
}

func (m *hostMatrix) free() {
	for _, h := range []*device.Host{m.mem, m.nodes} {
		if h != nil {
			h.Free()
		}
	}
}
