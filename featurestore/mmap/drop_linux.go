package mmap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// canDrop reports whether dropPages drops pages on this system.
const canDrop = true

// dropPages drops the pages of a file from the page cache. m is the mapping of the file. Pages that other
// processes have mapped, or that were not written to the drive yet, stay.
func dropPages(f *os.File, m []byte) error {
	// The page cache keeps pages that are mapped, and unmapping them keeps them cached.
	err := unix.Madvise(m, unix.MADV_DONTNEED)
	if err == nil {
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err != nil {
		return fmt.Errorf("drop the pages of %s from the page cache: %w", f.Name(), err)
	}
	return nil
}

// threadFaults returns the number of page faults of this thread so far that waited for a read. The kernel
// does not count a fault that a signal interrupted, such as a signal of Go's scheduler. If two threads
// wait for one page, it counts both.
func threadFaults() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u) // fails only for a wrong argument
	return u.Majflt
}
