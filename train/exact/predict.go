package exact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/score"
)

// Prediction describes the written file, with the time and the reads that it took.
type Prediction struct {
	Out     string `json:"out"`
	Output  string `json:"output"`
	DType   string `json:"dtype"`
	Rows    int64  `json:"rows"`
	Columns int    `json:"columns"`
	// OriginalIDs is the kind of the rows' ids, if the dataset has original ids: see dataset.Facts.
	OriginalIDs string `json:"original_ids,omitempty"`
	IDs         string `json:"ids,omitempty"` // the file of ids beside an array
	// Lineage is the content of LineageFile.
	Lineage     *Lineage `json:"lineage"`
	LineageFile string   `json:"lineage_file"`

	score.Outcome
}

// Predict writes a row for every node, or for the nodes of a split or a list, in node order. The
// file appears only when it is complete.
func Predict(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter) (Prediction, error) {
	return predict(ctx, fsys, o, rep, parts{stack: all.Open})
}

func predict(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter, p parts) (Prediction, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Prediction{}, err
	}
	c, err := o.claim(fsys)
	if err != nil {
		return Prediction{}, err
	}
	j := &job{fs: fsys, options: o.Options, report: rep, parts: p}
	var result Prediction
	err = j.do(ctx, func(ctx context.Context) (err error) {
		result, err = j.predict(ctx, &o, c)
		return err
	})
	if err := errors.Join(err, c.close()); err != nil {
		return Prediction{}, err
	}
	result.PeakAnonBytes, result.PeakRSSBytes = j.watch.Stop()
	result.Seconds = time.Since(j.began).Seconds()
	return result, nil
}

// checkOut refuses an output that exists or cannot be made, and makes its parent directory.
func (o *PredictOptions) checkOut(fsys vfs.FS) error {
	if err := vfs.MakeParents(fsys, o.Out); err != nil {
		return err
	}
	return o.Agrees(fsys)
}

// Agrees returns the error with which Predict would refuse an existing output. It changes nothing.
func (o *PredictOptions) Agrees(fsys vfs.FS) error {
	ok, err := vfs.Exists(fsys, o.Out)
	if err != nil || !ok {
		return err
	}
	if st, err := fsys.Stat(o.Out); err != nil || !st.Mode().IsRegular() {
		return fault.New(fault.ErrExists, "%s exists and is not a file", o.Out)
	}
	if !o.Force {
		return fault.New(fault.ErrExists, "%s exists; --force replaces it", o.Out)
	}
	return vfs.CheckRenameable(o.Out)
}

// claim is the right to make an output: the lock of the file that becomes it.
type claim struct {
	fs   vfs.FS
	temp string
	lock io.Closer
	used bool // a sink has begun the file, and gives it its name or removes it
}

// claim claims the output, if checkOut permits it. If another process makes it, the error is of
// kind fault.ErrLocked.
func (o *PredictOptions) claim(fsys vfs.FS) (*claim, error) {
	if err := o.checkOut(fsys); err != nil {
		return nil, err
	}
	c := &claim{fs: fsys, temp: o.Out + vfs.TempSuffix}
	var err error
	switch c.lock, err = fsys.Lock(c.temp); {
	case errors.Is(err, fault.ErrLocked):
		return nil, fault.New(fault.ErrLocked, "another process is writing %s (it holds %s)", o.Out, c.temp)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("--out %s: %w: name a directory that you may write to", o.Out, err)
	case err != nil:
		return nil, fmt.Errorf("write %s: %w", o.Out, err)
	}
	// Another process may have made it before the lock.
	if err := o.checkOut(fsys); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// close gives the claim up, and removes the file that nothing was written to.
func (c *claim) close() (err error) {
	if !c.used {
		err = c.fs.Remove(c.temp)
	}
	return errors.Join(err, c.lock.Close())
}

// asked is the nodes and values of a prediction.
type asked struct {
	targets
	values
}

// ask finds the nodes and the values that the options name, and calls prepare, which may be decide.
// The caller closes the result.
func (j *job) ask(ctx context.Context, o *PredictOptions, prepare preparing) (_ *asked, err error) {
	f := j.data.Facts()
	a := &asked{targets: targets{nodes: f.Nodes}}
	own := f.OriginalIDs
	switch {
	case o.Nodes == AllNodes:
	case slices.Contains(splits, o.Nodes):
		a.ids, err = j.data.Split(o.Nodes)
	case own != "":
		a.ids, err = findNodes(ctx, j.fs, o.Nodes, j.data)
	default:
		a.ids, err = readNodes(j.fs, o.Nodes, f.Nodes)
	}
	if err != nil {
		return nil, err
	}
	last := j.model.Layers() - 1
	if o.Output == Embeddings {
		if last--; last < 0 {
			return nil, fault.New(fault.ErrUsage, "--output embeddings: %s has no hidden layer", o.Run)
		}
	}
	a.values = values{kind: o.Output, multi: j.multiLabel(), width: j.model.Out(last), columns: j.model.Out(last)}
	if o.Output == Classes && !a.multi {
		a.columns = 1
	}
	if err := j.checkRoom(o.Out, &a.values, int64(a.len())); err != nil {
		return nil, err
	}
	if own != "" {
		if a.own, err = j.data.IDs(); err != nil {
			return nil, err
		}
		a.named = own == dataset.IDNames
	}
	if err := prepare(ctx, last, a.targets, 4*int64(len(a.ids))+sinkBytes(o.Out, a.columns)+idsBytes(own)); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *asked) close() error {
	if a.own == nil {
		return nil
	}
	return a.own.Close()
}

// predict computes and writes the values of the options.
func (j *job) predict(ctx context.Context, o *PredictOptions, c *claim) (_ Prediction, err error) {
	a, err := j.ask(ctx, o, j.prepare)
	if err != nil {
		return Prediction{}, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	t, v := &a.targets, a.values
	p := Prediction{Out: o.Out, Output: o.Output, OriginalIDs: j.data.Facts().OriginalIDs, DType: v.dtype(), Rows: int64(t.len()), Columns: v.columns,
		Lineage: j.lineage(o), LineageFile: lineageFile(o.Out)}
	c.used = true
	out, err := newSink(j.fs, o.Out, v, t)
	if err != nil {
		return Prediction{}, fmt.Errorf("write %s: %w", o.Out, err)
	}
	out.beside(func(sum string, size int64) error { return p.Lineage.write(j.fs, o.Out, sum, size) })
	err = j.compute(ctx, func(ctx context.Context, first int, y []float32) error {
		if err := out.add(ctx, first, y); err != nil {
			return fmt.Errorf("write %s: %w", o.Out, err)
		}
		return nil
	})
	if err != nil {
		return Prediction{}, errors.Join(err, out.abandon())
	}
	if err := out.finish(); err != nil {
		return Prediction{}, fmt.Errorf("write %s: %w", o.Out, err)
	}
	p.Outcome = j.outcome()
	if filepath.Ext(o.Out) == suffixNPY {
		p.IDs = t.idsFile(o.Out)
	}
	return p, nil
}

// checkRoom refuses an array that its disk has no room for, before it is computed. The size of
// tables is not known.
func (j *job) checkRoom(out string, v *values, rows int64) error {
	if filepath.Ext(out) != suffixNPY {
		return nil
	}
	size := rows * int64(v.columns)
	if v.dtype() != "uint8" {
		size *= 4
	}
	dir, err := vfs.Nearest(j.fs, out)
	if err != nil {
		return err
	}
	free, err := j.fs.Free(dir)
	if err == nil && free < size {
		err = fault.New(fault.ErrBudget, "--out %s takes %s, but %s has %s free: name another place", out, budget.FormatBytes(size), dir, budget.FormatBytes(free))
	}
	return err
}

// idsBytes returns the bytes held to read original ids.
func idsBytes(kind string) int64 {
	if kind == "" {
		return 0
	}
	return 2*dataset.Granule + dataset.MaxName
}

// lineageFormat is the format of Lineage.
var lineageFormat = stage.Format{Name: "diskgnn.prediction", Version: 1}

// lineageSuffix follows the name of the file of a prediction.
const lineageSuffix = ".lineage.json"

// Lineage names the sources of a prediction, and its bytes. It is the one JSON object of
// NAME.npy.lineage.json beside NAME.npy, and likewise for other suffixes. The file gets its name
// before the prediction does, so that no prediction lacks it. It has no path and no time: equal
// predictions have equal files. Only people and scripts read it; keys may be added.
type Lineage struct {
	Format stage.Format `json:"format"`
	// File is the prediction's name, without its directory, SHA256 its hash and Bytes its size.
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Nodes names the selection of rows: all, a split, or list for the nodes of a file.
	Nodes string `json:"nodes"`
	// Weights are best or final, and WeightsSHA256 is the hash of their file. Checked says that
	// this file, and the model in run.json, matched checksums.
	Weights       string `json:"weights"`
	WeightsSHA256 string `json:"weights_sha256"`
	Checked       bool   `json:"checked"`
	// Dataset is the fingerprint of the predicted graph, and TrainedOn of the run's graph.
	Dataset   string `json:"dataset"`
	TrainedOn string `json:"trained_on"`
	// BLAS names the library, on which the last bits depend.
	BLAS string `json:"blas"`
}

// lineageFile returns the name of a prediction's file of lineage.
func lineageFile(out string) string { return out + lineageSuffix }

// lineage returns the prediction's lineage, without its bytes.
func (j *job) lineage(o *PredictOptions) *Lineage {
	l := &Lineage{Format: lineageFormat, File: filepath.Base(o.Out), Nodes: o.Nodes, Weights: o.Weights, WeightsSHA256: j.run.WeightsSum(),
		Checked: j.run.Note() == "", Dataset: j.data.Fingerprint(), TrainedOn: j.run.Dataset()}
	if o.Nodes != AllNodes && !slices.Contains(splits, o.Nodes) {
		l.Nodes = "list"
	}
	l.BLAS = j.engine.Info().BLAS
	return l
}

// write writes the file durably, for a prediction of bytes bytes with the hash sum.
func (l *Lineage) write(fsys vfs.FS, out, sum string, bytes int64) error {
	l.SHA256, l.Bytes = sum, bytes
	b, err := json.MarshalIndent(l, "", "  ")
	if err == nil {
		err = vfs.ReplaceFile(fsys, lineageFile(out), append(b, '\n'))
	}
	if err != nil {
		_ = fsys.Remove(lineageFile(out) + vfs.TempSuffix) // if it is there
		return fmt.Errorf("write %s: %w", lineageFile(out), err)
	}
	return nil
}
