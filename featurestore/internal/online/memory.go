package online

import (
	"diskgnn/device"
	"diskgnn/internal/binio"
)

// memory allocates buffers, which free releases. A dry memory only counts them, so the same code computes
// the size and allocates.
type memory struct {
	dry   bool
	hosts []*device.Host
	bytes int64 // of the hosts, each rounded up to whole pages
	lists int64 // bytes on Go's heap
	err   error // the first error; later buffers are empty
}

func (m *memory) host(bytes int64) *device.Host {
	m.bytes += binio.AlignUp(bytes, device.PageSize)
	if m.dry || m.err != nil {
		return new(device.Host)
	}
	h, err := device.NewHost(int(bytes))
	if err != nil {
		m.err = err
		return new(device.Host)
	}
	m.hosts = append(m.hosts, h)
	return h
}

// list returns a list of n elements on Go's heap, or nil if m is dry.
func list[T any](m *memory, n int) []T {
	a := new(device.Arena)
	if !m.dry {
		a = device.NewArena()
	}
	s := device.Take[T](a, n)
	m.lists += a.Used()
	return s
}

func (m *memory) held() int64 { return m.bytes + m.lists }

func (m *memory) free() {
	for _, h := range m.hosts {
		h.Free()
	}
	m.hosts = nil
}
