package sgemm

import (
	"sync"
	"unsafe"
)

// lineFloats are as many floats as a cache line has.
const lineFloats = 16

// SpaceBytes is what every concurrent caller of Multiply takes.
const SpaceBytes = 4 * (maxTerms*maxColumns + maxTerms*maxLanes + lineFloats)

// space is the memory of one call.
type space struct {
	b []float32 // a panel of B, a tile after the other, from the beginning of a cache line
	a []float32 // as many rows of op(A) as a tile has
}

var spaces struct {
	sync.Mutex
	free []*space
}

// takeSpace returns memory that no one uses.
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

func newSpace() *space {
	memory := make([]float32, SpaceBytes/4)
	at := int(-uintptr(unsafe.Pointer(&memory[0])) / 4 % lineFloats)
	panel := maxTerms * maxColumns
	return &space{b: memory[at : at+panel], a: memory[at+panel:]}
}
