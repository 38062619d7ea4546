package device

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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
