package device

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastHuge is the least size of a buffer for which huge pages are requested: random accesses then have far
// fewer misses in the TLB, and the first fill takes a page fault for every 2 MiB instead of every 4 KiB.
const leastHuge = 32 << 20

// wantHuge requests huge pages, which the kernel uses if it has them. The size of the buffer does not
// change.
func wantHuge(mem []byte) {
	if len(mem) >= leastHuge {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a hint
	}
}

// hugePage is the size of a huge page, for the least buffer that can have one.
const hugePage = 2 << 20

// Huge requests huge pages for a buffer of any size that is read and written at random, before its first use. NewHost
// requests them for large buffers alone. It is a hint.
func (h *Host) Huge() {
	if len(h.mem) >= hugePage {
		_ = unix.Madvise(h.mem, unix.MADV_HUGEPAGE)
	}
}

// Populate allocates all pages of the memory at once, rather than each at its first use, and changes no
// byte. It is a hint, which Linux before 5.14 ignores.
func Populate(mem []byte) {
	if len(mem) > 0 {
		_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	}
}

// Prefer requests that pages of the buffer that are not allocated yet come from a NUMA node. A node below 0
// does nothing. It is a hint: if the node has no free pages, they come from another one.
func (h *Host) Prefer(node int) {
	const preferred, words, wordBits = 1, 16, 64 // MPOL_PREFERRED
	if node < 0 || node >= words*wordBits || len(h.mem) == 0 {
		return
	}
	var nodes [words]uint64
	nodes[node/wordBits] = 1 << (node % wordBits)
	// The call fails without NUMA, or if the process may not use the node.
	_, _, _ = unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(h.mem))), uintptr(len(h.mem)), preferred,
		uintptr(unsafe.Pointer(&nodes)), words*wordBits, 0)
}
