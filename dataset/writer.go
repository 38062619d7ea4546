package dataset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Writer fills a dataset directory, one data file after the other, each of them sequentially. The
// content that its journal names is durable, so that an interrupted run goes on behind it. Its users
// are Generate, Create, and the importers of package importer. A Writer is used by one goroutine, but
// for the topology and the features, which two may write at a time.
type Writer struct {
	dir        *stage.Dir
	mu         sync.Mutex // of state, while two goroutines write
	form       Form
	state      journal
	checkpoint int64 // bytes of features between two entries in the journal
	frames     int   // of compressed features under way; each takes FrameMemory
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

// Begin opens the transaction for the dataset out. The Writer is nil when the state is stage.StateDone.
// The files of an interrupted run are checked, and changed files are made again. With params nil,
// nothing but scratch may be written before Settle.
func Begin(ctx context.Context, fsys vfs.FS, out string, params any, form Form, force bool, rep progress.Reporter) (*Writer, stage.State, error) {
	dir, state, err := stage.Begin(fsys, out, specOf(ctx, fsys, params, form), force)
	if err != nil || state == stage.StateDone {
		return nil, state, err
	}
	w := &Writer{dir: dir, form: form, checkpoint: checkpointEvery, frames: 1}
	if note := dir.Note(); note != "" {
		rep.Logf("%s", note)
	}
	if _, err = dir.Progress(&w.state); err == nil {
		err = w.keep(ctx, rep)
	}
	if err != nil {
		return nil, state, dir.End(err)
	}
	if form.Compressed {
		w.state.Facts.Compression = Zstd
	}
	return w, state, nil
}

func specOf(ctx context.Context, fsys vfs.FS, params any, form Form) stage.Spec {
	return stage.Spec{Format: form.Format(), Params: params, Words: words, Check: func(dir string, m *stage.Meta, look stage.Look) error {
		return Check(ctx, fsys, dir, m, look)
	}}
}

// Agrees returns the error by which Begin would refuse the existing files of the dataset out: see
// stage.Agrees.
func Agrees(ctx context.Context, fsys vfs.FS, out string, params any, form Form, force bool) error {
	return stage.Agrees(fsys, out, specOf(ctx, fsys, params, form), force)
}

// Settle gives the content parameters that Begin was not given; see stage.Dir.
func (w *Writer) Settle(params any) error { return w.dir.Settle(params) }

// Watch has every later Save, Settle and Commit call unchanged first: see stage.Dir.
func (w *Writer) Watch(unchanged func() error) { w.dir.Watch(unchanged) }

// words says how a user gives a content parameter.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "source":
		return "the kind of source", text
	case "generator", "importer":
		return "the version of the generator or importer", text
	case "content_sha256":
		return "the content of the source", fmt.Sprintf("%.12s", text)
	case "split_seed":
		return "--seed", text
	case "for":
		if text == "" {
			text = "not given"
		}
		return "--for", text
	case "reading":
		return "the choices within the source", text
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

// Facts returns the facts of the dataset known so far, to be completed by the caller: Commit publishes
// them. Changes are durable with the next Save.
func (w *Writer) Facts() *Facts { return &w.state.Facts }

// SetFrames says how many compressed features may be under way; each takes FrameMemory.
func (w *Writer) SetFrames(n int) { w.frames = n }

// Path returns the directory under way.
func (w *Writer) Path() string { return w.dir.Path() }

// scratchSuffix ends the names of files in the directory that are no part of the dataset:
// a resumed run removes what an interrupted one left of them.
const scratchSuffix = ".scratch"

// Scratch returns the path of a file of the caller's own, who removes it before Commit. The next run
// removes the files that an interrupted run leaves.
func (w *Writer) Scratch(name string) string { return w.dir.File(name + scratchSuffix) }

// End closes the transaction that err ended, and returns err: see stage.Dir. Durable content is kept
// for the next run.
func (w *Writer) End(err error) error { return w.dir.End(err) }

// Save journals all finished files.
func (w *Writer) Save() error { return w.update(func(*journal) {}) }

func (w *Writer) update(change func(*journal)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.state)
	return w.dir.SaveProgress(&w.state)
}

// place is where a file comes among a dataset's: in the order in which one goroutine writes them.
func place(name string) int {
	for i, group := range groups {
		if slices.ContainsFunc(group, func(n string) bool { return n == name || tableOf(n) == name }) {
			return i
		}
	}
	return len(groups)
}

// Has reports whether a data file was finished by an earlier run.
func (w *Writer) Has(names ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if !slices.ContainsFunc(w.state.Files, func(f stage.File) bool { return f.Name == name }) {
			return false
		}
	}
	return true
}

// ReadNumbers reads a finished file of int64 that an earlier run wrote, some at a time, and compares it
// with its checksum at the end: after an error, the numbers seen may differ from the written ones.
func (w *Writer) ReadNumbers(ctx context.Context, name string, see func(first int64, numbers []int64)) (err error) {
	f, err := w.dir.FS().Open(w.dir.File(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := w.state.Facts.size(name)
	buf, sum := make([]int64, writeBuffer/8), binio.NewSummer(Granule)
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		some := buf[:min(int64(len(buf)), (size-off)/8)]
		if err := readAt(f, binio.Bytes(some), off); err != nil {
			return err
		}
		_, _ = sum.Write(binio.Bytes(some)) // never fails
		see(off/8, some)
		off += 8 * int64(len(some))
	}
	if sums := sum.Sums(); sums.Checksum() != w.checksum(name) {
		return fault.New(fault.ErrCorrupt, "%s was changed after it was checked: run the command again", f.Name())
	}
	return nil
}

// checksum returns that of a finished file.
func (w *Writer) checksum(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.state.Files, func(f stage.File) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return w.state.Files[i].Checksum
}

// Report says how the transaction began.
func (w *Writer) Report(rep progress.Reporter, state stage.State) {
	if state == stage.StateResumed {
		rep.Logf("resuming %s: %d files are finished", w.dir.Path(), len(w.state.Files)/2)
	}
}

// Commit publishes the dataset.
func (w *Writer) Commit(run any) error {
	// In one order, whatever was finished first.
	slices.SortStableFunc(w.state.Files, func(a, b stage.File) int { return cmp.Compare(place(a.Name), place(b.Name)) })
	f := &w.state.Facts
	f.NodeIDBytes = nodeIDBytes
	switch {
	case !f.Labelled():
		f.Unlabelled = f.Nodes
	case f.MultiLabel():
		f.Metric = multiHotMetric
	default:
		f.LabelKind, f.Metric = labelClass, classMetric
	}
	if err := f.check(); err != nil {
		return fmt.Errorf("finish %s: %w", w.dir.Path(), err)
	}
	if form := f.form(); form != w.form {
		return fmt.Errorf("finish %s: the dataset has the form %+v, but it was begun with %+v", w.dir.Path(), form, w.form)
	}
	for _, file := range w.state.Files {
		if want := f.size(file.Name); want >= 0 && file.Size != want {
			return fmt.Errorf("finish %s: %s has %d bytes instead of the %d that its facts call for", w.dir.Path(), file.Name, file.Size, want)
		}
	}
	_, err := w.dir.Commit(w.state.Files, f, run)
	return err
}
