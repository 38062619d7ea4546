package exact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/device/cuda"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
	"diskgnn/train/cpu"
	"diskgnn/train/decide"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// parts are the components that tests replace.
type parts struct {
	stack func(kind string, o iostack.Options) (iostack.Stack, string, error)
	// room, unless 0, is the bytes for the steps, in place of the room that memory leaves.
	room int64
	// gpu, unless nil, is the GPU, which stays open, and gpuRoom, unless 0, the bytes for a step in place of its
	// memory.
	gpu     *cuda.Device
	gpuRoom int64
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
	gpu      *layersOn // nil: the CPU computes
	wires    *pieces.Buffers
	graph    *prepare.Whole
	scratch  *scratch // nil unless there are states
	states   string   // its directory; "": as the options say
	of       string   // identity of the states; "": no later process goes on from them
	leaves   bool     // close leaves the states to a later process
	undo     func()   // of the heap's limit
	note     string   // why the CPU computes although there is a GPU; "": it need not

	fixed int64 // bytes held beside the steps' memory
	steps []step
	costs []score.LayerCost
}

// step is a pass over a table of rows: the input projection or a layer. Its rows are the table of the next
// step, or the result.
type step struct {
	layer    int // or model.InputLayer
	targets  targets
	parts    []grid.Part // of the targets, in a typed graph
	lists    lists
	sizes    grid.Sizes
	engine   int64 // bytes of the engine's memory for it
	plan     grid.Plan
	state    int64 // bytes of its rows, if they are a state
	inMemory bool  // the state is held in memory, not on disk
	kept     int64 // rows of the state that an earlier process has computed
}

// do opens everything, runs the work and closes everything. An interruption is an
// error of kind fault.ErrInterrupted.
func (j *job) do(ctx context.Context, work func(ctx context.Context) error) error {
	j.began = time.Now()
	j.watch = budget.StartWatch(ctx)
	defer j.watch.Stop()
	err := j.open(ctx)
	if err == nil {
		err = j.onEither(ctx, work)
	}
	interrupted := fault.EndedBy(ctx, err)
	j.leaves = interrupted && j.scratch != nil && j.scratch.latest >= 0
	closed := j.close()
	switch {
	case j.leaves && closed == nil:
		return fault.New(fault.ErrInterrupted, "interrupted: hidden states are kept in %s; the same command goes on from them", j.scratch.dir)
	case interrupted && closed == nil:
		return fault.New(fault.ErrInterrupted, "interrupted: nothing was kept")
	case err != nil && closed != nil:
		return fmt.Errorf("%w (and then: %v)", err, closed)
	case err != nil:
		return err
	}
	return closed
}

// noGPURoom is the error of layers that do not fit on the GPU.
type noGPURoom struct{ error }

func (e noGPURoom) Unwrap() error { return e.error }

// onEither runs the work. If the choice of the engine is left to it, and the layers do not fit on the GPU, it runs the
// work again on the CPU.
func (j *job) onEither(ctx context.Context, work func(ctx context.Context) error) error {
	opened := j.fixed
	err := work(ctx)
	if why, ok := errors.AsType[noGPURoom](err); ok && j.options.Engine == decide.EngineAuto {
		j.note = fmt.Sprintf("the GPU is not used: %v", why.error)
		j.report.Logf("%s", j.note)
		j.fixed, j.steps = opened-j.gpu.host, nil
		j.gpu.close()
		j.gpu = nil
		return work(ctx)
	}
	return err
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
	if j.data, err = dataset.OpenAny(j.fs, o.Dataset); err != nil {
		return j.ofDataset(err)
	}
	f := j.data.Facts()
	j.model = j.run.Model()
	if err := j.checkGraph(&f); err != nil {
		return err
	}
	return j.openLayers(ctx, j.run.NewEngine)
}

// openLayers opens all that the layers of j.model are computed with, on j.data.
func (j *job) openLayers(ctx context.Context, newEngine func(o trained.EngineOptions, held, memory int64) (*cpu.Engine, int64, error)) (err error) {
	o, f := &j.options, j.data.Facts()
	var how string
	if j.stack, how, err = j.parts.stack(o.IO, iostack.Options{}); err != nil {
		return err
	}
	j.report.Logf("I/O: %s", how)
	if j.features, err = j.data.Features(); err != nil {
		return j.ofDataset(err)
	}
	if j.model.Orders, err = cpu.InferenceOrders(&j.model, f.Nodes, f.Edges); err != nil {
		return err
	}
	var engine int64 // which prepare counts beside all else
	// A small engine is made in any case: sufficient memory can only be computed with it.
	room := max(o.Memory, budget.Reserve)
	if j.engine, engine, err = newEngine(trained.EngineOptions{Weights: o.Weights, Orders: j.model.Orders, Threads: o.Threads, BLAS: o.BLAS}, 0, room); err != nil {
		return err
	}
	j.fixed = budget.Reserve + iostack.Held(j.stack) + engine + pieces.Memory(dataset.Granule, j.features.Compressed()) +
		12*(f.FeatureRows()*int64(f.RowBytes())/dataset.Granule+1)
	if note := j.engine.Info().Note; note != "" {
		j.report.Logf("%s", note)
	}
	if err := j.chooseEngine(); err != nil {
		return err
	}
	j.topology, err = j.data.Topology(ctx, j.report, o.Threads)
	return j.ofDataset(err)
}

// chooseEngine opens the GPU that computes the layers, unless the CPU does.
func (j *job) chooseEngine() error {
	o := &j.options
	if o.Engine == decide.EngineCPU {
		return nil
	}
	weights, err := j.engine.Snapshot(nil)
	if err != nil {
		return err
	}
	j.gpu, err = openGPU(j.parts.gpu, o.GPUMemory, weights)
	switch {
	case err == nil:
		j.fixed += j.gpu.host
		if j.parts.gpuRoom > 0 {
			j.gpu.memory = j.parts.gpuRoom
		}
		return nil
	case o.Engine == decide.EngineGPU && errors.Is(err, cuda.ErrNoDevice):
		return fault.New(fault.ErrUsage, "--engine %s: %w", o.Engine, err)
	case o.Engine == decide.EngineGPU:
		return fmt.Errorf("--engine %s: %w; --engine %s needs no GPU", o.Engine, err, decide.EngineCPU)
	case !errors.Is(err, cuda.ErrNoDevice):
		j.report.Logf("the GPU is not used: %v", err)
	}
	return nil
}

// libraries returns the engine, the library of products, and the processor or GPU: the bits of results depend on them.
func (j *job) libraries() (engine, blas, processor string) {
	if j.gpu == nil {
		info := j.engine.Info()
		return decide.EngineCPU, info.BLAS, info.SIMD
	}
	info := j.gpu.on.Info()
	return decide.EngineGPU, info.BLAS, info.Device
}

// checkGraph refuses a graph that does not fit the model. Another graph than the run's must have
// the same preprocessing.
func (j *job) checkGraph(f *dataset.Facts) error {
	o := &j.options
	if err := j.checkTypes(f); err != nil {
		return err
	}
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

// checkTypes refuses a graph with other types than the model's.
func (j *job) checkTypes(f *dataset.Facts) error {
	m := &j.model
	switch {
	case m.Types == nil:
		return j.data.CheckUntyped()
	case f.Types == nil:
		return fault.New(fault.ErrInput, "%s has no node types, but %s was trained on a graph with %d", j.options.Dataset, j.options.Run, len(m.Types.Nodes))
	}
	same := len(f.Types.Nodes) == len(m.Types.Nodes) && len(f.Types.Relations) == len(m.Types.Relations)
	for i := 0; same && i < len(m.Types.Nodes); i++ {
		same = f.Types.Nodes[i].Name == m.Types.Nodes[i]
	}
	for r := 0; same && r < len(m.Types.Relations); r++ {
		same = model.Relation(f.Types.Relations[r]) == m.Types.Relations[r]
	}
	if !same {
		return fault.New(fault.ErrInput, "%s has other node types or relations than the graph that %s was trained on", j.options.Dataset, j.options.Run)
	}
	if j.scores && f.LabelledType != m.Types.Seed {
		return fault.New(fault.ErrInput, "the labels of %s are of nodes of type %s, but %s was trained on labels of type %s",
			j.options.Dataset, m.Types.Nodes[f.LabelledType], j.options.Run, m.Types.Nodes[m.Types.Seed])
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

// close releases the resources in reverse order, and removes the states unless a later process can go on
// from them.
func (j *job) close() error {
	var errs []error
	switch {
	case j.leaves:
		errs = append(errs, j.scratch.leave())
	case j.scratch != nil:
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
	j.gpu.close()
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
