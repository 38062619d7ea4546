package mmap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// canDrop says that dropPages does something.
const canDrop = true

// dropPages drops the pages of a file from the page cache, which is mapped at m. Pages that
// others have mapped, or that were not written to the drive yet, stay.
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

// threadFaults returns how many page faults of this thread have waited for a read so far. The
// kernel does not count one that a signal interrupted, such as Go's own to a thread that runs
// for long, and counts both of two threads that wait for one page.
func threadFaults() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u) // fails of a wrong argument alone
	return u.Majflt
}
