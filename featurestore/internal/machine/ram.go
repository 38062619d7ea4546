package machine

import (
	"diskgnn/device"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/internal/binio"
)

// RAM has rows, in the dataset's type, and the goroutines that gather them if the host computes.
type RAM struct {
	Rows   *device.Host
	Copies *copier.Copier
}

// Open takes the memory. Call Close also after an error.
func (r *RAM) Open(bytes int64) (err error) {
	r.Rows, err = device.NewHost(int(bytes))
	r.Copies = copier.New(copier.Enough())
	r.Copies.Start()
	return err
}

// Close releases the memory, and ends the goroutines.
func (r *RAM) Close() {
	if r.Copies != nil {
		r.Copies.Close()
	}
	if r.Rows != nil {
		r.Rows.Free()
	}
}

// HostMatrix is the part of a Matrix in RAM that is the same for all stores.
type HostMatrix struct {
	RAM *device.Host
	Dim int // elements of a row
}

// Memory implements Matrix.
func (m *HostMatrix) Memory() []byte { return m.RAM.Bytes() }

// X implements Matrix.
func (m *HostMatrix) X(n int) []float32 { return m.RAM.Float32s()[:n*m.Dim] }

// Row returns row i.
func (m *HostMatrix) Row(i int) []float32 { return m.RAM.Float32s()[i*m.Dim : (i+1)*m.Dim] }

// Fill implements Matrix.
func (m *HostMatrix) Fill(n int, copies device.Stream, x device.Buffer) (device.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(m.X(n)))
}

// Free implements Matrix. It does nothing for the zero value.
func (m *HostMatrix) Free() {
	if m.RAM != nil {
		m.RAM.Free()
	}
}
