package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"diskgnn/internal/fault"
)

// Destination returns the name that an output is to be written under: name itself or, where that
// is a symbolic link, what it leads to. Outputs are made under another name beside theirs and
// renamed, which would replace the link and leave its target as it was. A link that leads to
// nothing is an error of kind fault.ErrUsage.
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
