package comparison

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/progress"
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

// TestRunsAreCold: each run finds the dataset's rows on the drive, whatever was read before.
func TestRunsAreCold(t *testing.T) {
	fake, o := begin(t)
	o.Stores = []string{"rows", "memory"}
	f, err := os.OpenFile(filepath.Join(o.Dataset, "features.bin"), os.O_RDWR, 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	warm := func() int {
		if _, err := f.ReadAt(make([]byte, page), 0); err != nil {
			t.Fatal(err)
		}
		return resident(t, f)
	}
	warm()
	if err := uncache(f.Name()); err != nil {
		t.Fatal(err)
	}
	if resident(t, f) > 0 || warm() == 0 {
		t.Skip("this file system has no page cache")
	}
	program := func(ctx context.Context, args []string) ([]byte, error) {
		if n := resident(t, f); args[0] == "train" && n > 0 {
			t.Errorf("%s: %d pages are cached", value(args, "--out"), n)
		}
		warm()
		return fake.run(ctx, args)
	}
	if _, err := Run(t.Context(), disk, o, program, progress.Discard); err != nil {
		t.Fatal(err)
	}
}

// resident returns how many of a file's pages are in the page cache.
func resident(t *testing.T, f *os.File) (n int) {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	pages := (int(info.Size()) + os.Getpagesize() - 1) / os.Getpagesize()
	m, err := unix.Mmap(int(f.Fd()), 0, pages*os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	in := make([]byte, pages)
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0]))); e != 0 {
		t.Fatal(e)
	}
	return len(slices.DeleteFunc(in, func(b byte) bool { return b&1 == 0 }))
}
