package machine

import (
	"errors"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/dtype"
)

// Entries is a Matrix with rows that all are in one table, on the host or on a GPU. The entries of a batch's rows
// are set before Assemble.
type Entries interface {
	Matrix
	// List returns the memory of the entries, for the largest batch.
	List() []uint32
}

// EntriesBytes returns the host memory of Entries for n rows of dim elements, in bytes.
func EntriesBytes(n, dim int, onGPU bool) int64 {
	if onGPU {
		return Pages(4 * int64(n))
	}
	return Pages(4*int64(n)) + Pages(4*int64(n)*int64(dim))
}

// hostEntries are Entries of a table in RAM. The CPU gathers.
type hostEntries struct {
	HostMatrix
	table *RAM
	dtype dtype.Type
	list  *device.Host
}

// NewEntries returns Entries of the rows of r, for training batches, or if eval is set, for evaluation batches.
func (r *RAM) NewEntries(f *featurestore.Facts, eval bool) (Entries, error) {
	m, n := &hostEntries{HostMatrix: HostMatrix{Dim: f.Dim}, table: r, dtype: f.DType}, f.Inputs(eval)
	var errs [2]error
	m.RAM, errs[0] = device.NewHost(4 * n * f.Dim)
	m.list, errs[1] = device.NewHost(4 * n)
	if err := errors.Join(errs[:]...); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

func (m *hostEntries) List() []uint32 { return m.list.Uint32s() }

func (m *hostEntries) Assemble(n int) {
	m.table.Copies.Gather(m.X(n), m.table.Rows.Bytes(), m.List()[:n], 0, m.dtype, m.Dim)
}

func (m *hostEntries) Free() {
	m.HostMatrix.Free()
	if m.list != nil {
		m.list.Free()
	}
}

// gpuEntries are Entries of a table on a GPU, which gathers in Fill.
type gpuEntries struct {
	gpurows.Matrix
	table *gpurows.Frames
	list  *device.Host
	pins  *gpurows.Pins
}

// NewGPUEntries returns Entries of the rows of t, for the batches of NewEntries.
func NewGPUEntries(t *gpurows.Frames, f *featurestore.Facts, eval bool) (Entries, error) {
	m := &gpuEntries{table: t, Matrix: t.Turns.NewMatrix(eval)}
	var err error
	if m.list, err = device.NewHost(4 * f.Inputs(eval)); err != nil {
		return nil, err
	}
	if m.pins, err = gpurows.Pin(t.Device, m.list); err != nil {
		m.list.Free()
		return nil, err
	}
	return m, nil
}

func (m *gpuEntries) List() []uint32 { return m.list.Uint32s() }

func (m *gpuEntries) Assemble(int) {}

// Fill submits the copy of the entries and, after it on the table's stream, the gather.
func (m *gpuEntries) Fill(n int, copies device.Stream, x device.Buffer) (device.Span, error) {
	t := m.Turn()
	if err := m.table.Turns.Gather(t, &m.table.Table, copies, x, m.List()[:n], n); err != nil {
		return nil, err
	}
	return m.table.Turns.End(t)
}

func (m *gpuEntries) Free() {
	m.pins.Free()
	m.list.Free()
}
