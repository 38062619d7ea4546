package dataset

import (
	"bufio"
	"errors"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// writeBuffer gathers small writes into large ones.
const writeBuffer = 256 << 10

// syncEvery bounds the bytes that the kernel holds back, and with them the time
// that a sync, which nothing interrupts, can take.
const syncEvery = 512 << 20

// output is a file being written.
type output struct {
	f        vfs.File
	buf      *bufio.Writer
	unsynced int64
}

func newOutput(f vfs.File) output { return output{f: f, buf: bufio.NewWriterSize(f, writeBuffer)} }

// append adds to the file.
func (o *output) append(p []byte) error {
	if _, err := o.buf.Write(p); err != nil {
		return fmt.Errorf("write %s: %w", o.f.Name(), err)
	}
	if o.unsynced += int64(len(p)); o.unsynced >= syncEvery {
		return o.sync()
	}
	return nil
}

func (o *output) sync() error {
	o.unsynced = 0
	if err := o.buf.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", o.f.Name(), err)
	}
	if err := o.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", o.f.Name(), err)
	}
	return nil
}

// close makes the file durable.
func (o *output) close() error {
	if err := errors.Join(o.sync(), o.f.Close()); err != nil {
		return err
	}
	o.f = nil
	return nil
}

// discard closes the file if close did not; what it holds will be written again.
func (o *output) discard() error {
	if o.f == nil {
		return nil
	}
	return o.f.Close()
}

// array is a data file being written as it is, and summed.
type array struct {
	output
	w    *writer
	name string
	sum  *binio.Summer
}

// create starts a data file.
func (w *writer) create(name string) (*array, error) {
	f, err := w.dir.FS().Create(w.dir.File(name))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", w.dir.File(name), err)
	}
	return w.array(name, f), nil
}

func (w *writer) array(name string, f vfs.File) *array {
	return &array{output: newOutput(f), w: w, name: name, sum: binio.NewSummer(Granule)}
}

// Write appends to the file.
func (a *array) Write(p []byte) (int, error) {
	if _, err := a.sum.Write(p); err != nil {
		return 0, err
	}
	if err := a.append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// finish makes the file and its checksums durable and lists them; the caller
// saves the journal.
func (a *array) finish() error {
	if err := a.close(); err != nil {
		return err
	}
	sums := a.sum.Sums()
	return a.w.list(stage.File{Name: a.name, Size: sums.Size, Checksum: sums.Checksum()}, sums.Encode())
}

// list writes the table that covers a data file, and lists both as finished.
func (w *writer) list(file stage.File, table []byte) error {
	name := tableOf(file.Name)
	if err := vfs.WriteFile(w.dir.FS(), w.dir.File(name), table); err != nil {
		return fmt.Errorf("write %s: %w", w.dir.File(name), err)
	}
	w.state.Files = append(w.state.Files, file, stage.File{Name: name, Size: int64(len(table)), Checksum: binio.Hash(table)})
	return nil
}

// write writes a whole data file from memory.
func (w *writer) write(name string, content []byte) (err error) {
	a, err := w.create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.discard()) }()
	if _, err := a.Write(content); err != nil {
		return err
	}
	return a.finish()
}
