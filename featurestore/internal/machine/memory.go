package machine

import (
	"unsafe"

	"diskgnn/device"
	"diskgnn/internal/binio"
)

// Memory allocates buffers, which Free releases. A dry Memory only counts them, so the same code computes
// the size and allocates. It belongs to one goroutine.
type Memory struct {
	Dry bool
	Err error // the first error; later buffers are empty

	hosts  []*device.Host
	within []byte // not nil: Numbers takes its buffers from its beginning
	bytes  int64  // of host buffers, each rounded up to whole pages
	lists  int64  // of lists
}

// Within returns a Memory that takes Numbers out of b, one after another. b must be zeroed and large enough.
func Within(b []byte) *Memory { return &Memory{within: b} }

// Carve allocates one zeroed buffer for all Numbers that lay takes, one after another, and calls lay again
// with a Memory within this buffer. The caller frees the buffer.
func Carve(lay func(m *Memory)) (*device.Host, error) {
	host, err := device.NewHost(int(Counted(lay)))
	if err == nil {
		lay(Within(host.Bytes()))
	}
	return host, err
}

// Counted returns the memory that lay takes, in bytes.
func Counted(lay func(m *Memory)) int64 {
	m := &Memory{Dry: true}
	lay(m)
	return m.bytes + m.lists
}

// Host returns a zeroed buffer, or an empty one if m is dry.
func (m *Memory) Host(bytes int64) *device.Host {
	m.bytes += Pages(bytes)
	if m.Dry || m.Err != nil {
		return new(device.Host)
	}
	h, err := device.NewHost(int(bytes))
	if err != nil {
		m.Err = err
		return new(device.Host)
	}
	m.hosts = append(m.hosts, h)
	return h
}

// Numbers returns n zeroed numbers outside Go's heap, at the beginning of a page; nil if m is dry.
func Numbers[T binio.Number](m *Memory, n int) []T {
	var v T
	bytes := int64(n) * int64(unsafe.Sizeof(v))
	if m.within == nil {
		b := m.Host(bytes).Bytes()
		if len(b) == 0 {
			return nil
		}
		return binio.View[T](b[:bytes:bytes])
	}
	at := m.bytes
	m.bytes += Pages(bytes)
	return binio.View[T](m.within[at : at+bytes : at+bytes])
}

// List returns a list of n elements on Go's heap, or nil if m is dry.
func List[T any](m *Memory, n int) []T {
	a := new(device.Arena)
	if !m.Dry {
		a = device.NewArena()
	}
	s := device.Take[T](a, n)
	m.lists += a.Used()
	return s
}

// Free releases the buffers of Host and Numbers. It does nothing when called again.
func (m *Memory) Free() {
	for _, h := range m.hosts {
		h.Free()
	}
	m.hosts = nil
}
