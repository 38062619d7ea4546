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

func (o *output) close() error {
	err := errors.Join(o.sync(), o.f.Close())
	o.f = nil
	return err
}

// Discard closes the file if close did not; its content will be written again.
func (o *output) Discard() error {
	if o.f == nil {
		return nil
	}
	return o.f.Close()
}

// Array is a data file being written as it is, and summed.
type Array struct {
	output
	w    *Writer
	name string
	sum  *binio.Summer
}

// Create starts a data file.
func (w *Writer) Create(name string) (*Array, error) {
	f, err := w.dir.FS().Create(w.dir.File(name))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", w.dir.File(name), err)
	}
	return w.array(name, f), nil
}

func (w *Writer) array(name string, f vfs.File) *Array {
	return &Array{output: newOutput(f), w: w, name: name, sum: binio.NewSummer(Granule)}
}

// Write appends to the file.
func (a *Array) Write(p []byte) (int, error) {
	if _, err := a.sum.Write(p); err != nil {
		return 0, err
	}
	if err := a.append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Finish makes the file and its checksums durable and lists them; the caller
// saves the journal.
func (a *Array) Finish() error {
	if err := a.close(); err != nil {
		return err
	}
	sums := a.sum.Sums()
	return a.w.list(stage.File{Name: a.name, Size: sums.Size, Checksum: sums.Checksum()}, sums.Encode())
}

// list writes the table that covers a data file, and lists both as finished.
func (w *Writer) list(file stage.File, table []byte) error {
	name := tableOf(file.Name)
	if err := vfs.WriteFile(w.dir.FS(), w.dir.File(name), table); err != nil {
		return fmt.Errorf("write %s: %w", w.dir.File(name), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget([]string{file.Name}) // an interrupted run may have finished one of two that go together
	w.state.Files = append(w.state.Files, file, stage.File{Name: name, Size: int64(len(table)), Checksum: binio.Hash(table)})
	return nil
}

// Write writes a whole data file from memory.
func (w *Writer) Write(name string, content []byte) (err error) {
	a, err := w.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Discard()) }()
	if _, err := a.Write(content); err != nil {
		return err
	}
	return a.Finish()
}

// TopologyWriter writes indptr and indices, node after node.
type TopologyWriter struct {
	w               *Writer
	indptr, indices *Array
	edges           int64
	offsets         []int64 // of the nodes of one call to append
}

// StartTopology starts both files.
func (w *Writer) StartTopology() (*TopologyWriter, error) {
	t := &TopologyWriter{w: w}
	var err error
	if t.indptr, err = w.Create(IndptrFile); err != nil {
		return nil, err
	}
	if t.indices, err = w.Create(IndicesFile); err != nil {
		return nil, errors.Join(err, t.indptr.Discard())
	}
	if _, err := t.indptr.Write(binio.Bytes([]int64{0})); err != nil {
		return nil, errors.Join(err, t.Discard())
	}
	return t, nil
}

// Append adds the next nodes: their degrees, and their in-neighbours one after
// the other, ascending for each node.
func (t *TopologyWriter) Append(degrees, indices []uint32) error {
	t.offsets = binio.Grow(t.offsets, len(degrees))
	for i, n := range degrees {
		t.edges += int64(n)
		t.offsets[i] = t.edges
	}
	if _, err := t.indptr.Write(binio.Bytes(t.offsets)); err != nil {
		return err
	}
	_, err := t.indices.Write(binio.Bytes(indices))
	return err
}

// Finish makes both files durable and journals them.
func (t *TopologyWriter) Finish() error {
	if err := t.indptr.Finish(); err != nil {
		return err
	}
	if err := t.indices.Finish(); err != nil {
		return err
	}
	return t.w.update(func(s *journal) { s.Facts.Edges = t.edges })
}

func (t *TopologyWriter) Discard() error { return errors.Join(t.indptr.Discard(), t.indices.Discard()) }
