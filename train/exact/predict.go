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
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// Prediction describes the written file, with the time and the reads that it took.
type Prediction struct {
	State   string `json:"state"` // new, or done if the file was finished already
	Out     string `json:"out"`
	Output  string `json:"output"`
	DType   string `json:"dtype"`
	Rows    int64  `json:"rows"`
	Columns int    `json:"columns"`
	// OriginalIDs is the kind of the rows' ids, if the dataset has original ids: see dataset.Facts.
	OriginalIDs string `json:"original_ids,omitempty"`
	IDs         string `json:"ids,omitempty"` // the file of ids beside an array
	// ClassNames are the names of the classes, in their order, if the output is logits or classes.
	ClassNames []string `json:"class_names,omitempty"`
	// Lineage is the content of LineageFile.
	Lineage     *Lineage `json:"lineage"`
	LineageFile string   `json:"lineage_file"`

	score.Outcome
}

// Predict writes a row for every node, or for the nodes of a split or a list, in node order. The
// file appears only when it is complete. Without Force, Predict does nothing if Finished finds the file.
func Predict(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter) (Prediction, error) {
	return predict(ctx, fsys, o, rep, parts{stack: all.Open})
}

func predict(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter, p parts) (Prediction, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Prediction{}, err
	}
	if !o.Force {
		if done, err := Finished(ctx, fsys, o); err != nil {
			return Prediction{}, err
		} else if done != nil {
			rep.Logf("%s is finished already: nothing to do", o.Out)
			return *done, nil
		}
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

// Finished returns the description of the file o.Out if that is the prediction of these options, and nil
// if it is not, or if an input cannot be read. The lineage file must name the bytes of o.Out, the present
// weights of the run, the present graph, the output, the nodes and the library. An error is of kind
// fault.ErrInterrupted.
func Finished(ctx context.Context, fsys vfs.FS, o PredictOptions) (*Prediction, error) {
	o.EnsureDefaults()
	j := &job{fs: fsys, options: o.Options, report: progress.Discard, began: time.Now()}
	p, err := j.finished(ctx, &o)
	switch {
	case fault.EndedBy(ctx, err):
		return nil, fault.New(fault.ErrInterrupted, "interrupted: nothing was kept")
	case err != nil:
		return nil, nil
	}
	return p, nil
}

// errOther is the error of a file that is not the prediction of the options.
var errOther = errors.New("another prediction")

func (j *job) finished(ctx context.Context, o *PredictOptions) (_ *Prediction, err error) {
	if _, err := j.fs.Stat(o.Out); err != nil {
		return nil, err // before the nodes are read, perhaps from a pipe
	}
	b, err := vfs.ReadSmall(j.fs, lineageFile(o.Out), maxLineage)
	if err != nil {
		return nil, err
	}
	var was Lineage
	if err := json.Unmarshal(b, &was); err != nil {
		return nil, err
	}
	if j.run, err = trained.Open(j.fs, o.Run); err != nil {
		return nil, err
	}
	if j.data, err = dataset.Open(j.fs, o.Dataset); err != nil {
		return nil, err
	}
	if _, err := j.run.HashWeights(o.Weights); err != nil {
		return nil, err
	}
	j.other, j.model = !j.run.TrainedOn(j.data.Fingerprint()), j.run.Model()
	a, err := j.choose(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	library := was.BLAS
	now := j.lineage(o, a, library)
	now.SHA256, now.Bytes = was.SHA256, was.Bytes
	if *now != was || o.BLAS != blas.Auto && !strings.HasPrefix(library, o.BLAS) {
		return nil, errOther
	}
	if err := stage.CheckFile(ctx, j.fs, o.Out, was.Bytes, binio.CheckHash(o.Out, was.SHA256), nil); err != nil {
		return nil, err
	}
	p := j.describe(o, a, &was)
	p.State = stage.StateDone.String()
	if p.IDs != "" {
		if _, err := j.fs.Stat(p.IDs); err != nil {
			return nil, err
		}
	}
	p.Run, p.RunState, p.BLAS, p.Weights, p.StateDType, p.OtherGraph, p.Seconds = o.Run, j.run.State(), library, o.Weights, o.StateDType, j.other, time.Since(j.began).Seconds()
	return p, nil
}

// describe returns the description of a file of the nodes and values a.
func (j *job) describe(o *PredictOptions, a *asked, l *Lineage) *Prediction {
	p := &Prediction{State: stage.StateNew.String(), Out: o.Out, Output: o.Output, OriginalIDs: j.data.Facts().OriginalIDs, DType: a.dtype(), Rows: int64(a.len()), Columns: a.columns, ClassNames: a.classNames,
		Lineage: l, LineageFile: lineageFile(o.Out)}
	if filepath.Ext(o.Out) == suffixNPY {
		p.IDs = a.idsFile(o.Out)
	}
	return p
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
	last       int      // the layer that gives the values
	classNames []string // nil if the classes have none, or the values are not of classes
}

// namesBytes bounds the bytes held for the names of the classes, while they are read too.
func (a *asked) namesBytes() (n int64) {
	for _, name := range a.classNames {
		n += 2*int64(len(name)+1) + 32
	}
	return n
}

// ask finds the nodes and the values that the options name, and calls prepare, which may be decide.
// The caller closes the result.
func (j *job) ask(ctx context.Context, o *PredictOptions, prepare preparing) (*asked, error) {
	a, err := j.choose(ctx, o)
	if err != nil {
		return nil, err
	}
	if err = j.checkRoom(o.Out, &a.values, int64(a.len())); err == nil {
		err = prepare(ctx, a.last, a.targets, 4*int64(len(a.ids))+sinkBytes(o.Out, a.stored())+idsBytes(j.data.Facts().OriginalIDs)+a.namesBytes())
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// choose finds the nodes and the values that the options name. The caller closes the result.
func (j *job) choose(ctx context.Context, o *PredictOptions) (_ *asked, err error) {
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
	a.last = j.model.Layers() - 1
	if o.Output == Embeddings {
		if a.last--; a.last < 0 {
			return nil, fault.New(fault.ErrUsage, "--output embeddings: %s has no hidden layer", o.Run)
		}
	}
	a.values = values{kind: o.Output, multi: j.multiLabel(), width: j.model.Out(a.last), columns: j.model.Out(a.last)}
	if o.Output == Classes && !a.multi {
		a.columns = 1
	}
	if o.Output != Embeddings {
		if a.classNames, err = j.classNames(); err != nil {
			return nil, err
		}
	}
	if o.Output == Classes && !a.multi {
		a.names = a.classNames
	}
	if own != "" {
		if a.own, err = j.data.IDs(); err != nil {
			return nil, err
		}
		a.named = own == dataset.IDNames
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
	_, blas, _ := j.libraries()
	p := j.describe(o, a, j.lineage(o, a, blas))
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
	return *p, nil
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
	// NodesSHA256 is the hash of the ids of a list, ascending, as little-endian uint32 of the dataset; ""
	// without a list.
	NodesSHA256 string `json:"nodes_sha256,omitempty"`
	// Output is the contents: logits, classes or embeddings.
	Output string `json:"output"`
	// Weights are best or final, and WeightsSHA256 is the hash of their file. Checked says that
	// this file, and the model in run.json, matched checksums.
	Weights       string `json:"weights"`
	WeightsSHA256 string `json:"weights_sha256"`
	Checked       bool   `json:"checked"`
	// Dataset is the fingerprint of the predicted graph, and TrainedOn of the run's graph.
	Dataset   string `json:"dataset"`
	TrainedOn string `json:"trained_on"`
	// StateDType is the type of hidden states, if it is not float32.
	StateDType string `json:"state_dtype,omitempty"`
	// BLAS names the library, on which the last bits depend.
	BLAS string `json:"blas"`
}

// lineageFile returns the name of a prediction's file of lineage.
func lineageFile(out string) string { return out + lineageSuffix }

// maxLineage bounds the bytes read of a lineage file, which takes about a thousand.
const maxLineage = 64 << 10

// lineage returns the lineage, without its bytes, of a prediction of a with the library blas.
func (j *job) lineage(o *PredictOptions, a *asked, blas string) *Lineage {
	l := &Lineage{Format: lineageFormat, File: filepath.Base(o.Out), Nodes: o.Nodes, Output: o.Output, BLAS: blas, Weights: o.Weights, WeightsSHA256: j.run.WeightsSum(),
		Checked: j.run.Note() == "", Dataset: j.data.Fingerprint(), TrainedOn: j.run.Dataset()}
	if o.StateDType != StateFloat32 && a.last > 0 {
		l.StateDType = o.StateDType
	}
	if o.Nodes != AllNodes && !slices.Contains(splits, o.Nodes) {
		l.Nodes, l.NodesSHA256 = "list", binio.Hash(binio.Bytes(a.ids))
	}
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
