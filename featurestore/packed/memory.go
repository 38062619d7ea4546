package packed

import (
	"diskgnn/device"
	"diskgnn/internal/binio"
)

// memory takes the host buffers of a slot. A dry one only counts them, so that the same
// code finds out what a slot needs and takes it.
type memory struct {
	dry     bool
	bytes   int64          // of all buffers, each rounded up to whole pages
	device  int64          // of the device's memory that the slot takes
	buffers []*device.Host // in the order in which they were taken
	landing []*device.Host // those that reads land in
	err     error          // the first; later buffers are empty
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

// land returns a buffer that reads may land in.
func (m *memory) land(bytes int64) *device.Host {
	h := m.take(bytes)
	m.landing = append(m.landing, h)
	return h
}

// free gives the buffers back.
func (m *memory) free() {
	for _, h := range m.buffers {
		h.Free()
	}
	m.buffers, m.landing = nil, nil
}
