package gpu

import "diskgnn/device/cuda"

// memory hands out the device's memory. The first error stays.
type memory struct {
	arena *cuda.Arena
	err   error
}

func (m *memory) bytes(n int64) cuda.Buffer {
	b, err := m.arena.Take(n)
	if m.err == nil {
		m.err = err
	}
	return b
}

// floats takes so many float32s or words.
func (m *memory) floats(n int) cuda.Buffer { return m.bytes(4 * int64(n)) }

// part returns some elements of a buffer of four bytes each.
func part(b cuda.Buffer, from, to int) cuda.Buffer {
	if b == (cuda.Buffer{}) {
		return b
	}
	return b.Slice(4*int64(from), 4*int64(to-from))
}

// after returns what follows so many elements.
func after(b cuda.Buffer, elements int) cuda.Buffer { return part(b, elements, int(b.Bytes()/4)) }
