package dataset

import (
	"errors"
	"fmt"
	"slices"

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
	frames     int   // of compressed features under way; each takes frameMemory
}

// journal is what a resumed run needs to know.
type journal struct {
	Facts Facts        `json:"facts"` // as far as they are known
	Files []stage.File `json:"files"` // finished
	// The features of the first Rows nodes are durable; RowsSum is the checksum of
	// the file so far, and Frames are the lengths of its frames if it is compressed.
	Rows    int64    `json:"rows,omitempty"`
	RowsSum string   `json:"rows_sum,omitempty"`
	Frames  []uint32 `json:"frames,omitempty"`
}

// begin opens the transaction for the dataset out. The writer is nil when the
// state is stage.StateDone.
func begin(fsys vfs.FS, out string, params any, compress, force bool) (*writer, stage.State, error) {
	format := Format
	if compress {
		format = CompressedFormat
	}
	dir, state, err := stage.Begin(fsys, out, stage.Spec{Format: format, Params: params}, force)
	if err != nil || state == stage.StateDone {
		return nil, state, err
	}
	w := &writer{dir: dir, checkpoint: checkpointEvery, frames: 1}
	if _, err := dir.Progress(&w.state); err != nil {
		return nil, state, errors.Join(err, dir.Close())
	}
	if compress {
		w.state.Facts.Compression = zstdFrames
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
	f.NodeIDBytes = nodeIDBytes
	if f.LabelKind, f.Metric = labelKind(f.MultiLabel()), classMetric; f.MultiLabel() {
		f.Metric = multiHotMetric
	}
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
	need := f.total() + f.total()/Granule*8 + scratch
	for _, file := range w.state.Files {
		need -= max(file.Size, f.most(file.Name))
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
