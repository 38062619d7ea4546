package prefetch

import (
	"math"
	"testing"
	"unsafe"

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

// TestAt asks for elements of a mapping, and for elements that it does not have, which changes nothing and is no fault.
func TestAt(t *testing.T) {
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	m[0], m[4095] = 1, 2
	four, eight := unsafe.Slice((*uint32)(unsafe.Pointer(&m[0])), 1024), unsafe.Slice((*int64)(unsafe.Pointer(&m[0])), 512)
	at, long := []uint32{0, 511, 512, 1023, 1024, math.MaxUint32}, []int64{0, 1023, 1024, -1, math.MaxInt64, math.MinInt64}
	if n := testing.AllocsPerRun(10, func() {
		for i := range len(at) + 1 {
			At(four, at[:i])
			At(eight, at[:i])
			At(m, at[:i])
			AtLong(four, long[:i])
		}
		At[uint32](nil, at)
		AtLong(nil, long)
	}); n != 0 || m[0] != 1 || m[4095] != 2 {
		t.Errorf("%v allocations, bytes %d and %d", n, m[0], m[4095])
	}
}
