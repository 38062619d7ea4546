//go:build linux

// Package limittest lowers the resource limits of a test's process, and counts the resources that the
// process holds. The limits apply to the whole process, so tests that use them must not run in parallel.
package limittest

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// room is the address space that Memory leaves for Go's runtime.
const room = 256 << 20 // bytes

// Memory calls f with the address space limited to 256 MiB more than the process has.
func Memory(t testing.TB, f func()) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var pages uint64
	for _, c := range b[:bytes.IndexByte(b, ' ')] {
		pages = 10*pages + uint64(c-'0')
	}
	limit(t, unix.RLIMIT_AS, pages*uint64(os.Getpagesize())+room, f)
}

// Files calls f while exactly n more descriptors can be opened.
func Files(t testing.TB, n int, f func()) {
	t.Helper()
	// The limit applies to descriptor numbers, so all free numbers below it are used up first.
	const most = 1024
	limit(t, unix.RLIMIT_NOFILE, most, func() {
		var taken []int
		defer func() {
			for _, fd := range taken {
				_ = unix.Close(fd)
			}
		}()
		for {
			fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
			if err == unix.EMFILE || err == unix.EINVAL {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, fd)
		}
		if len(taken) < n {
			t.Fatalf("%d descriptors are free below %d, want %d", len(taken), most, n)
		}
		for range n {
			_ = unix.Close(taken[len(taken)-1])
			taken = taken[:len(taken)-1]
		}
		f()
	})
}

func limit(t testing.TB, resource int, to uint64, f func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(resource, &was); err != nil {
		t.Fatal(err)
	}
	if to > was.Max {
		t.Skipf("the limit is %d already", was.Max)
	}
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: to, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(resource, &was); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// OpenFiles returns the names of the process's open files that contain part, or all names if part is
// empty.
func OpenFiles(t testing.TB, part string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, e := range entries {
		// The descriptor of the list itself is closed by now, so Readlink fails for it.
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, part) {
			names = append(names, to)
		}
	}
	return names
}

// Mapped returns the number of mappings in the process of files with names that contain part.
func Mapped(t testing.TB, part string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, name, ok := strings.Cut(line, "/"); ok && strings.Contains("/"+name, part) || strings.Contains(line, "anon_inode:"+part) {
			n++
		}
	}
	return n
}
