// Package vfstest has file systems for tests. TempDir makes directories in memory for many small files.
// SweepPower cuts the power at every operation of a command, and runs the command again on the remains,
// which must end with the output of an undisturbed run.
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

// least is the free space in bytes that a file system in memory must have. In containers it often has
// 64 MiB, which packages that are tested at the same time may fill.
const least = 1 << 30

// TempDir returns a directory that is removed after the test. It is in memory if the system has a file
// system there with enough space: making a file takes a tenth of the time. Direct I/O in it may go
// through the page cache.
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
