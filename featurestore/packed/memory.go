package packed

import (
	"diskgnn/device"
	"diskgnn/internal/binio"
)

// memory allocates the host buffers of a slot. A dry memory only counts them, so the same code computes
// the size and allocates.
type memory struct {
	dry     bool
	bytes   int64          // of all buffers, each rounded up to whole pages
	device  int64          // bytes of device memory of the slot
	buffers []*device.Host // in the order of allocation
	landing []*device.Host // buffers in which reads land
	err     error          // the first error; later buffers are empty
}

// take returns a buffer of whole pages.
func (m *memory) take(bytes int64) *device.Host {
	bytes = binio.AlignUp(bytes, device.PageSize)
	m.bytes += bytes
	h := new(device.Host)
	if m.dry || m.err != nil {
		return h
	}
	if h, m.err = device.NewHost(int(bytes)); m.err != nil {
		return new(device.Host)
	}
	m.buffers = append(m.buffers, h)
	return h
}

// land returns a buffer for reads.
func (m *memory) land(bytes int64) *device.Host {
	h := m.take(bytes)
	m.landing = append(m.landing, h)
	return h
}

// free releases the buffers.
func (m *memory) free() {
	for _, h := range m.buffers {
		h.Free()
	}
	m.buffers, m.landing = nil, nil
}
