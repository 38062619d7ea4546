package device

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastHuge is the least buffer for which huge pages are requested: a row of it is
// found at random with far fewer misses of the address cache, and filling it for the
// first time takes a fault for every 2 MiB rather than for every 4 KiB.
const leastHuge = 32 << 20

// wantHuge requests huge pages, which the kernel gives where it has them. The buffer
// takes no more memory for it.
func wantHuge(mem []byte) {
	if len(mem) >= leastHuge {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a hint
	}
}

// Populate gives every page of the memory its place now, rather than at its first use, and
// changes no byte. It is a hint: Linux before 5.14 does not take it.
func Populate(mem []byte) {
	if len(mem) > 0 {
		_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	}
}

// Prefer requests pages of a NUMA node, for those that are not there yet; a node below 0
// is none. It is a hint: pages come from elsewhere where the node has none left.
func (h *Host) Prefer(node int) {
	const preferred, words, wordBits = 1, 16, 64 // MPOL_PREFERRED
	if node < 0 || node >= words*wordBits || len(h.mem) == 0 {
		return
	}
	var nodes [words]uint64
	nodes[node/wordBits] = 1 << (node % wordBits)
	// Refused where the kernel knows no nodes, or the node is not the process's.
	_, _, _ = unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(h.mem))), uintptr(len(h.mem)), preferred,
		uintptr(unsafe.Pointer(&nodes)), words*wordBits, 0)
}
