package trace

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Recording is a trace on its way to a file. The file is there when it is whole and durable,
// under another name before. It is for one goroutine.
type Recording struct {
	*Writer
	fsys vfs.FS
	name string
	file vfs.File
	lock io.Closer // of the file under its other name
}

// partial ends the name of a file that is not whole.
const partial = ".partial"

// CheckNew refuses the name of a file that is there, as an error of kind fault.ErrExists.
func CheckNew(fsys vfs.FS, name string) error {
	there, err := vfs.Exists(fsys, name)
	if err == nil && there {
		return fault.New(fault.ErrExists, "%s exists: a trace is written to a new file only", name)
	}
	return err
}

// Begin begins a trace in a file that does not exist, and makes its directories. Finish or Abandon
// must follow. A trace of that name which another process writes is an error of kind
// fault.ErrLocked.
func Begin(fsys vfs.FS, name string, h Header) (*Recording, error) {
	if err := vfs.MakeParents(fsys, name); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(name + partial)
	if err != nil {
		return nil, err
	}
	err = CheckNew(fsys, name)
	var f vfs.File
	if err == nil {
		f, err = fsys.Create(name + partial)
	}
	if err != nil {
		return nil, errors.Join(err, fsys.Remove(name+partial), lock.Close())
	}
	r := &Recording{fsys: fsys, name: name, file: f, lock: lock}
	if r.Writer, err = NewWriter(f, h); err != nil {
		return nil, r.Abandon(err)
	}
	return r, nil
}

// Finish ends the trace. After an error nothing is left of it.
func (r *Recording) Finish() error {
	err := r.Writer.Finish()
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		return r.Abandon(err)
	}
	temp := r.name + partial
	if err := r.file.Close(); err != nil {
		return r.failed(errors.Join(err, r.fsys.Remove(temp), r.lock.Close()))
	}
	if err := r.fsys.Rename(temp, r.name); err != nil {
		return r.failed(errors.Join(err, r.fsys.Remove(temp), r.lock.Close()))
	}
	if err := r.fsys.SyncDir(filepath.Dir(r.name)); err != nil {
		return r.failed(errors.Join(err, r.fsys.Remove(r.name), r.lock.Close()))
	}
	return r.failed(r.lock.Close())
}

// Abandon removes the trace. It returns why, joined with the errors of the removal.
func (r *Recording) Abandon(why error) error {
	return r.failed(errors.Join(why, r.file.Close(), r.fsys.Remove(r.name+partial), r.lock.Close()))
}

func (r *Recording) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write the trace %s: %w", r.name, err)
}

// Create writes a trace to a file that does not exist: write appends the batches.
func Create(fsys vfs.FS, name string, h Header, write func(*Writer) error) error {
	r, err := Begin(fsys, name, h)
	if err != nil {
		return err
	}
	if err := write(r.Writer); err != nil {
		return r.Abandon(err)
	}
	return r.Finish()
}
