package exact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
	"diskgnn/train/cpu"
	"diskgnn/train/model"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// parts are the components that tests replace.
type parts struct {
	stack func(kind string, o iostack.Options) (iostack.Stack, string, error)
	// room, unless 0, is the bytes for the buffers of ranges, in place of the room that memory
	// leaves.
	room int64
}

// job is one inference: its resources, in the order in which they are opened.
type job struct {
	fs      vfs.FS
	options Options
	report  progress.Reporter
	parts   parts
	scores  bool // predictions are compared with labels
	watch   *budget.Watch
	began   time.Time

	run      *trained.Run
	other    bool // the graph is another than the one that the run was trained on
	data     *dataset.Dataset
	model    model.Model
	stack    iostack.Stack
	topology *dataset.Topology
	features *dataset.FeatureReader
	engine   *cpu.Engine
	wires    *pieces.Buffers
	sources  *idset.Set
	out      []uint32 // edges that begin at each node; nil unless the model counts them
	scratch  *scratch // nil unless there are states
	undo     func()   // of the heap's limit

	fixed  int64 // bytes held beside the ranges' memory
	layers []layerPlan
	states int64 // most bytes of hidden states on disk
	reads  reads
	costs  []score.LayerCost
}

// layerPlan is how a layer will be computed.
type layerPlan struct {
	targets     targets
	edges       int64
	all, least  capacity
	most        capacity
	bytes       func(capacity) int64
	failed      error // of bytes
	in, out     int   // widths
	writesState bool
}

// layerReads is the predicted reads of a layer.
type layerReads struct {
	ranges int64
	bytes  int64
}

// reads is the predicted reads of all layers, with the sizes that they are compared with.
type reads struct {
	layers   []layerReads
	bytes    int64 // of all layers
	features int64 // the feature table's
	once     int64 // of every layer's table, read once
}

// do opens everything, runs the work and closes everything. An interruption is an
// error of kind fault.ErrInterrupted.
func (j *job) do(ctx context.Context, work func(ctx context.Context) error) error {
	j.began = time.Now()
	j.watch = budget.StartWatch(ctx)
	defer j.watch.Stop()
	err := j.open(ctx)
	if err == nil {
		err = work(ctx)
	}
	interrupted := fault.EndedBy(ctx, err)
	closed := j.close()
	switch {
	case interrupted && closed == nil:
		return fault.New(fault.ErrInterrupted, "interrupted: nothing was kept")
	case err != nil && closed != nil:
		return fmt.Errorf("%w (and then: %v)", err, closed)
	case err != nil:
		return err
	}
	return closed
}

// open opens and checks the inputs.
func (j *job) open(ctx context.Context) (err error) {
	o := &j.options
	if j.run, err = trained.Open(j.fs, o.Run); err != nil {
		return err
	}
	for _, note := range []string{j.run.Note(), j.run.Unfinished()} {
		if note != "" {
			j.report.Logf("%s", note)
		}
	}
	if j.data, err = dataset.Open(j.fs, o.Dataset); err != nil {
		return j.ofDataset(err)
	}
	f := j.data.Facts()
	if err := j.checkGraph(&f); err != nil {
		return err
	}
	var how string
	if j.stack, how, err = j.parts.stack(o.IO, iostack.Options{}); err != nil {
		return err
	}
	j.report.Logf("I/O: %s", how)
	if j.features, err = j.data.Features(); err != nil {
		return j.ofDataset(err)
	}
	j.model = j.run.Model()
	if j.model.Orders, err = j.orders(); err != nil {
		return err
	}
	var engine int64 // which prepare counts beside all else
	// A small engine is made in any case: sufficient memory can only be computed with it.
	room := max(o.Memory, budget.Reserve)
	if j.engine, engine, err = j.run.NewEngine(trained.EngineOptions{Weights: o.Weights, Orders: j.model.Orders, Threads: o.Threads, BLAS: o.BLAS}, 0, room); err != nil {
		return err
	}
	j.fixed = budget.Reserve + iostack.Held(j.stack) + engine + idset.Bytes(f.Nodes) + pieces.Memory(dataset.Granule, j.features.Compressed()) +
		12*(f.Nodes*int64(f.RowBytes())/dataset.Granule+1)
	if note := j.engine.Info().Note; note != "" {
		j.report.Logf("%s", note)
	}
	j.topology, err = j.data.Topology(ctx, j.report, o.Threads)
	return j.ofDataset(err)
}

// checkGraph refuses a graph that does not fit the model. Another graph than the run's must have
// the same preprocessing.
func (j *job) checkGraph(f *dataset.Facts) error {
	o := &j.options
	if j.scores {
		if err := j.data.CheckLabelled(); err != nil {
			return err
		}
	}
	check := j.run.CheckWidth(o.Dataset, f.Dim)
	if j.scores {
		check = j.run.CheckShape(o.Dataset, f.Dim, f.Classes, f.MultiLabel())
	}
	if check != nil {
		return check
	}
	if j.other = !j.run.TrainedOn(j.data.Fingerprint()); !j.other {
		return nil
	}
	p, err := j.data.Preprocessing()
	if err != nil {
		return j.ofDataset(err)
	}
	accepted := o.Accept
	if slices.Contains(accepted, AcceptAll) {
		accepted = dataset.PreprocessingNames
	}
	known, err := j.run.CheckPreprocessing(o.Dataset, p, accepted)
	switch {
	case err != nil:
		return err
	case known:
		j.report.Logf("%s is another graph than the one that %s was trained on", o.Dataset, o.Run)
	default:
		j.report.Logf("%s is another graph than the one that %s was trained on; the run does not record the preprocessing of its graph: make sure that both graphs were preprocessed alike", o.Dataset, o.Run)
	}
	return nil
}

// multiLabel reports whether a prediction may have any number of classes.
func (j *job) multiLabel() bool {
	if f := j.data.Facts(); !j.other {
		return f.MultiLabel()
	}
	return j.run.MultiLabel()
}

// classNames returns the names of the classes that the model tells apart, or nil: the dataset's if the
// run was trained on it, else the names that the run records.
func (j *job) classNames() ([]string, error) {
	if j.other {
		return j.run.ClassNames(), nil
	}
	names, err := j.data.ClassNames()
	return names, j.ofDataset(err)
}

// ofDataset adds to an error about a damaged dataset the command that makes it again.
func (j *job) ofDataset(err error) error {
	if err == nil {
		return nil
	}
	return fault.Remake(err, j.options.Dataset, "its diskgnn generate or import")
}

// metAgain is the number of ranges that need a source, as assumed for the orders of operations.
const metAgain = 4

// orders returns the layers' orders of operations. They depend on the whole graph and not on the
// ranges, so that memory does not change the results. They assume that multiplying first repeats
// the product of a source in every range.
func (j *job) orders() ([]model.Order, error) {
	f := j.data.Facts()
	var counts graph.Sizes
	for range j.model.Layers() {
		counts.Src = append(counts.Src, int(min(metAgain*f.Nodes, f.Nodes+f.Edges)))
		counts.Dst = append(counts.Dst, int(f.Nodes))
		counts.Edges = append(counts.Edges, int(f.Edges))
	}
	return cpu.InferenceOrders(&j.model, counts, j.options.BLAS)
}

// capacities returns the capacities of the layers' ranges that take no more than room bytes.
func (j *job) capacities(room int64) ([]capacity, error) {
	most := make([]capacity, len(j.layers))
	for l := range j.layers {
		p := &j.layers[l]
		if most[l] = fit(p.all, p.least, p.bytes, room); p.failed != nil {
			return nil, p.failed
		}
	}
	return most, nil
}

// measure computes the memory of a layer's ranges. need is the bytes of the shortest range, the
// node with the most neighbours, and most is its number of edges.
func (j *job) measure(l int) (need int64, most int, err error) {
	p := &j.layers[l]
	err = j.topology.Guard(func() (err error) {
		p.edges, most, err = p.targets.measure(&j.topology.CSC)
		return err
	})
	if err != nil {
		return 0, 0, j.ofDataset(err)
	}
	nodes := j.data.Facts().Nodes
	limit := func(n int64) int { return int(min(n, maxInBlock)) }
	p.all = capacity{limit(min(nodes, p.edges+int64(p.targets.len()))), p.targets.len(), limit(p.edges)}
	p.least = capacity{limit(min(nodes, int64(most)+1)), min(1, p.all.dst), limit(int64(most))}
	if most >= maxInBlock {
		return 0, 0, fault.New(fault.ErrInput, "%s: a node has %d neighbours; this program computes only nodes with fewer than %d", j.options.Dataset, most, int64(maxInBlock))
	}
	p.bytes = func(c capacity) int64 {
		n, err := j.engine.LayerBytes(l, c.sizes())
		if err != nil {
			p.failed = err
		}
		return n + cutterBytes(c, j.model.CountsBlocks()) + matrixBytes(c.src, p.in)
	}
	need = p.bytes(p.least)
	return need, most, p.failed
}

// close releases the resources in reverse order, and removes the states.
func (j *job) close() error {
	var errs []error
	if j.scratch != nil {
		errs = append(errs, j.scratch.close())
	}
	if j.undo != nil {
		j.undo()
	}
	if j.wires != nil {
		j.wires.Free()
	}
	if j.topology != nil {
		errs = append(errs, j.topology.Close())
	}
	if j.engine != nil {
		j.engine.Close()
	}
	if j.features != nil {
		errs = append(errs, j.features.Close())
	}
	if j.stack != nil {
		errs = append(errs, j.stack.Close())
	}
	return errors.Join(errs...)
}
