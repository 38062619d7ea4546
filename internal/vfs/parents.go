package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// CheckParents returns the error of kind fault.ErrUsage that MakeParents would return because a
// file is in the place of a directory, and makes nothing: for what is written after long work.
func CheckParents(fsys FS, name string) error {
	parent := filepath.Dir(filepath.Clean(name))
	st, err := fsys.Stat(parent)
	switch {
	case err == nil && !st.IsDir():
		return noDirectory(name, parent)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return CheckParents(fsys, parent)
	}
	return err
}

// CheckWritable returns the error of making a file in a directory of the operating system's, as far
// as permissions and the mount say it, and makes nothing.
func CheckWritable(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

func noDirectory(name, parent string) error {
	return fault.New(fault.ErrUsage, "cannot write %s: %s is no directory", name, parent)
}

// MakeParents makes the directories above name that are not there, each as durable as the
// one that it is in. A file in their place is an error of usage.
func MakeParents(fsys FS, name string) error {
	parent := filepath.Dir(filepath.Clean(name))
	st, err := fsys.Stat(parent)
	switch {
	case err == nil && !st.IsDir():
		return noDirectory(name, parent)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		if err = MakeParents(fsys, parent); err != nil {
			return err
		}
		if err = fsys.MkdirAll(parent); err == nil {
			return fsys.SyncDir(filepath.Dir(parent))
		}
	}
	if err != nil {
		return fmt.Errorf("make the directory of %s: %w", name, err)
	}
	return nil
}
