package comparison

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestUncache: a file that was just written is not in the page cache any more.
func TestUncache(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(name), &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skip("the temporary directory is memory: it has no page cache")
	}
	f, err := os.Create(name)
	if err == nil {
		_, err = f.Write(make([]byte, 16*page))
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if before := resident(t, f); before == 0 {
		t.Skip("this file system does not cache what is written")
	}
	if err := uncache(name); err != nil {
		t.Fatal(err)
	}
	if after := resident(t, f); after > 0 {
		t.Errorf("%d pages are cached", after)
	}
	if err := uncache(name + "-not"); !os.IsNotExist(err) {
		t.Errorf("of no file: %v", err)
	}
}

// resident returns how many of a file's pages are in the page cache.
func resident(t *testing.T, f *os.File) (n int) {
	t.Helper()
	m, err := unix.Mmap(int(f.Fd()), 0, 16*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	in := make([]byte, 16*page/os.Getpagesize())
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0]))); e != 0 {
		t.Fatal(e)
	}
	return len(slices.DeleteFunc(in, func(b byte) bool { return b&1 == 0 }))
}
