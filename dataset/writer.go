package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
// state is stage.StateDone. What an interrupted run left is checked, and what is not
// what it was is forgotten.
func begin(ctx context.Context, fsys vfs.FS, out string, params any, compress, force bool, rep progress.Reporter) (*writer, stage.State, error) {
	format := Format
	if compress {
		format = CompressedFormat
	}
	spec := stage.Spec{Format: format, Params: params, Words: words, Check: func(dir string, m *stage.Meta, look stage.Look) error {
		return Check(ctx, fsys, dir, m, look)
	}}
	dir, state, err := stage.Begin(fsys, out, spec, force)
	if err != nil || state == stage.StateDone {
		return nil, state, err
	}
	w := &writer{dir: dir, checkpoint: checkpointEvery, frames: 1}
	if note := dir.Note(); note != "" {
		rep.Logf("%s", note)
	}
	if _, err = dir.Progress(&w.state); err == nil {
		err = w.keep(ctx, rep)
	}
	if err != nil {
		return nil, state, errors.Join(err, dir.Close())
	}
	if compress {
		w.state.Facts.Compression = zstdFrames
	}
	return w, state, nil
}

// words says how a user gives a content parameter.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "source":
		return "what made it", text
	case "generator", "importer":
		return "the version of what made it", text
	case "content_sha256":
		return "the content of the source", fmt.Sprintf("%.12s", text)
	case "compression":
		return "--compress", given(len(value) > 0)
	case "train":
		return "--train-ratio", "for " + text + " nodes"
	case "valid", "test":
		return "", "" // follow from the nodes to train on
	}
	return name, text
}

func given(yes bool) string {
	if yes {
		return "given"
	}
	return "not given"
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
	if state == stage.StateResumed {
		rep.Logf("resuming %s: %d files are finished", w.dir.Path(), len(w.state.Files)/2)
	}
}

// commit publishes the dataset.
func (w *writer) commit(run any) error {
	f := &w.state.Facts
	f.NodeIDBytes = nodeIDBytes
	if f.LabelKind, f.Metric = labelKind(f.MultiLabel()), classMetric; f.MultiLabel() {
		f.Metric = multiHotMetric
	}
	if err := f.check(); err != nil {
		return fmt.Errorf("finish %s: %w", w.dir.Path(), err)
	}
	for _, file := range w.state.Files {
		if want := f.size(file.Name); want >= 0 && file.Size != want {
			return fmt.Errorf("finish %s: %s has %d bytes, its facts call for %d", w.dir.Path(), file.Name, file.Size, want)
		}
	}
	_, err := w.dir.Commit(w.state.Files, f, run)
	return err
}
