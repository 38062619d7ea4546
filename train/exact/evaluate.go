package exact

import (
	"context"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// Evaluate scores a run's weights on the training, validation and test nodes.
func Evaluate(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (trained.Evaluation, error) {
	return evaluate(ctx, fsys, o, rep, parts{stack: all.Open})
}

func evaluate(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, p parts) (trained.Evaluation, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return trained.Evaluation{}, err
	}
	j := &job{fs: fsys, options: o, report: rep, parts: p, scores: true}
	var result trained.Evaluation
	err := j.do(ctx, func(ctx context.Context) error {
		e, err := j.examine(ctx, j.prepare)
		if err != nil {
			return err
		}
		classes := j.model.Classes()
		err = j.compute(ctx, func(_ context.Context, lo int, logits []float32) error {
			e.add(lo, logits, classes)
			return nil
		})
		if err != nil {
			return err
		}
		names, err := j.classNames()
		if err != nil {
			return err
		}
		result = trained.Evaluation{Outcome: j.outcome(), Exact: true, Metric: j.run.Metric(), ClassNames: names,
			TrainAccuracy: e.scorers[0].Score(), ValidAccuracy: e.scorers[1].Score(), TestAccuracy: e.scorers[2].Score()}
		return nil
	})
	if err != nil {
		return trained.Evaluation{}, err
	}
	result.PeakAnonBytes, result.PeakRSSBytes = j.watch.Stop()
	result.Seconds = time.Since(j.began).Seconds()
	return result, nil
}

// examine reads the nodes to score, and calls prepare, which may be decide.
func (j *job) examine(ctx context.Context, prepare preparing) (*exam, error) {
	f, last := j.data.Facts(), j.model.Layers()-1
	held, making := examBytes(&f, j.run.Metric(), splits)
	more := held + making + classNameBytes(&f)
	if j.fixed+more > j.options.Memory && j.parts.room == 0 { // nothing fits
		return nil, prepare(ctx, last, targets{ids: []uint32{}}, more)
	}
	e, err := newExam(ctx, j.data, j.run.Metric(), splits)
	if err != nil {
		return nil, j.ofDataset(err)
	}
	t := j.everyNode(&f)
	t.ids = e.nodes
	return e, prepare(ctx, last, t, more)
}

// outcome returns the job's libraries, times and reads.
func (j *job) outcome() score.Outcome {
	o := &j.options
	engine, blas, processor := j.libraries()
	out := score.Outcome{Run: o.Run, RunState: j.run.State(), Engine: engine, BLAS: blas, SIMD: j.engine.Info().SIMD, Threads: o.Threads, IO: j.stack.Name(),
		Weights: o.Weights, StateDType: o.StateDType, Layers: j.costs, Memory: o.Memory, OtherGraph: j.other}
	if j.gpu != nil {
		out.Device = processor
	}
	for _, c := range j.costs {
		out.BytesRead += c.BytesRead
		out.BytesWritten += c.BytesWritten
	}
	return out
}

// splits are scored separately.
var splits = []string{dataset.Train, dataset.Valid, dataset.Test}

// exam holds the nodes that are scored, ascending, and for each its label and split.
type exam struct {
	nodes   []uint32
	labels  []int32
	targets []byte // classes of multi-label nodes, row bytes each
	row     int
	split   []uint8
	scorers []score.Scorer // one for each scored split
}

// examBytes returns the bytes of an exam of the splits: of every scored node its id twice, its label, split and
// classes, and its part of a scorer; and beside them, while it is made, the labels of all nodes.
func examBytes(f *dataset.Facts, metric string, names []string) (held, making int64) {
	sizes := map[string]int64{dataset.Train: f.Train, dataset.Valid: f.Valid, dataset.Test: f.Test}
	for _, name := range names {
		n := sizes[name]
		scorer, _ := score.Bytes(score.Options{Metric: metric, MultiLabel: f.TargetBytes() > 0, Classes: f.Classes, Rows: n})
		held += scorer + n*(4+4+4+1+int64(f.TargetBytes()))
	}
	return held, 4 * f.Nodes
}

// classNameBytes returns the bytes of the names of classes.
func classNameBytes(f *dataset.Facts) int64 {
	if f.ClassNameBytes == 0 {
		return 0
	}
	return 2*f.ClassNameBytes + 32*int64(f.Classes)
}

// newExam returns the exam of the nodes of the splits, with a scorer for each split.
func newExam(ctx context.Context, d *dataset.Dataset, metric string, names []string) (*exam, error) {
	labels, err := d.Labels()
	if err != nil {
		return nil, err
	}
	f := d.Facts()
	e := &exam{nodes: []uint32{}, row: d.TargetBytes()}
	members := make([][]uint32, len(names))
	for s, name := range names {
		if members[s], err = d.Split(name); err != nil {
			return nil, err
		}
		e.nodes = append(e.nodes, members[s]...)
		e.scorers = append(e.scorers, score.New(score.Options{Metric: metric, MultiLabel: e.row > 0, Classes: f.Classes, Rows: int64(len(members[s]))}))
	}
	slices.Sort(e.nodes)
	if e.targets, err = d.Targets(ctx, e.nodes); err != nil {
		return nil, err
	}
	e.labels, e.split = make([]int32, len(e.nodes)), make([]uint8, len(e.nodes))
	for i, v := range e.nodes {
		e.labels[i] = labels[v]
	}
	for s, ids := range members {
		for _, v := range ids {
			i, _ := slices.BinarySearch(e.nodes, v)
			e.split[i] = uint8(s)
		}
	}
	return e, nil
}

// add judges the logits of the nodes from the lo-th on.
func (e *exam) add(lo int, logits []float32, classes int) {
	for i := range len(logits) / classes {
		v := lo + i
		e.scorers[e.split[v]].Add(logits[i*classes:(i+1)*classes], e.labels[v:v+1], e.targets[v*e.row:(v+1)*e.row])
	}
}
