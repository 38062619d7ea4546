package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/exact/grid"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// TestMain lets garbage lie longer: the runs of tests hold little, and would collect it all the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	grid.Group, grid.GPUGroup = 8, 8 // so that a small graph has several tiles
	os.Exit(m.Run())
}

// builtin is the list of stores of the program.
var builtin = all.Builtin()

// defaults returns the options of a run of the program without any flag.
func defaults() Options {
	o := Defaults()
	o.Stores = builtin
	return o
}

// disk does not wait for the device: no plug is pulled here.
var disk = vfs.Unsynced(vfs.OS)

// world is a small graph and its samples, from which packs are made.
type world struct {
	t       testing.TB
	dir     string
	dataset dataset.Raw
	packs   int
}

// worldParams describe one; zero values stand for the defaults in brackets.
type worldParams struct {
	nodes, dim, classes int // [300], [7], [3]
	dtype               dtype.Type
	batch               int   // [16]
	epochs              int   // sampled [2]
	fanout              []int // [3, 4]
	seed                uint64
	noValid             bool
	multi               bool     // a node also has the class that follows its own
	names               []string // of the classes
	typed               bool     // datasettest's types; the labels are drawn at random
	nan                 bool     // the loss is none: features are so large that their sums are infinite
}

// newWorld makes a random graph in which a node's class shows in the features of its
// in-neighbours, and samples it.
func newWorld(t testing.TB, p worldParams) *world {
	t.Helper()
	setDefault(&p.nodes, 300)
	setDefault(&p.dim, 7)
	setDefault(&p.classes, 3)
	setDefault(&p.batch, 16)
	setDefault(&p.epochs, 2)
	if p.fanout == nil {
		p.fanout = []int{3, 4}
	}
	raw := datasettest.Params{Nodes: p.nodes, AvgDegree: 6, Dim: p.dim, Classes: p.classes, DType: p.dtype, Seed: p.seed, Typed: p.typed}.Raw()
	if !p.typed {
		teach(&raw)
	}
	raw.ClassNames = p.names
	if p.multi {
		manyLabels(&raw)
	}
	if p.noValid {
		raw.Valid, raw.Test = nil, nil
	}
	if p.nan {
		for i := range raw.Features {
			raw.Features[i] = []byte{0xFF, 0xFF, 0x7F, 0x7F}[i%4] // the largest float32
		}
	}
	w := &world{t: t, dir: vfstest.TempDir(t), dataset: raw}
	datasettest.Create(t, w.dir, raw)
	_, err := presample.Run(context.Background(), disk, presample.Options{
		Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: p.batch, Fanout: p.fanout, Epochs: p.epochs,
	}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// teach makes the labels learnable: by the sign of sums over the neighbourhood, in the
// first features.
func teach(r *dataset.Raw) {
	x := make([]float32, len(r.Labels)*r.Dim)
	widen(x, r)
	for v := range r.Labels {
		if r.Labels[v] < 0 {
			continue
		}
		best, most := int32(0), float32(0)
		for c := range min(r.Classes, r.Dim) {
			sum := x[v*r.Dim+c]
			for _, u := range r.Indices[r.Indptr[v]:r.Indptr[v+1]] {
				sum += x[int(u)*r.Dim+c]
			}
			if c == 0 || sum > most {
				best, most = int32(c), sum
			}
		}
		r.Labels[v] = best
	}
}

// manyLabels gives nodes the class that follows theirs as well.
func manyLabels(r *dataset.Raw) {
	row := graph.TargetBytes(r.Classes)
	r.Targets = make([]byte, len(r.Labels)*row)
	for v, y := range r.Labels {
		if y != graph.Unlabelled {
			graph.AddClass(r.Targets[v*row:], int(y))
			graph.AddClass(r.Targets[v*row:], (int(y)+1)%r.Classes)
			r.Labels[v] = 0
		}
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// pack packs the samples with a least cache of this share.
func (w *world) pack(cache float64, more ...func(*pack.Options)) string {
	w.t.Helper()
	w.packs++
	o := pack.Options{Dataset: w.path("dataset"), Samples: w.path("samples"), Out: w.path(fmt.Sprint("pack", w.packs)),
		Cache: &budget.Size{Value: cache, Unit: budget.UnitPercent}, Bands: pack.DefaultBands()} // so that batches read rows
	for _, m := range more {
		m(&o)
	}
	if _, err := pack.Run(context.Background(), disk, o, progress.Discard); err != nil {
		w.t.Fatal(err)
	}
	return o.Out
}

// quick is the storage backend of tests: io_uring pins the buffers of every slot, megabytes in each
// run, which costs more than the run. TestRunByItsFiles and the scripts of package commands take what auto
// takes.
const quick = "pread"

// options returns those of a quick run. It reads by quick.
func (w *world) options(pack string, more ...func(*Options)) Options {
	o := defaults()
	o.Pack, o.Out = pack, w.path(fmt.Sprint("run", runNumber.next()))
	o.Hidden, o.Epochs, o.Threads, o.Engine, o.BLAS = 8, 3, 2, EngineCPU, "gonum"
	o.LR, o.Memory, o.IO = 0.01, 1<<30, quick
	for _, m := range more {
		m(&o)
	}
	return o
}

// counter hands out the runs' numbers.
type counter struct {
	mu sync.Mutex
	n  int
}

func (n *counter) next() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.n++
	return n.n
}

var runNumber counter

// percent is a share of the rows, as a flag's value.
func percent(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }

// logged collects what is reported.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Task(string, int64, progress.Unit) progress.Task {
	return progress.Discard.Task("", 0, "")
}

func (l *logged) Logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// widen writes the dataset's features as float32.
func widen(x []float32, r *dataset.Raw) {
	dtype.Convert(binio.Bytes(x), dtype.Float32, r.Features, r.DType)
}

// run runs with the given parts in place of the usual ones, by quick if no backend is named, and
// checks that all memory outside the heap was given back.
func (w *world) run(ctx context.Context, o Options, rep progress.Reporter, change func(*parts)) (rundir.Result, error) {
	w.t.Helper()
	setDefault(&o.IO, quick)
	g := newGPUDevice(0)
	defer g.close()
	p := usual(g.openStack, g.newEngine)
	if change != nil {
		change(&p)
	}
	before := device.HostBytes()
	r, err := run(ctx, disk, o, rep, p)
	if n := device.HostBytes(); n != before {
		w.t.Errorf("%d bytes of host memory were not given back", n-before)
	}
	return r, err
}

// mustRun runs and returns the result and the loss of every step.
func (w *world) mustRun(o Options, change func(*parts)) (rundir.Result, []float64) {
	w.t.Helper()
	var rec recorder
	r, err := w.run(context.Background(), o, progress.Discard, func(p *parts) {
		if change != nil {
			change(p)
		}
		rec.wrap(p)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r, rec.losses
}

// recorder is an engine that keeps the losses of all steps.
type recorder struct {
	engine.Engine
	losses []float64
}

func (r *recorder) wrap(p *parts) {
	inner := p.engine
	p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
		e, n, err := inner(w)
		r.Engine = e
		return r, n, err
	}
}

func (r *recorder) Backward(ctx context.Context, w engine.Work, f engine.Features, at engine.Place) (*engine.Outcome, error) {
	return r.keep(r.Engine.Backward(ctx, w, f, at))
}

func (r *recorder) Finish() (*engine.Outcome, error) { return r.keep(r.Engine.Finish()) }

func (r *recorder) keep(o *engine.Outcome, err error) (*engine.Outcome, error) {
	if o != nil {
		r.losses = append(r.losses, o.Loss)
	}
	return o, err
}

// withSlots changes the plan's number of slots.
func withSlots(train, eval int) func(*parts) {
	return func(p *parts) {
		inner := p.decide
		p.decide = func(o decide.Options, f decide.Facts) (decide.Decision, error) {
			d, err := inner(o, f)
			d.Memory.Slots, d.Memory.EvalSlots = train, eval
			return d, err
		}
	}
}

// resolve resolves the options by a store of such batches.
func (o *Options) resolve(f featurestore.Facts, inOrder bool) (err error) {
	o.Recipe, err = decide.Resolve(o.decided(), &decide.Store{Facts: f, InOrder: inOrder}, nil)
	return err
}

// planMemory returns how the memory of a run on a store is divided.
func planMemory(c featurestore.Candidate, o *Options, needs decide.Needs) (decide.Memory, error) {
	f := c.Facts()
	d, err := decide.Decide(o.decided(), decide.Facts{Store: storeOf(c, ""), Needs: needs, Records: o.records(&f), Plan: planOn(c, engineNeeds{})})
	return d.Memory, err
}

// weights reads the tensors of a run's file.
func (w *world) weights(out, name string) map[string]safetensors.Tensor {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		w.t.Fatal(err)
	}
	tensors, _, err := safetensors.Decode(b)
	if err != nil {
		w.t.Fatal(err)
	}
	m := make(map[string]safetensors.Tensor)
	for _, t := range tensors {
		m[t.Name] = t
	}
	return m
}

// find returns the candidate of a pack.
func find(t testing.TB, dir string) featurestore.Candidate {
	t.Helper()
	c, err := packed.Find(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
