package machine

// stagingBytes bounds the units that a Staged copies together, unless one unit is larger.
const stagingBytes = 8 << 20

// StagingBytes returns the memory of a Staged for n units of the given size, in bytes.
func StagingBytes(n, unit int64) int64 { return min(n, max(1, stagingBytes/unit)) * unit }

// Staged writes units of Unit bytes to places, of which the first Near are in a GPU's memory and the others in
// RAM. It collects units for successive places on the GPU in Memory, and copies them by one call of Put. A unit may
// be shorter than Unit.
type Staged struct {
	Unit, Near int64
	RAM        []byte // set before Write
	Memory     []byte // of StagingBytes for Near units
	// Put copies units to the places from the given one on, and returns when they are copied.
	Put func(first int64, units []byte) error

	first, n int64 // the places of the collected units
}

// NewStaged returns a Staged with memory of m.
func NewStaged(m *Memory, unit, near int64, put func(first int64, units []byte) error) *Staged {
	return &Staged{Unit: unit, Near: near, Memory: Numbers[byte](m, int(StagingBytes(near, unit))), Put: put}
}

// Write writes a unit. Call Flush after the last one.
func (s *Staged) Write(at int64, unit []byte) error {
	if at >= s.Near {
		copy(s.RAM[(at-s.Near)*s.Unit:], unit)
		return nil
	}
	if s.n > 0 && (at != s.first+s.n || (s.n+1)*s.Unit > int64(len(s.Memory))) {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	if s.n == 0 {
		s.first = at
	}
	copy(s.Memory[s.n*s.Unit:], unit)
	s.n++
	return nil
}

// Flush copies the collected units.
func (s *Staged) Flush() error {
	n := s.n
	if n == 0 {
		return nil
	}
	s.n = 0
	return s.Put(s.first, s.Memory[:n*s.Unit])
}
