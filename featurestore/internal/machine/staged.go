package machine

// stagingBytes bounds the bytes that a Staged copies together.
const stagingBytes = 8 << 20

// StagingBytes returns the memory of a Staged with near bytes on a GPU, in bytes.
func StagingBytes(near int64) int64 { return min(near, stagingBytes) }

// Staged writes bytes to a range of which the first Near bytes are in a GPU's memory and the others in RAM. It
// collects successive bytes for the GPU in Memory, and copies them by one call of Put.
type Staged struct {
	Near   int64
	RAM    []byte // set before Write
	Memory []byte // StagingBytes
	// Put copies bytes to the GPU, to byte at and the ones after it, and returns when they are copied.
	Put func(at int64, b []byte) error

	first, n int64 // the place of the collected bytes
}

// NewStaged returns a Staged with memory of m.
func NewStaged(m *Memory, near int64, put func(at int64, b []byte) error) *Staged {
	return &Staged{Near: near, Memory: Numbers[byte](m, int(StagingBytes(near))), Put: put}
}

// Write writes bytes from byte at on. Call Flush after the last of them.
func (s *Staged) Write(at int64, b []byte) error {
	for at < s.Near && len(b) > 0 {
		if s.n > 0 && (at != s.first+s.n || s.n == int64(len(s.Memory))) {
			if err := s.Flush(); err != nil {
				return err
			}
		}
		if s.n == 0 {
			s.first = at
		}
		k := int64(copy(s.Memory[s.n:], b[:min(int64(len(b)), s.Near-at)]))
		s.n, at, b = s.n+k, at+k, b[k:]
	}
	if len(b) > 0 {
		copy(s.RAM[at-s.Near:], b)
	}
	return nil
}

// Drop forgets the collected bytes.
func (s *Staged) Drop() { s.n = 0 }

// Flush copies the collected bytes.
func (s *Staged) Flush() error {
	n := s.n
	if n == 0 {
		return nil
	}
	s.n = 0
	return s.Put(s.first, s.Memory[:n])
}
