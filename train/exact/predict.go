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

// Prediction is what was written, and what it took.
type Prediction struct {
	Out     string `json:"out"`
	Output  string `json:"output"`
	DType   string `json:"dtype"`
	Rows    int64  `json:"rows"`
	Columns int    `json:"columns"`
	// OriginalIDs says which ids the rows have, if nodes have ids of their own: see dataset.Facts.
	OriginalIDs string `json:"original_ids,omitempty"`
	IDs         string `json:"ids,omitempty"` // the file of ids beside an array
	// Lineage is what LineageFile holds.
	Lineage     *Lineage `json:"lineage"`
	LineageFile string   `json:"lineage_file"`

	score.Outcome
}

// Predict writes a row for every node, or every one of a split or a list, in node order.
// The file is there when it is complete, or not at all.
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

// checkOut refuses an output that exists, or that cannot be, and makes the directory that it
// will be in.
func (o *PredictOptions) checkOut(fsys vfs.FS) error {
	if err := vfs.MakeParents(fsys, o.Out); err != nil {
		return err
	}
	return o.Agrees(fsys)
}

// Agrees returns the error by which Predict would refuse what is there of its output. It changes
// nothing.
func (o *PredictOptions) Agrees(fsys vfs.FS) error {
	ok, err := vfs.Exists(fsys, o.Out)
	if err != nil || !ok {
		return err
	}
	if st, err := fsys.Stat(o.Out); err != nil || !st.Mode().IsRegular() {
		return fault.New(fault.ErrExists, "%s exists and is no file", o.Out)
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

// claim claims the output, which checkOut allows. One that another process makes is an error of kind
// fault.ErrLocked.
func (o *PredictOptions) claim(fsys vfs.FS) (*claim, error) {
	if err := o.checkOut(fsys); err != nil {
		return nil, err
	}
	c := &claim{fs: fsys, temp: o.Out + vfs.TempSuffix}
	var err error
	switch c.lock, err = fsys.Lock(c.temp); {
	case errors.Is(err, fault.ErrLocked):
		return nil, fault.New(fault.ErrLocked, "another process makes %s (it holds %s)", o.Out, c.temp)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("--out %s: %w: name a place where you may write", o.Out, err)
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

// asked is what a prediction is of.
type asked struct {
	targets
	values
}

// ask finds the nodes and the values that the options name, and has it prepared, or decided, how
// they are computed. The caller closes what it returns.
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

// predict computes and writes what the options name.
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

// checkRoom refuses an array that its disk has no room for, before it is computed. How long tables
// become is not known.
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
		err = fault.New(fault.ErrBudget, "--out %s takes %s, %s has %s free: name another place", out, budget.FormatBytes(size), dir, budget.FormatBytes(free))
	}
	return err
}

// idsBytes is what reading original ids holds.
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
// NAME.npy.lineage.json beside NAME.npy, and likewise of other forms. The file gets its name before the
// prediction does, so that no prediction lacks it, and holds no path and no time: equal predictions
// have equal files. Only people and scripts read it; keys may be added.
type Lineage struct {
	Format stage.Format `json:"format"`
	// File is the prediction's name, without its directory, and SHA256 the hash of its Bytes bytes.
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Nodes are those that have a row: all, a split, or list, those that a file named.
	Nodes string `json:"nodes"`
	// Weights are best or final, and WeightsSHA256 the hash of the run's file of them. Checked says
	// that the file, and what the run says of its model, matched checksums.
	Weights       string `json:"weights"`
	WeightsSHA256 string `json:"weights_sha256"`
	Checked       bool   `json:"checked"`
	// Dataset is the fingerprint of the graph that was predicted on, and TrainedOn of the one that
	// the run was trained on.
	Dataset   string `json:"dataset"`
	TrainedOn string `json:"trained_on"`
	// BLAS is what last bits depend on.
	BLAS string `json:"blas"`
}

// lineageFile returns the name of the file that says what a prediction was made of.
func lineageFile(out string) string { return out + lineageSuffix }

// lineage says what the prediction is made of, but for its bytes.
func (j *job) lineage(o *PredictOptions) *Lineage {
	l := &Lineage{Format: lineageFormat, File: filepath.Base(o.Out), Nodes: o.Nodes, Weights: o.Weights, WeightsSHA256: j.run.WeightsSum(),
		Checked: j.run.Note() == "", Dataset: j.data.Fingerprint(), TrainedOn: j.run.Dataset()}
	if o.Nodes != AllNodes && !slices.Contains(splits, o.Nodes) {
		l.Nodes = "list"
	}
	l.BLAS = j.engine.Info().BLAS
	return l
}

// write makes the file durable, of a prediction that has so many bytes with that hash.
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
