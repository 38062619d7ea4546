// Package vfstest is the file system of tests that make and remove many small files: in memory, and
// with its power cut under a command at every operation, which is run again on the remains until it
// makes the result of an undisturbed run.
package vfstest

import (
	"os"

	"diskgnn/internal/vfs"
)

// TB is the part of *testing.T that this package needs.
type TB interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Fatalf(format string, args ...any)
}

// least is the room, in bytes, that a place in memory must have: containers often have 64 MiB,
// which the packages that are tested side by side may fill.
const least = 1 << 30

// TempDir returns a directory for the test, in memory where the system has such a place with
// room: making a file there takes a tenth of the time. Reads of files in it may be direct only
// in name.
func TempDir(t TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if free, err := vfs.OS.Free(memory); err != nil || free < least {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "diskgnn-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatalf("%v", err)
		}
	})
	return dir
}
