package dataset

import (
	"bufio"
	"errors"
	"fmt"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// writer fills a dataset directory, one data file after the other, each of them
// sequentially. What its journal names is durable, so that an interrupted run
// goes on behind it.
type writer struct {
	dir        *stage.Dir
	state      journal
	checkpoint int64 // bytes of features between two entries in the journal
}

// journal is what a resumed run needs to know.
type journal struct {
	Facts Facts        `json:"facts"` // as far as they are known
	Files []stage.File `json:"files"` // finished
	// Rows of features.bin are durable; RowsSum is the checksum of their bytes.
	Rows    int64  `json:"rows,omitempty"`
	RowsSum string `json:"rows_sum,omitempty"`
}

// begin opens the transaction for the dataset out. The writer is nil when the
// state is stage.StateDone.
func begin(fsys vfs.FS, out string, params any, force bool) (*writer, stage.State, error) {
	dir, state, err := stage.Begin(fsys, out, stage.Spec{Format: Format, Params: params}, force)
	if err != nil || state == stage.StateDone {
		return nil, state, err
	}
	w := &writer{dir: dir, checkpoint: checkpointEvery}
	if _, err := dir.Progress(&w.state); err != nil {
		return nil, state, errors.Join(err, dir.Close())
	}
	return w, state, nil
}

// close keeps what is durable for the next run.
func (w *writer) close() error { return w.dir.Close() }

// save journals all finished files.
func (w *writer) save() error { return w.dir.SaveProgress(&w.state) }

// has reports whether a data file was finished by an earlier run.
func (w *writer) has(names ...string) bool {
	for _, name := range names {
		if !slices.ContainsFunc(w.state.Files, func(f stage.File) bool { return f.Name == name }) {
			return false
		}
	}
	return true
}

// report says how the transaction began.
func (w *writer) report(rep progress.Reporter, state stage.State) {
	if note := w.dir.Note(); note != "" {
		rep.Logf("%s", note)
	}
	if state == stage.StateResumed {
		rep.Logf("resuming %s: %d files are finished", w.dir.Path(), len(w.state.Files)/2)
	}
}

// commit publishes the dataset and returns its fingerprint.
func (w *writer) commit(run any) (string, error) {
	f := &w.state.Facts
	f.LabelKind, f.Metric, f.NodeIDBytes = labelClass, metricChoice, nodeIDBytes
	if err := f.check(); err != nil {
		return "", fmt.Errorf("finish %s: %w", w.dir.Path(), err)
	}
	for _, file := range w.state.Files {
		if want := f.size(file.Name); want >= 0 && file.Size != want {
			return "", fmt.Errorf("finish %s: %s has %d bytes, its facts call for %d", w.dir.Path(), file.Name, file.Size, want)
		}
	}
	return w.dir.Commit(w.state.Files, f, run)
}

// checkSpace refuses work for which the disk has no room, before it begins.
// scratch is what is needed beside the dataset itself.
func (w *writer) checkSpace(scratch int64) error {
	f := &w.state.Facts
	need := f.total() + f.total()/Granule*4 + scratch
	for _, file := range w.state.Files {
		need -= file.Size
	}
	need -= w.state.Rows * int64(f.RowBytes())
	free, err := w.dir.FS().Free(w.dir.Path())
	if err != nil {
		return err
	}
	if need > free {
		return fault.New(fault.ErrBudget, "%s needs %s of disk, %s are free there", w.dir.Path(), budget.FormatBytes(need), budget.FormatBytes(free))
	}
	return nil
}

// baseMemory is what the program itself and a stage's files take: Go's runtime,
// write buffers, tables of checksums.
const baseMemory = 32 << 20

// writeBuffer gathers small writes into large ones.
const writeBuffer = 256 << 10

// syncEvery bounds the bytes that the kernel holds back, and with them the time
// that a sync, which nothing interrupts, can take.
const syncEvery = 512 << 20

// array is a data file being written.
type array struct {
	w        *writer
	name     string
	f        vfs.File
	buf      *bufio.Writer
	sum      *binio.Summer
	unsynced int64
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
	return &array{w: w, name: name, f: f, buf: bufio.NewWriterSize(f, writeBuffer), sum: binio.NewSummer(Granule)}
}

// Write appends to the file.
func (a *array) Write(p []byte) (int, error) {
	if _, err := a.sum.Write(p); err != nil {
		return 0, err
	}
	if _, err := a.buf.Write(p); err != nil {
		return 0, fmt.Errorf("write %s: %w", a.f.Name(), err)
	}
	if a.unsynced += int64(len(p)); a.unsynced >= syncEvery {
		return len(p), a.sync()
	}
	return len(p), nil
}

func (a *array) sync() error {
	a.unsynced = 0
	if err := a.buf.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", a.f.Name(), err)
	}
	if err := a.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", a.f.Name(), err)
	}
	return nil
}

// finish makes the file and its checksums durable and lists them; the caller
// saves the journal.
func (a *array) finish() error {
	if err := errors.Join(a.sync(), a.f.Close()); err != nil {
		return err
	}
	a.f = nil
	w, sums := a.w, a.sum.Sums()
	table := sums.Encode()
	name := w.dir.File(a.name + sumsSuffix)
	if err := vfs.WriteFile(w.dir.FS(), name, table); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	w.state.Files = append(w.state.Files,
		stage.File{Name: a.name, Size: sums.Size, Checksum: sums.Checksum()},
		stage.File{Name: a.name + sumsSuffix, Size: int64(len(table)), Checksum: binio.Hash(table)})
	return nil
}

// discard closes the file if finish did not; what it holds will be written again.
func (a *array) discard() error {
	if a.f == nil {
		return nil
	}
	return a.f.Close()
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
