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

// CheckParents returns the error of kind fault.ErrUsage that MakeParents would return because a file
// is in the place of a directory, and makes nothing: for outputs that are written after long work.
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

// Destination returns the name that an output is to be written under: name itself or, where that is
// a symbolic link, its target. Outputs are made under another name beside theirs and renamed, which
// would replace the link and leave its target as it was. A link that leads to nothing is an error of
// kind fault.ErrUsage.
func Destination(name string) (string, error) {
	link := filepath.Clean(name)
	st, err := os.Lstat(link)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return name, nil // its maker finds other errors
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

// CheckRenameable refuses a name that is a mount point, onto which nothing can be renamed, by an
// error of kind fault.ErrUsage.
func CheckRenameable(name string) error {
	if mounted(name) {
		return fault.New(fault.ErrUsage, "%s is a mount point, which cannot be replaced: name something in it or beside it", name)
	}
	return nil
}
