package sgemm

import "sync"

// SpaceBytes is the memory of every concurrent call of Multiply, in bytes.
const SpaceBytes = 4 * maxTerms * (maxColumns + maxLanes)

// space is the memory of one call.
type space struct {
	b []float32 // a panel of B, a tile after the other, from the beginning of a cache line
	a []float32 // rows of op(A), of one tile or two
}

var spaces struct {
	sync.Mutex
	free []*space
}

// takeSpace returns unused memory.
func takeSpace() *space {
	spaces.Lock()
	defer spaces.Unlock()
	if n := len(spaces.free); n > 0 {
		s := spaces.free[n-1]
		spaces.free = spaces.free[:n-1]
		return s
	}
	return newSpace()
}

func giveSpace(s *space) {
	spaces.Lock()
	defer spaces.Unlock()
	spaces.free = append(spaces.free, s)
}

// newSpace makes space. An allocation of this size begins at a page.
func newSpace() *space {
	memory := make([]float32, SpaceBytes/4)
	return &space{b: memory[:maxTerms*maxColumns], a: memory[maxTerms*maxColumns:]}
}
