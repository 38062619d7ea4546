package sysfs

import "unsafe"

// Registers are read and written by single plain accesses, which the compiler neither moves
// nor leaves out, for it does not see into these functions. On amd64, accesses to device
// memory are in order with each other and with those to ordinary memory; an atomic exchange,
// which sync/atomic stores by, would read the register as well.

//go:noinline
func load32(b []byte, offset int) uint32 { return *(*uint32)(unsafe.Pointer(&b[offset])) }

//go:noinline
func store32(b []byte, offset int, v uint32) { *(*uint32)(unsafe.Pointer(&b[offset])) = v }

// Registers of 64 bits are accessed by halves, the lower first, which all controllers take.
func load64(b []byte, offset int) uint64 {
	low := load32(b, offset)
	return uint64(load32(b, offset+4))<<32 | uint64(low)
}

func store64(b []byte, offset int, v uint64) {
	store32(b, offset, uint32(v))
	store32(b, offset+4, uint32(v>>32))
}
