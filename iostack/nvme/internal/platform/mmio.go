package platform

import (
	"sync/atomic"
	"unsafe"
)

// Registers are a device's registers, mapped as memory. Its methods may be called from any
// goroutine.
//
// Loads and stores are of 32 bits, each once and in the order of the program: registers are
// not memory. A store is seen by the device after all that was written to memory before it.
// On amd64 it is a plain one: Go's atomic stores there are locked exchanges, which would read
// a register that may only be written, and which some processors trap in uncached memory.
type Registers []byte

// Load32 returns the register at an offset, which is a multiple of 4; ones where none is mapped,
// as a bus answers.
func (r Registers) Load32(offset int) uint32 {
	if offset < 0 || offset+4 > len(r) {
		return ^uint32(0)
	}
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r[offset])))
}

// Load64 returns a register of 64 bits: first its lower half, since some devices have no
// access of 64 bits.
func (r Registers) Load64(offset int) uint64 {
	low := r.Load32(offset)
	return uint64(r.Load32(offset+4))<<32 | uint64(low)
}

// Store32 writes the register at an offset. Where none is mapped it does nothing.
func (r Registers) Store32(offset int, v uint32) {
	if offset >= 0 && offset+4 <= len(r) {
		store((*uint32)(unsafe.Pointer(&r[offset])), v)
	}
}

// Store64 writes a register of 64 bits, its lower half first.
func (r Registers) Store64(offset int, v uint64) {
	r.Store32(offset, uint32(v))
	r.Store32(offset+4, uint32(v>>32))
}
