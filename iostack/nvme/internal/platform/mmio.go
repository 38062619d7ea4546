package platform

import (
	"sync/atomic"
	"unsafe"
)

// Registers are a device's registers, mapped as memory. Its methods may be called from any
// goroutine.
//
// Loads and stores have 32 bits. Each is done once, in program order. The device sees a store after all
// earlier writes to memory. On amd64 a store is a plain move: Go's atomic stores are locked exchanges,
// which would read a write-only register, and which some processors trap in uncached memory.
type Registers []byte

// Load32 returns the register at an offset, a multiple of 4. If no register is mapped there, all bits are
// ones, as on a bus.
func (r Registers) Load32(offset int) uint32 {
	if offset < 0 || offset+4 > len(r) {
		return ^uint32(0)
	}
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r[offset])))
}

// Load64 returns a register of 64 bits. It loads the lower half first, and then the upper: some devices do
// not support accesses of 64 bits.
func (r Registers) Load64(offset int) uint64 {
	low := r.Load32(offset)
	return uint64(r.Load32(offset+4))<<32 | uint64(low)
}

// Store32 writes the register at an offset. If none is mapped there, it does nothing.
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
