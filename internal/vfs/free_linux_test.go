package vfs

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFree counts in fragments, and never beyond what an int64 holds.
func TestFree(t *testing.T) {
	for _, c := range []struct {
		s    unix.Statfs_t
		want int64
	}{
		{unix.Statfs_t{Bavail: 10, Bsize: 4096, Frsize: 4096}, 40960},
		{unix.Statfs_t{Bavail: 10, Bsize: 1 << 20, Frsize: 4096}, 40960}, // FUSE: sshfs and others
		{unix.Statfs_t{Bavail: 10, Bsize: 512}, 5120},
		{unix.Statfs_t{Bavail: math.MaxUint64, Bsize: 4096, Frsize: 4096}, math.MaxInt64},
		{unix.Statfs_t{Bavail: 1 << 51, Bsize: 4096, Frsize: 4096}, math.MaxInt64},
		{unix.Statfs_t{Bavail: 10, Frsize: -1, Bsize: -1}, 0},
		{unix.Statfs_t{}, 0},
	} {
		if got := freeOf(&c.s); got != c.want {
			t.Errorf("%+v: %d free, want %d", c.s, got, c.want)
		}
	}
	dir := t.TempDir()
	if free, err := Boundless(OS).Free(dir); err != nil || free != math.MaxInt64 {
		t.Errorf("%d, %v", free, err)
	}
	if err := exercise(Boundless(OS), dir); err != nil {
		t.Error(err)
	}
}
