package device

import "golang.org/x/sys/unix"

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
