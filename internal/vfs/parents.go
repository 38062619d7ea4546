package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"

	"diskgnn/internal/fault"
)

// MakeParents makes the directories above name that are not there, each as durable as the
// one that it is in. Where it cannot, the error is one of usage: the name was given.
func MakeParents(fsys FS, name string) error {
	parent := filepath.Dir(filepath.Clean(name))
	st, err := fsys.Stat(parent)
	switch {
	case err == nil && !st.IsDir():
		return fault.New(fault.ErrUsage, "cannot write %s: %s is no directory", name, parent)
	case errors.Is(err, fs.ErrNotExist):
		if err = MakeParents(fsys, parent); err != nil {
			return err
		}
		if err = fsys.MkdirAll(parent); err == nil {
			return fsys.SyncDir(filepath.Dir(parent))
		}
	}
	if err != nil {
		return fault.New(fault.ErrUsage, "cannot write %s: %w", name, err)
	}
	return nil
}
