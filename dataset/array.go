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

// Array writes one data file sequentially and computes its checksums. Call Write for the content, then
// Finish.
type Array struct {
	output
	w    *Writer
	name string
	sum  *binio.Summer
}

// Create creates the data file of the given name and returns its writer. Until Finish, the file does
// not count as written: an interrupted run writes it again.
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

// Finish syncs the file, writes and syncs its table of checksums, and records both as finished. They
// are kept by a later run only after the next Writer.Save or Commit.
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

// Write writes a whole data file with the given content, like Create, Write and Finish.
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

// TopologyWriter writes the files indptr.bin and indices.bin, node by node. Call Append for all nodes
// in ascending order, then Finish; Discard closes the files if Finish was not called.
type TopologyWriter struct {
	w               *Writer
	indptr, indices *Array
	edges           int64
	offsets         []int64 // of the nodes of one call to append
}

// StartTopology creates indptr.bin and indices.bin and returns their writer.
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

// Append writes the next nodes: degrees has the in-degree of each, and indices the in-neighbours of
// all of them, node by node, ascending within a node.
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

// Finish syncs both files, sets Facts.Edges and saves the journal.
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
