package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// exercise makes one of each operation.
func exercise(fsys FS, dir string) error {
	sub := filepath.Join(dir, "sub")
	if err := fsys.MkdirAll(sub); err != nil {
		return err
	}
	f, err := fsys.OpenReadWrite(filepath.Join(sub, "a"))
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("xyz"), 2)
	for _, do := range []func() error{func() error { return f.Truncate(4) }, f.Sync, f.Close} {
		if err == nil {
			err = do()
		}
	}
	if err != nil {
		return err
	}
	if err := ReplaceFile(fsys, filepath.Join(sub, "b"), []byte("new")); err != nil {
		return err
	}
	if err := fsys.Link(filepath.Join(sub, "b"), filepath.Join(sub, "c")); err != nil {
		return err
	}
	return fsys.RemoveAll(sub)
}

func TestOS(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a")
	if err := ReplaceFile(OS, a, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(OS, a, []byte("new")); err != nil {
		t.Fatal(err)
	}
	b, err := ReadFile(OS, a)
	if err != nil || string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	names, err := OS.List(dir)
	if err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if free, err := OS.Free(dir); err != nil || free <= 0 {
		t.Errorf("free: %d, %v", free, err)
	}
	if _, err := OS.Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	l, err := OS.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OS.Lock(filepath.Join(dir, "lock")); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := exercise(OS, dir); err != nil {
		t.Error(err)
	}
}

// TestNoFiles opens what is no regular file: that is an error, never a wait.
func TestNoFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := OS.Open(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Skip(err)
	}
	if _, err := OS.Open(pipe); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a named pipe: %v", err)
	}
	if l, err := OS.Lock(pipe); err == nil {
		_ = l.Close()
	}
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := WriteFile(OS, a, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := OS.Link(a, b); CannotLink(err) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	sa, _ := os.Stat(a)
	if sb, err := os.Stat(b); err != nil || !os.SameFile(sa, sb) {
		t.Errorf("two names, two files (%v)", err)
	}
	if err := OS.Link(a, b); err == nil || CannotLink(err) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := OS.Link(filepath.Join(dir, "absent"), filepath.Join(dir, "c")); err == nil || CannotLink(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestInject checks that every operation can be failed, and that each failure
// reaches the caller.
func TestInject(t *testing.T) {
	boom := errors.New("boom")
	n := 0
	for ; ; n++ {
		in := &FailAt{N: n, Err: boom}
		err := exercise(Inject(OS, in), t.TempDir())
		if !in.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("%v: %v", in, err)
		}
	}
	if want := 13; n != want {
		t.Errorf("%d operations seen, want %d", n, want)
	}
	in := &FailAt{N: 0, Err: boom, Match: func(op Op, name string) bool { return op == OpSync }}
	if err := exercise(Inject(OS, in), t.TempDir()); !errors.Is(err, boom) {
		t.Errorf("only syncs: %v", err)
	}
}

// TestLockOfALostName takes locks whose file is removed, or replaced, in the moment
// before they are taken: a lock of a file that has lost its name keeps nobody out.
func TestLockOfALostName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	tries := 0
	a, err := lock(name, func() {
		if tries++; tries == 1 {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err != nil || tries != 2 {
		t.Fatalf("removed: %d tries, %v", tries, err)
	}
	if _, err := OS.Lock(name); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("a second lock beside it: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var c interface{ Close() error }
	_, err = lock(name, func() {
		if c == nil {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if c, err = OS.Lock(name); err != nil {
				t.Fatal(err)
			}
		}
	})
	if !errors.Is(err, fault.ErrLocked) {
		t.Errorf("another process has locked a new file of the name: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := lock(name, func() { _ = os.Remove(name) }); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("always removed: %v", err)
	}
	if _, err := OS.Lock(filepath.Join(t.TempDir(), "nowhere", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

// Readers share a file, and whoever is to be alone is not among them.
func TestShare(t *testing.T) {
	name := filepath.Join(t.TempDir(), "drive")
	if _, err := Share(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	if err := WriteFile(OS, name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o444); err != nil {
		t.Fatal(err)
	}
	a, err := Share(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Share(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OS.Lock(name); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("locked beside a reader: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	l, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Share(name); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("shared beside the lock: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadSmall reads files up to a limit, and refuses those beyond before it holds
// much of them.
func TestReadSmall(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := WriteFile(OS, name, []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadSmall(OS, name, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadSmall(OS, name, 4); !errors.Is(err, fault.ErrInput) {
		t.Errorf("one byte more: %v", err)
	}
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Skip(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ReadSmall(OS, name, 1<<16); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a terabyte of nothing: %v", err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// ReadExact allocates what was admitted, and notices that a file becomes shorter.
func TestReadExact(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"12345", ""} {
		if err := WriteFile(OS, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if b, err := ReadExact(OS, name, func(int64) error { return nil }); err != nil || string(b) != content || cap(b) != len(content) {
			t.Errorf("%q, %v, want %q", b, err, content)
		}
	}
	for _, left := range []int64{4, 0} {
		if err := WriteFile(OS, name, []byte("12345")); err != nil {
			t.Fatal(err)
		}
		b, err := ReadExact(OS, name, func(size int64) error {
			if size != 5 {
				t.Errorf("%d bytes", size)
			}
			return os.Truncate(name, left)
		})
		if b != nil || !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "read "+name+": unexpected EOF" {
			t.Errorf("%d bytes are left: %q, %v", left, b, err)
		}
	}
	boom := errors.New("boom")
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Skip(err)
	}
	if _, err := ReadExact(OS, name, func(int64) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("a terabyte that is refused: %v", err)
	}
	if _, err := ReadExact(OS, filepath.Join(name, "none"), nil); err == nil {
		t.Error("a file that is not there is read")
	}
}

// A lock is not taken by way of a link, whose file it would become part of.
func TestLockOfALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("kept", link); err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{false, true} {
		if _, err := OS.Lock(link); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("the file is there: %t: %v", there, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
