package device

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// wantHuge requests huge pages for a buffer of at least the given bytes, which the kernel uses if it has them. The size of
// the buffer does not change.
func wantHuge(mem []byte, least int) {
	if len(mem) >= least {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a hint
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
