package commands

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// mountPermitted reports whether this process may mount a tmpfs.
var mountPermitted = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "mount")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return unix.Unmount(dir, unix.MNT_DETACH) == nil
})

// scriptMount mounts a small tmpfs until the script ends: mount DIR SIZE.
func scriptMount(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mount dir size")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	ts.Check(unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]))
	ts.Defer(func() { ts.Check(unix.Unmount(dir, unix.MNT_DETACH)) })
}

// scriptLock takes the lock of a directory under way, or of a file that stands for a drive, as
// another process would, until the script ends: lock DIR|FILE.
func scriptLock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lock dir")
	}
	name := ts.MkAbs(args[0])
	if st, err := os.Stat(name); err != nil || st.IsDir() {
		ts.Check(os.MkdirAll(name, 0o777))
		name = filepath.Join(name, "lock")
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	ts.Check(err)
	ts.Defer(func() { ts.Check(f.Close()) })
	ts.Check(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}
