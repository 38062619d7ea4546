package trace

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Recording writes a trace to a file. Until Finish, the file has another name; after Finish it is complete
// and durable. It belongs to one goroutine.
type Recording struct {
	*Writer
	fsys vfs.FS
	name string
	file vfs.File
	lock io.Closer // of the file with its temporary name
}

// partial is the suffix of a file's name until Finish.
const partial = ".partial"

// CheckNew returns an error of kind fault.ErrExists if the file exists.
func CheckNew(fsys vfs.FS, name string) error {
	there, err := vfs.Exists(fsys, name)
	if err == nil && there {
		return fault.New(fault.ErrExists, "%s exists: a trace is written to a new file only", name)
	}
	return err
}

// Begin begins a trace in a new file, and makes its directories. Call Finish or Abandon afterwards. If the
// file exists, the error is of kind fault.ErrExists; if another process is writing it, of kind
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

// Finish ends the trace. After an error no file is left.
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

// Abandon removes the trace. It returns the error why, joined with errors of the removal.
func (r *Recording) Abandon(why error) error {
	return r.failed(errors.Join(why, r.file.Close(), r.fsys.Remove(r.name+partial), r.lock.Close()))
}

func (r *Recording) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write the trace %s: %w", r.name, err)
}

// Create writes a trace to a new file; write appends the batches.
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
