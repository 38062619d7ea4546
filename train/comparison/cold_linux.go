package comparison

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// uncache drops a file's clean pages from the page cache.
func uncache(name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop %s from the page cache: %w", name, err)
	}
	return nil
}
