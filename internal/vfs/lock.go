package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"

	"diskgnn/internal/fault"
)

// lockTries is the most attempts to take a lock. An attempt fails if the lock file vanishes meanwhile,
// because another process has finished.
const lockTries = 100

// lock implements FS.Lock. It calls taken after it has taken a lock and before it checks that the file
// still has its name; tests use it.
//
// A process that finishes a directory removes its lock file, or renames it with the directory, and
// releases the lock after that. Another process may have opened the file before. It then gets the lock of
// a file that has lost its name, while a third process locks a new file of that name. So a lock counts
// only if the name still leads to its file.
//
// A lock file may be renamed with its directory, so it has the permissions of other files.
func lock(name string, taken func()) (io.Closer, error) {
	// Opening a pipe for reading alone would wait for a writer.
	// A symbolic link may lead to another user's file, which an output would then replace.
	return hold(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, (*flock.Flock).TryLock, taken)
}

// Share takes a shared advisory lock on an existing file of the operating system. Other processes may
// share it; Lock fails while it is shared, and Share fails while it is locked. The file must be readable.
func Share(name string) (io.Closer, error) {
	return hold(name, os.O_RDONLY|syscall.O_NONBLOCK, (*flock.Flock).TryRLock, func() {})
}

// hold takes a lock by try; see lock.
func hold(name string, flags int, try func(*flock.Flock) (bool, error), taken func()) (io.Closer, error) {
	for range lockTries {
		l := flock.New(name, flock.SetFlag(flags), flock.SetPermissions(0o666))
		ok, err := try(l)
		if errors.Is(err, syscall.ELOOP) {
			return nil, fault.New(fault.ErrUsage, "%s is a symbolic link: remove it", name)
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if !ok {
			return nil, errLocked(name)
		}
		taken()
		named, err := leadsTo(name, l)
		if named {
			return l, nil
		}
		if err := errors.Join(err, l.Close()); err != nil {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
	}
	return nil, errLocked(name)
}

func errLocked(name string) error {
	return fault.New(fault.ErrLocked, "another process works on %s (it holds %s)", filepath.Dir(name), name)
}

// leadsTo reports whether a name leads to the locked file.
func leadsTo(name string, l *flock.Flock) (bool, error) {
	locked, err := l.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(locked, named), err
}
