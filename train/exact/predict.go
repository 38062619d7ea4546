package exact

import (
	"context"
	"errors"
	"fmt"
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
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu"
	"diskgnn/train/score"
)

// What a prediction can hold, as --output names it.
const (
	Logits     = "logits"     // float32, a column per class
	Classes    = "classes"    // int32, the class of the largest logit; multi-label: uint8, a column per class
	Embeddings = "embeddings" // float32, what the last hidden layer puts out
)

// AllNodes is --nodes for every node; the splits' names stand for theirs.
const AllNodes = "all"

// PredictOptions say what to write where.
type PredictOptions struct {
	Options
	Out    string // file to make, whose suffix says its form: .npy, .csv, .parquet
	Output string // "" means logits
	Nodes  string // all, a split, or a file of ids, original ones where nodes have some, one a line; "" means all
	Force  bool   // replace a file that is there
}

// EnsureDefaults replaces zero values by what they mean.
func (o *PredictOptions) EnsureDefaults() {
	o.Options.EnsureDefaults()
	if o.Output == "" {
		o.Output = Logits
	}
	if o.Nodes == "" {
		o.Nodes = AllNodes
	}
}

// Validate names the flag that makes no sense. It expects EnsureDefaults to have
// been called.
func (o *PredictOptions) Validate() error {
	outputs := []string{Logits, Classes, Embeddings}
	switch {
	case o.Out == "":
		return fault.New(fault.ErrUsage, "--out is missing: name the file to make")
	case !slices.Contains(outputs, o.Output):
		return fault.New(fault.ErrUsage, "--output %s: there are %s", o.Output, strings.Join(outputs, ", "))
	}
	return errors.Join(checkSuffix(o.Out), o.Options.Validate())
}

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
	if err := o.checkOut(fsys); err != nil {
		return Prediction{}, err
	}
	j := &job{fs: fsys, options: o.Options, report: rep, parts: p}
	var result Prediction
	err := j.do(ctx, func(ctx context.Context) (err error) {
		result, err = j.predict(ctx, &o)
		return err
	})
	if err != nil {
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
	return nil
}

// predict computes and writes what the options name.
func (j *job) predict(ctx context.Context, o *PredictOptions) (_ Prediction, err error) {
	t := targets{nodes: j.data.Facts().Nodes}
	own := j.data.Facts().OriginalIDs
	switch {
	case o.Nodes == AllNodes:
	case slices.Contains(splits, o.Nodes):
		t.ids, err = j.data.Split(o.Nodes)
	case own != "":
		t.ids, err = findNodes(ctx, j.fs, o.Nodes, j.data)
	default:
		t.ids, err = readNodes(j.fs, o.Nodes, t.nodes)
	}
	if err != nil {
		return Prediction{}, err
	}
	if own != "" {
		if t.own, err = j.data.IDs(); err != nil {
			return Prediction{}, err
		}
		defer func() { err = errors.Join(err, t.own.Close()) }()
		t.named = own == dataset.IDNames
	}
	last := j.model.Layers() - 1
	if o.Output == Embeddings {
		if last--; last < 0 {
			return Prediction{}, fault.New(fault.ErrUsage, "--output embeddings: %s has no hidden layer", o.Run)
		}
	}
	v := values{kind: o.Output, multi: j.multiLabel(), width: j.model.Out(last), columns: j.model.Out(last)}
	if o.Output == Classes && !v.multi {
		v.columns = 1
	}
	if err := j.checkRoom(o.Out, &v, int64(t.len())); err != nil {
		return Prediction{}, err
	}
	if err := j.prepare(ctx, last, t, 4*int64(len(t.ids))+sinkBytes(o.Out, v.columns)+idsBytes(own)); err != nil {
		return Prediction{}, err
	}
	p := Prediction{Out: o.Out, Output: o.Output, OriginalIDs: own, DType: v.dtype(), Rows: int64(t.len()), Columns: v.columns}
	out, err := newSink(j.fs, o.Out, v, &t)
	if errors.Is(err, fs.ErrPermission) {
		return Prediction{}, fmt.Errorf("--out %s: %w: name a place where you may write", o.Out, err)
	}
	if err != nil {
		return Prediction{}, fmt.Errorf("write %s: %w", o.Out, err)
	}
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
	dir := filepath.Dir(out)
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

// writeClasses writes the classes that rows of logits speak for.
func writeClasses(ctx context.Context, out *newFile, logits []float32, classes int) error {
	const step = 1 << 14
	for rows := range slices.Chunk(logits, step*classes) {
		list := make([]int32, len(rows)/classes)
		for i := range list {
			list[i] = int32(cpu.Class(rows[i*classes : (i+1)*classes]))
		}
		if err := out.write(ctx, binio.Bytes(list)); err != nil {
			return err
		}
	}
	return nil
}

// writeEachClass writes for every class of multi-label nodes whether its logit speaks
// for it: one or zero.
func writeEachClass(ctx context.Context, out *newFile, logits []float32) error {
	const step = 1 << 16
	list := make([]byte, min(step, len(logits)))
	for part := range slices.Chunk(logits, step) {
		list = list[:len(part)]
		for i, v := range part {
			list[i] = byte(speaks(v))
		}
		if err := out.write(ctx, list); err != nil {
			return err
		}
	}
	return nil
}
