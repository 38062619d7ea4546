package prefetch

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestBytes asks for any bytes, also at the end of a mapping, behind which no memory is.
func TestBytes(t *testing.T) {
	Bytes(nil)
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	m[0], m[4095] = 1, 2
	for n := range 200 {
		Bytes(m[:n])
		Bytes(m[4096-n:])
	}
	if n := testing.AllocsPerRun(10, func() { Bytes(m) }); n != 0 || m[0] != 1 || m[4095] != 2 {
		t.Errorf("%v allocations, bytes %d and %d", n, m[0], m[4095])
	}
}
