package exact

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/exact/grid"
	"diskgnn/train/score"
)

// Prediction describes the written file, with the time and the reads that it took.
type Prediction struct {
	State string `json:"state"` // new, or done if the file was finished already; of a share also resumed
	Out   string `json:"out"`   // the file, or the directory of a share
	// Shard is the share, like 0/3, and Fingerprint the directory's; "" for a whole prediction.
	Shard       string `json:"shard,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`

	Output  string `json:"output"`
	DType   string `json:"dtype"`
	Rows    int64  `json:"rows"`
	Columns int    `json:"columns"`
	// OriginalIDs is the kind of the rows' ids, if the dataset has original ids: see dataset.Facts.
	OriginalIDs string `json:"original_ids,omitempty"`
	IDs         string `json:"ids,omitempty"` // the file of ids beside an array
	// ClassNames are the names of the classes, in their order, if the output is logits or classes.
	ClassNames []string `json:"class_names,omitempty"`
	// Lineage is the content of LineageFile. A share has none: Merge writes it.
	Lineage     *Lineage `json:"lineage"`
	LineageFile string   `json:"lineage_file"`

	score.Outcome
}

// asked is the nodes and values of a prediction.
type asked struct {
	targets
	values
	rows       int64    // of all shares
	list       string   // hash of the ids of a list, all shares'
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

// ask finds the nodes and the values that the options name, and readies the work. The caller closes the result.
func (j *job) ask(ctx context.Context, o *PredictOptions, prepare preparing) (*asked, error) {
	a, err := j.choose(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := j.ready(ctx, o, a, prepare); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// ready calls prepare, which may be decide, unless there is no node to predict: then there are no steps.
func (j *job) ready(ctx context.Context, o *PredictOptions, a *asked, prepare preparing) error {
	if a.len() == 0 {
		return nil
	}
	sink := o.Out
	if !o.Shard.Whole() {
		sink = suffixNPY // its files are as large as an array
	}
	if err := checkRoom(j.fs, o.Out, sink, &a.values, int64(a.len())); err != nil {
		return err
	}
	return prepare(ctx, a.last, a.targets, 4*int64(len(a.ids))+sinkBytes(sink, a.stored())+idsBytes(j.data.Facts().OriginalIDs)+a.namesBytes())
}

// choose finds the nodes and the values that the options name. The caller closes the result.
func (j *job) choose(ctx context.Context, o *PredictOptions) (_ *asked, err error) {
	f := j.data.Facts()
	a := &asked{targets: j.everyNode(&f)}
	own := f.OriginalIDs
	switch {
	case o.Nodes == AllNodes:
	case slices.Contains(splits, o.Nodes):
		a.ids, err = j.data.Split(o.Nodes)
	case own != "":
		a.ids, err = findNodes(ctx, j.fs, o.Nodes, j.data)
	default:
		a.ids, err = readNodes(j.fs, o.Nodes, &a.targets, j.home())
	}
	if err == nil {
		err = j.checkNodes(o.Nodes, a.ids)
	}
	if err != nil {
		return nil, err
	}
	a.last = j.model.Layers() - 1
	if o.Output == Embeddings {
		if a.last--; a.last < 0 {
			return nil, fault.New(fault.ErrUsage, "--output embeddings: %s has no hidden layer", o.Run)
		}
		if t := j.model.Types; t != nil && !j.model.Alive(a.last + 1)[t.Seed] {
			return nil, fault.New(fault.ErrUsage, "--output embeddings: the hidden layer %d of %s makes no rows of nodes of type %s", a.last, o.Run, t.Nodes[t.Seed])
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
		a.calls = idsKind(own)
	} else if a.ids != nil {
		a.calls = idsNodes
	}
	if o.Nodes != AllNodes && !slices.Contains(splits, o.Nodes) {
		a.list = binio.Hash(binio.Bytes(a.ids))
	}
	a.rows = int64(a.len())
	a.cut(o.Shard, j.group())
	return a, nil
}

func (a *asked) close() error {
	if a.own == nil {
		return nil
	}
	return a.own.Close()
}

// describe returns the description of a file of the nodes and values a.
func (j *job) describe(o *PredictOptions, a *asked, l *Lineage) *Prediction {
	p := &Prediction{State: stage.StateNew.String(), Out: o.Out, Output: o.Output, OriginalIDs: j.data.Facts().OriginalIDs, DType: a.dtype(), Rows: int64(a.len()), Columns: a.columns, ClassNames: a.classNames,
		Lineage: l}
	if !o.Shard.Whole() {
		p.Out, p.Shard = o.Shard.DirName(o.Out), o.Shard.String()
		return p
	}
	p.LineageFile = lineageFile(o.Out)
	if filepath.Ext(o.Out) == suffixNPY {
		p.IDs = idsFile(o.Out, a.calls)
	}
	return p
}

// group returns the number of rows that are multiplied together.
func (j *job) group() int {
	if j.gpu != nil {
		return grid.GPUGroup
	}
	return grid.Group
}

// origin returns the origin of a prediction of a with the library blas.
func (j *job) origin(o *PredictOptions, a *asked, blas string) Origin {
	from := Origin{Nodes: o.Nodes, Output: o.Output, BLAS: blas, Weights: o.Weights, WeightsSHA256: j.run.WeightsSum(),
		Checked: j.run.Note() == "", Dataset: j.data.Fingerprint(), TrainedOn: j.run.Dataset()}
	if o.StateDType != StateFloat32 && a.last > 0 {
		from.StateDType = o.StateDType
	}
	if a.list != "" {
		from.Nodes, from.NodesSHA256 = "list", a.list
	}
	return from
}

// write computes the rows of a and passes them to out, which makes name. It finishes or abandons out.
func (j *job) write(ctx context.Context, name string, a *asked, out sink) error {
	made := converter{values: a.values, threads: j.options.Threads}
	err := j.compute(ctx, func(ctx context.Context, first int, y []float32) error {
		return made.each(ctx, y, func(at int, cells []byte) error {
			if err := out.add(ctx, first+at, cells); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			return nil
		})
	})
	if err != nil {
		return errors.Join(err, out.abandon())
	}
	if err := out.finish(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// checkRoom refuses an array that its disk has no room for, before it is computed. The size of
// tables is not known. The name sink has the suffix of the form.
func checkRoom(fsys vfs.FS, out, sink string, v *values, rows int64) error {
	if filepath.Ext(sink) != suffixNPY {
		return nil
	}
	size := rows * int64(v.rowBytes())
	dir, err := vfs.Nearest(fsys, out)
	if err != nil {
		return err
	}
	free, err := fsys.Free(dir)
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

// ended sets the figures that are known at the end.
func (j *job) ended(p *Prediction) {
	p.PeakAnonBytes, p.PeakRSSBytes = j.watch.Stop()
	p.Seconds = time.Since(j.began).Seconds()
}
