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

// Writer writes a dataset directory. Every data file is written sequentially. A journal lists the
// durable content, so that a later run resumes after an interruption. Generate, Create and package
// importer use it. One goroutine uses a Writer, except that one may write the topology while another
// writes the features.
type Writer struct {
	dir        *stage.Dir
	mu         sync.Mutex // of state, while two goroutines write
	form       Form
	state      journal
	checkpoint int64 // bytes of features between two entries in the journal
	frames     int   // number of frames that are compressed at the same time; each takes FrameMemory
}

// journal is the state that a run needs to resume.
type journal struct {
	Facts Facts        `json:"facts"` // as far as they are known
	Files []stage.File `json:"files"` // finished
	// The features of the first Rows nodes are durable; RowsSum is the checksum of
	// the file so far, and Frames are the lengths of its frames if it is compressed.
	Rows    int64    `json:"rows,omitempty"`
	RowsSum string   `json:"rows_sum,omitempty"`
	Frames  []uint32 `json:"frames,omitempty"`
}

// Begin begins, resumes or finds finished the dataset out with the given content parameters; see
// stage.Begin. If the state is stage.StateDone, the Writer is nil. Files of an interrupted run are
// checked, and written again if they were changed. If params is nil, the caller must call Settle
// before it writes anything but scratch files. If Begin returns a Writer, the caller must call End.
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

// Agrees returns nil if Begin would accept the existing files of the directory out, and else the error
// that Begin would return: see stage.Agrees.
func Agrees(ctx context.Context, fsys vfs.FS, out string, params any, form Form, force bool) error {
	return stage.Agrees(fsys, out, specOf(ctx, fsys, params, form), force)
}

// Settle sets the content parameters, if Begin got none; see stage.Dir.Settle.
func (w *Writer) Settle(params any) error { return w.dir.Settle(params) }

// Watch makes every later Save, Settle and Commit call unchanged first, and fail with its error; see
// stage.Dir.Watch.
func (w *Writer) Watch(unchanged func() error) { w.dir.Watch(unchanged) }

// words returns the name of a content parameter, as the user gives it, and its value as text.
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

// Facts returns the facts that Commit will publish. The caller sets them as they become known; changes
// are durable after the next Save.
func (w *Writer) Facts() *Facts { return &w.state.Facts }

// SetFrames sets the number of frames of features that are compressed at the same time, by default 1;
// each takes FrameMemory bytes.
func (w *Writer) SetFrames(n int) { w.frames = n }

// Path returns the directory in which the dataset is being written.
func (w *Writer) Path() string { return w.dir.Path() }

// scratchSuffix is the suffix of scratch files in the directory, which are not part of the dataset. A
// run that resumes removes the scratch files of an interrupted run.
const scratchSuffix = ".scratch"

// Scratch returns the path of a scratch file of the caller, inside the directory. The caller removes
// the file before Commit; a run that resumes removes the scratch files of an interrupted run.
func (w *Writer) Scratch(name string) string { return w.dir.File(name + scratchSuffix) }

// End closes the directory and returns err, the error that ended the work, or nil; see stage.Dir.End.
// Durable content is kept for the next run.
func (w *Writer) End(err error) error { return w.dir.End(err) }

// Save writes the journal: files that are finished, and Facts, are kept by a later run.
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

// Has reports whether all the given data files are finished, by this run or an earlier one.
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

// ReadNumbers reads a finished data file of int64 and calls see for consecutive pieces of it, from
// number first on. It compares the checksum only at the end: after an error, see may have got wrong
// numbers.
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

// checksum returns the checksum of a finished file, or "".
func (w *Writer) checksum(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.state.Files, func(f stage.File) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return w.state.Files[i].Checksum
}

// Report logs that the run resumes an earlier one, if state says so.
func (w *Writer) Report(rep progress.Reporter, state stage.State) {
	if state == stage.StateResumed {
		rep.Logf("resuming %s: %d files are finished", w.dir.Path(), len(w.state.Files)/2)
	}
}

// Commit completes the facts and publishes the dataset, after all files are finished. run is the
// content of run.json.
func (w *Writer) Commit(run any) error {
	// Always the same order, independent of the order of finishing.
	slices.SortStableFunc(w.state.Files, func(a, b stage.File) int { return cmp.Compare(place(a.Name), place(b.Name)) })
	f := &w.state.Facts
	f.NodeIDBytes = nodeIDBytes
	if f.Types != nil {
		f.Needs = f.needs()
	}
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
