// Package vfstest has file systems for tests. TempDir makes directories in memory for many small files.
// SweepPower cuts the power at every operation of a command, and runs the command again on the remains,
// which must end with the output of an undisturbed run.
package vfstest

import (
	"flag"
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
	dir := inMemory()
	if dir == "" {
		return t.TempDir()
	}
	removed(t, dir)
	return dir
}

// inMemory makes a directory in memory, or returns "" where there is no room for one.
func inMemory() string {
	const memory = "/dev/shm"
	if free, err := vfs.OS.Free(memory); err != nil || free < least {
		return ""
	}
	dir, err := os.MkdirTemp(memory, "diskgnn-test-")
	if err != nil {
		return ""
	}
	return dir
}

func removed(t TB, dir string) {
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatalf("%v", err)
		}
	})
}

// drive is the directory of temporary files that Main replaced, or "".
var drive string

// Main is TestMain's part of a package that tests no drive. It runs the tests with the directories of
// t.TempDir in memory, as by TempDir. Benchmarks, and whoever sets TMPDIR, keep their directories.
func Main(m interface{ Run() int }) int {
	flag.Parse()
	if bench := flag.Lookup("test.bench"); os.Getenv("TMPDIR") == "" && (bench == nil || bench.Value.String() == "") {
		if dir := inMemory(); dir != "" {
			drive = os.TempDir()
			os.Setenv("TMPDIR", dir)
			defer os.RemoveAll(dir)
		}
	}
	return m.Run()
}

// Drive returns a directory for the test on the drive that Main moved the others from: direct reads
// and writes are direct there, if its file system takes them.
func Drive(t TB) string {
	t.Helper()
	if drive == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(drive, "diskgnn-test-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	removed(t, dir)
	return dir
}
