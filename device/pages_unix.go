//go:build unix

package device

import "golang.org/x/sys/unix"

// mapPages returns zeroed anonymous memory; n is a multiple of PageSize. The
// kernel's own pages are PageSize or a multiple of it, so the address is
// aligned to at least PageSize.
func mapPages(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		wantHuge(mem, leastHuge)
	}
	return mem, err
}

func unmapPages(mem []byte) error { return unix.Munmap(mem) }
