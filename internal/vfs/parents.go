package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// CheckParents returns an error of kind fault.ErrUsage if a parent directory of name cannot be made,
// because a file has its name. It makes nothing. Commands call it before long work.
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

// CheckWritable returns an error if permissions or the mount forbid making a file in a directory of the
// operating system. It makes nothing.
func CheckWritable(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

func noDirectory(name, parent string) error {
	return fault.New(fault.ErrUsage, "cannot write %s: %s is no directory", name, parent)
}

// MakeParents makes the missing parent directories of name, and makes their names durable. A file in
// the place of a directory is an error of kind fault.ErrUsage.
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

// Destination returns the name under which an output is written: name itself or, if it is a symbolic
// link, its target. (Outputs are made under a temporary name and renamed, which would replace the link
// and leave its target unchanged.) A link without a target is an error of kind fault.ErrUsage.
func Destination(name string) (string, error) {
	link := filepath.Clean(name)
	st, err := os.Lstat(link)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return name, nil // other errors occur again when the output is made
	}
	to, err := filepath.EvalSymlinks(link)
	if err == nil {
		return to, nil
	}
	if to, lerr := os.Readlink(link); lerr == nil && errors.Is(err, fs.ErrNotExist) {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(link), to)
		}
		return "", fault.New(fault.ErrUsage, "%s is a symbolic link to %s, which is not there: name that in place of the link, or remove the link", name, to)
	}
	return "", fault.New(fault.ErrUsage, "%s is a symbolic link that leads nowhere: %v", name, err)
}

// CheckRenameable returns an error of kind fault.ErrUsage if name is a mount point, which cannot be
// replaced by renaming.
func CheckRenameable(name string) error {
	if mounted(name) {
		return fault.New(fault.ErrUsage, "%s is a mount point, which cannot be replaced: name something in it or beside it", name)
	}
	return nil
}
