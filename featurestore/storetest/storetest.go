// Package storetest is the conformance suite of stores: Run compares the batches of a store with a plain
// gather from the dataset.
//
// The suite does not depend on the order and the numbering of the input nodes of a batch. It identifies
// the nodes by the graph, which all stores have from the same samples, and compares rows and degrees node
// by node, and the ranks of training batches.
//
// A store's test calls it so; sample draws the samples of a world, by package presample:
//
//	func TestMain(m *testing.M) { os.Exit(vfstest.Main(m)) } // worlds in memory
//
//	func TestConformance(t *testing.T) {
//		w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 60, Dim: 9}, Batch: 5}, sample)
//		storetest.Run(t, w, func(t testing.TB, w *storetest.World) featurestore.Candidate {
//			c, _, err := all.Builtin().Find(storetest.Disk, "mystore", stores.Places{Dataset: w.Dataset, Samples: w.Samples})
//			...
//			return storetest.Cached(c, 20, "")
//		}, storetest.GPUReads)
//	}
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/faultio"
	"diskgnn/presample/mbfile"
)

// World is a dataset and its samples on disk.
type World struct {
	Raw              dataset.Raw
	Dir              string // for further files of a store
	Dataset, Samples string
	Params           Params // with the defaults

	samples *mbfile.Reader
	rank    []uint32 // by node
}

// Disk is the file system of the tests. It does not sync, since no test cuts the power.
var Disk = vfs.Unsynced(vfs.OS)

// Quiet discards the progress of commands that a test runs.
var Quiet featurestore.Reporter = progress.Discard

// Params describe a world; zero values stand for the defaults in brackets.
type Params struct {
	datasettest.Params
	Batch, Epochs int   // [16], [2]
	Fanout        []int // [3, 4]
	Compress      bool
	// Drawn reports whether the store draws the batches itself: it reads no graphs, and its lineage does
	// not have the samples that it is compared with.
	Drawn bool
	// Drive keeps the world on the drive where the package's other tests work in memory, for direct
	// reads that are direct: see vfstest.Main.
	Drive bool
}

// Sampler makes the samples of a dataset, by package presample, which only tests of this layer may import.
type Sampler func(dataset, out string, p Params) error

// NewWorld makes a world for a test.
func NewWorld(t testing.TB, p Params, sample Sampler) *World {
	t.Helper()
	must := must(t)
	if p.Nodes == 0 {
		p.Nodes, p.AvgDegree, p.Dim = 300, 5, 9
	}
	if p.Batch == 0 {
		p.Batch, p.Epochs = 16, 2
	}
	if p.Fanout == nil {
		p.Fanout = []int{3, 4}
	}
	w := &World{Raw: p.Raw(), Params: p}
	if w.Dir = t.TempDir(); p.Drive {
		w.Dir = vfstest.Drive(t)
	}
	w.Raw.Compress = p.Compress
	w.Dataset, w.Samples = filepath.Join(w.Dir, "D"), filepath.Join(w.Dir, "S")
	must(dataset.Create(Disk, w.Dataset, w.Raw))
	must(sample(w.Dataset, w.Samples, p))
	var err error
	w.samples, err = mbfile.Open(vfs.OS, w.Samples)
	must(err)
	t.Cleanup(func() { _ = w.samples.Close() })
	hotness, err := w.samples.Hotness()
	must(err)
	nodes := make([]uint32, len(hotness))
	for v := range nodes {
		nodes[v] = uint32(v)
	}
	slices.SortStableFunc(nodes, func(a, b uint32) int { return int(hotness[b]) - int(hotness[a]) })
	w.rank = make([]uint32, len(hotness))
	for r, v := range nodes {
		w.rank[v] = uint32(r)
	}
	return w
}

func must(t testing.TB) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// row returns a node's row, converted to the given type and widened again.
func (w *World) row(v uint32, to dtype.Type) []float32 {
	dim, src := w.Raw.Dim, w.Raw.DType
	row := slices.Clone(w.Raw.Features[int(v)*dim*src.Size() : int(v+1)*dim*src.Size()])
	out := make([]float32, dim)
	if to.Quantized() {
		wide, stored := make([]float32, dim), make([]byte, to.RowBytes(dim))
		dtype.Convert(binio.Bytes(wide), dtype.Float32, row, src)
		dtype.QuantizeRow(stored, to, wide)
		dtype.DequantizeRow(out, stored, to)
		return out
	}
	stored := make([]byte, dim*to.Size())
	dtype.Convert(stored, to, row, src)
	dtype.Convert(binio.Bytes(out), dtype.Float32, stored, to)
	return out
}

func (w *World) read(t testing.TB, ref featurestore.Ref) *graph.Batch {
	t.Helper()
	f := w.samples.Facts()
	i := ref.Index + [...]int{0, f.TrainBatches, f.TrainBatches + f.ValidBatches}[ref.Split]
	b := new(graph.Batch)
	_, err := w.samples.Read(context.Background(), i, nil, b)
	must(t)(err)
	return b
}

// nodes returns the node id of every input node of got, by comparing its graph with the sampled batch
// want. Every input node of want is a destination or the source of an edge.
func nodes(want, got *graph.Batch) ([]uint32, error) {
	if len(got.Blocks) != len(want.Blocks) || len(got.Input) != len(want.Input) || len(got.Degree) != len(want.Degree) {
		return nil, errors.New("another shape than was sampled")
	}
	for l := range got.Blocks {
		g, s := &got.Blocks[l], &want.Blocks[l]
		if g.NumSrc != s.NumSrc || g.NumDst != s.NumDst || !slices.Equal(g.Indptr, s.Indptr) || len(g.Indices) != len(s.Indices) {
			return nil, fmt.Errorf("layer %d has another structure", l)
		}
		if l > 0 && (!slices.Equal(g.Indices, s.Indices) || !slices.Equal(g.Dst, s.Dst) || !slices.Equal(g.Ends, s.Ends)) {
			return nil, fmt.Errorf("layer %d was renumbered", l)
		}
	}
	at := make([]int, len(want.Input)) // the place in got of every place in want, plus one
	list := make([]uint32, len(want.Input))
	seen := func(g, s int) error {
		if at[s] != 0 && at[s] != g+1 {
			return fmt.Errorf("input node %d stands for two", want.Input[s])
		}
		at[s], list[g] = g+1, want.Input[s]
		return nil
	}
	g, s := &got.Blocks[0], &want.Blocks[0]
	for i := range g.NumDst {
		if err := seen(g.DstPos(i), s.DstPos(i)); err != nil {
			return nil, err
		}
	}
	for e := range g.Indices {
		if err := seen(int(g.Indices[e]), int(s.Indices[e])); err != nil {
			return nil, err
		}
	}
	there := slices.Clone(at)
	slices.Sort(there)
	for i, k := range there {
		if k != i+1 {
			return nil, errors.New("the input nodes are no permutation of those sampled")
		}
	}
	return list, nil
}

// Holds checks a batch and its matrix against the sampled batch and the dataset.
func (w *World) Holds(t testing.TB, ref featurestore.Ref, got *graph.Batch, x []float32, to dtype.Type) {
	t.Helper()
	w.hasRows(t, ref, w.holdsGraph(t, ref, got), x, to)
}

// holdsGraph checks a batch without its matrix, and returns the node id of every input node.
func (w *World) holdsGraph(t testing.TB, ref featurestore.Ref, got *graph.Batch) []uint32 {
	t.Helper()
	want := w.read(t, ref)
	if !got.Types.Equal(want.Types) || got.SeedType != want.SeedType {
		t.Fatal(ref, "has other types")
	}
	list, err := nodes(want, got)
	if err != nil {
		t.Fatal(ref, err)
	}
	if err := got.Validate(); err != nil {
		t.Fatal(ref, err)
	}
	degree := map[uint32]uint32{}
	for i, d := range want.Degree {
		degree[want.Input[i]] = d
	}
	for i, v := range list {
		if want.Types == nil && got.Degree[i] != degree[v] {
			t.Fatal(ref, "input node", i, "has another degree")
		}
		if got.InputTypes != nil && int(got.InputTypes[i]) != want.Types.OfFeatureRow(v) {
			t.Fatal(ref, "input node", i, "has another type")
		}
		if ref.Split == featurestore.Train && got.Input[i] != w.rank[v] {
			t.Fatal(ref, "input node", i, "is named", got.Input[i], "and has the rank", w.rank[v])
		}
	}
	if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Targets, want.Targets) {
		t.Fatal(ref, "has other labels")
	}
	return list
}

// hasRows checks that the rows of a matrix are the rows of the given nodes.
func (w *World) hasRows(t testing.TB, ref featurestore.Ref, list []uint32, x []float32, to dtype.Type) {
	t.Helper()
	dim := w.Raw.Dim
	for i, v := range list {
		if r := w.row(v, to); !slices.Equal(binio.Bytes(r), binio.Bytes(x[i*dim:(i+1)*dim])) {
			t.Fatal(ref, "row", i, "is not node", v, "'s: got", x[i*dim:(i+1)*dim], "want", r)
		}
	}
}

func refs(f featurestore.Facts, splits ...featurestore.Split) (list []featurestore.Ref) {
	for _, s := range splits {
		for i := range f.Batches(s) {
			list = append(list, featurestore.Ref{Split: s, Index: i})
		}
	}
	return list
}

// Load takes a slot through all steps.
func Load(ctx context.Context, sl featurestore.Slot, ref featurestore.Ref) error {
	err := sl.Start(ref)
	if err == nil {
		err = sl.LoadGraph(ctx)
	}
	if err != nil {
		return errors.Join(err, sl.Wait(ctx))
	}
	if err := sl.Wait(ctx); err != nil {
		return err
	}
	return sl.Assemble(ctx)
}

// opened is a store with a slot of each kind.
type opened struct {
	featurestore.Store
	view        featurestore.View
	train, eval featurestore.Slot
}

func open(c featurestore.Candidate, stack iostack.Stack, o featurestore.PlanOptions) (_ *opened, err error) {
	o.Memory, o.Slots, o.EvalSlots, o.MostSlots = 1<<40, 1, 1, 1
	l, err := c.Plan(o)
	if err != nil {
		return nil, err
	}
	s := new(opened)
	if s.Store, err = c.Open(stack, l); err != nil {
		return nil, err
	}
	s.view = s.View(0)
	if s.train, err = s.view.NewSlot(false); err == nil {
		s.eval, err = s.view.NewSlot(true)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *opened) slot(r featurestore.Ref) featurestore.Slot {
	if r.Split == featurestore.Train {
		return s.train
	}
	return s.eval
}

func (s *opened) close() error {
	for _, sl := range []featurestore.Slot{s.train, s.eval} {
		if sl != nil {
			sl.Free()
		}
	}
	return s.Store.Close()
}

// Cached returns the candidate with a cache of a share of the rows, in percent, under a policy ("": the
// default), wherever a plan names no size or policy.
func Cached(c featurestore.Candidate, percent float64, policy string) featurestore.Candidate {
	return cached{c, percent, policy}
}

type cached struct {
	featurestore.Candidate
	percent float64
	policy  string
}

// Plan implements featurestore.Candidate.
func (c cached) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Cache == nil && !o.Least {
		o.Cache = &budget.Size{Value: c.percent, Unit: budget.UnitPercent}
	}
	if o.Policy == "" {
		o.Policy = c.policy
	}
	return c.Candidate.Plan(o)
}

// Run tests the contract of package featurestore with the candidate that find returns. Most of its plans
// name no size of the cache, so a store of single rows holds all rows and evicts none: run it with Cached,
// too, with shares of 0, 10 to 50, and 100 %.
func Run(t *testing.T, w *World, find func(t testing.TB, w *World) featurestore.Candidate, traits ...Trait) {
	c := find(t, w)
	s := &suite{w, c, c.Facts(), traits}
	before := device.HostBytes()
	t.Run("facts", s.sameFacts)
	t.Run("rows", s.rows)
	t.Run("rows on a GPU", s.rowsOnGPU)
	t.Run("late streams", s.lateStreams)
	t.Run("read by a GPU", s.readByGPU)
	t.Run("spoiled on drives", s.spoiledOnDrives)
	t.Run("calls of a GPU that reads fail", s.callsOfReadsFail)
	t.Run("budget of a GPU that reads", s.budgetOfReads)
	t.Run("every call of the device fails", s.everyCallFails)
	t.Run("budget of a GPU", s.budgetOfGPU)
	t.Run("side by side", s.sideBySide)
	t.Run("graphs in any order", s.graphsInAnyOrder)
	t.Run("window", s.window)
	t.Run("resume", s.resume)
	t.Run("evaluation", s.evaluation)
	t.Run("evaluation alone", s.evaluationAlone)
	t.Run("every read fails", s.everyReadFails)
	t.Run("every read is wrong", s.everyReadIsWrong)
	t.Run("cancel", s.cancel)
	t.Run("budget", s.budget)
	t.Run("steady state", s.steadyState)
	if n := device.HostBytes(); n != before {
		t.Errorf("%d bytes of host memory were not given back", n-before)
	}
}

// Trait is the name of a deviation of a store from the usual behaviour.
type Trait string

const (
	// GPUReads is a store with a GPU that submits and completes the reads of training batches, if the storage
	// stack allows it.
	GPUReads Trait = "GPU reads"
	// NoGPURows is a store with all rows in RAM or on disk: it refuses a cache on the GPU.
	NoGPURows Trait = "no GPU cache"
	// PageCache is a store that reads rows through the page cache of the operating system, past the
	// stack. The suite sees and damages only the graphs of its reads, and the rows that evaluation
	// leaves in the page cache serve training too. The store's own tests hold its counted bytes to a
	// formula, and damage its file.
	PageCache Trait = "page cache"
	// ReadsAhead is a store that reads rows of later batches together with the rows of a batch: a row is
	// useful for the batch that first uses it, not for the batch with the read. The store's own tests hold
	// its counts to a formula.
	ReadsAhead Trait = "reads ahead"
)

type suite struct {
	w      *World
	c      featurestore.Candidate
	facts  featurestore.Facts
	traits []Trait
}

func (s *suite) has(t Trait) bool { return slices.Contains(s.traits, t) }

var splits = []featurestore.Split{featurestore.Train, featurestore.Valid, featurestore.Test}

// sameFacts: the facts are the facts of the samples.
func (s *suite) sameFacts(t *testing.T) {
	f, m := &s.facts, s.w.samples.Facts()
	train, eval := int64(0), [2]int64{}
	for i := range m.Batches() {
		b := s.w.samples.Info(i)
		switch {
		case i >= m.TrainBatches+m.ValidBatches:
			eval[1] += int64(b.Seeds())
		case i >= m.TrainBatches:
			eval[0] += int64(b.Seeds())
		default:
			train += int64(b.Seeds())
		}
	}
	if f.Train != m.TrainBatches || f.Valid != m.ValidBatches || f.Test != m.TestBatches || f.Epochs*f.BatchesPerEpoch != f.Train ||
		f.EvalSeeds != max(eval[0], eval[1]) || f.EpochSeeds < train/int64(f.Epochs) || f.EpochSeeds > train || f.RowBytes != f.DType.RowBytes(f.Dim) {
		t.Errorf("%+v", *f)
	}
	l := s.c.Lineage()
	if (l.Samples == s.w.samples.Fingerprint()) == s.w.Params.Drawn || l.Samples == "" || l.Dataset == "" {
		t.Errorf("lineage %+v", l)
	}
}

func (s *suite) each(t *testing.T, o featurestore.PlanOptions, do func(t *testing.T, st *opened, stack iostack.Stack)) {
	t.Helper()
	for _, kind := range all.Kinds()[1:] {
		stack, _, err := all.Open(kind, iostack.Options{Workers: 3})
		if err != nil {
			t.Logf("without %s: %v", kind, err)
			continue
		}
		t.Run(kind, func(t *testing.T) {
			defer stack.Close()
			o := o
			o.Direct = o.GPU != nil && stack.Caps().Device
			st, err := open(s.c, stack, o)
			must(t)(err)
			do(t, st, stack)
			must(t)(st.close())
		})
	}
}

// rows: every batch of every split is a plain gather, byte for byte; counts add up.
func (s *suite) rows(t *testing.T) {
	s.each(t, featurestore.PlanOptions{}, func(t *testing.T, st *opened, stack iostack.Stack) {
		_, err := st.Fill(t.Context(), 0, progress.Discard)
		must(t)(err)
		for _, ref := range refs(s.facts, splits...) {
			sl, before := st.slot(ref), stack.Stats()
			must(t)(Load(t.Context(), sl, ref))
			s.w.Holds(t, ref, sl.Batch(), sl.X(), s.facts.DType)
			if m, x := sl.Matrix(), binio.Bytes(sl.X()); len(m) < len(x) || &m[0] != &x[0] {
				t.Fatal("the matrix does not lie where Matrix says")
			}
			done := stack.Stats().Sub(before)
			c, read := sl.Counts(), done.BytesRead
			if c.UsefulBytes > c.BytesRead && !s.has(ReadsAhead) || c.GraphRead > c.BytesRead || c.SSDRead > c.BytesRead || c.SSDUseful > c.SSDRead || (c.GraphRead == 0) != s.w.Params.Drawn || c.RAMRows > len(sl.Batch().Input) {
				t.Errorf("%v: %+v", ref, c)
			}
			counted, requests := c.BytesRead, c.Requests
			if s.has(PageCache) {
				counted, requests = c.GraphRead, c.Requests-(c.BytesRead-c.GraphRead+int64(os.Getpagesize())-1)/int64(os.Getpagesize())
			}
			if requests != done.Requests {
				t.Errorf("%v: counted %d requests, the stack had %d", ref, requests, done.Requests)
			}
			if over := counted - read; over < 0 || over >= binio.Page { // the last page of a file may be counted whole
				t.Errorf("%v: counted %d bytes, the stack read %d", ref, counted, read)
			}
		}
	})
}

// stack returns a storage stack with the given injectors of faults.
func stack(t testing.TB, in ...faultio.Injector) *faultio.Stack {
	t.Helper()
	s, err := newStack(in...)
	must(t)(err)
	return s
}

// newStack reads through the page cache. Faults are injected above, so direct reads would not make a
// difference. The tests that run on every backend read directly.
func newStack(in ...faultio.Injector) (*faultio.Stack, error) {
	inner, _, err := all.Open("pread", iostack.Options{Workers: 2, Direct: iostack.DirectNever})
	if err != nil {
		return nil, err
	}
	return faultio.Wrap(inner, in...), nil
}

// sideBySide: slots are at different steps at the same time, as in a pipeline.
func (s *suite) sideBySide(t *testing.T) {
	in := stack(t)
	defer in.Close()
	st, err := open(s.c, in, featurestore.PlanOptions{})
	must(t)(err)
	defer func() { must(t)(st.close()) }()
	_, err = st.Fill(t.Context(), 0, progress.Discard)
	must(t)(err)
	const n = 3
	var slots [n]featurestore.Slot
	for i := range slots {
		slots[i], err = st.view.NewSlot(false)
		must(t)(err)
		defer slots[i].Free()
	}
	for i := range s.facts.Train + 2 {
		if i < s.facts.Train {
			must(t)(slots[i%n].Start(featurestore.Ref{Index: i}))
		}
		if k := i - 1; k >= 0 && k < s.facts.Train {
			must(t)(slots[k%n].LoadGraph(t.Context()))
		}
		if k := i - 2; k >= 0 {
			sl, ref := slots[k%n], featurestore.Ref{Index: k}
			must(t)(sl.Wait(t.Context()))
			must(t)(sl.Assemble(t.Context()))
			s.w.Holds(t, ref, sl.Batch(), sl.X(), s.facts.DType)
		}
	}
}

// graphsInAnyOrder: as in a run, each slot has a goroutine that starts its batch and loads the graph, in
// any order. The other steps follow in the order of the run, around the circle of sample epochs.
func (s *suite) graphsInAnyOrder(t *testing.T) {
	in := stack(t)
	defer in.Close()
	st, err := open(s.c, in, featurestore.PlanOptions{})
	must(t)(err)
	defer func() { must(t)(st.close()) }()
	const n = 3
	var slots [n]featurestore.Slot
	for i := range slots {
		slots[i], err = st.view.NewSlot(false)
		must(t)(err)
		defer slots[i].Free()
	}
	next := s.facts.Train / 2
	_, err = st.Fill(t.Context(), next, progress.Discard)
	must(t)(err)
	at := func(i int) featurestore.Ref { return featurestore.Ref{Index: (next + i) % s.facts.Train} }
	var loaded [n]chan error
	load := func(i int) {
		sl, c := slots[i%n], make(chan error, 1)
		loaded[i%n] = c
		go func() {
			err := sl.Start(at(i))
			if err == nil {
				err = sl.LoadGraph(t.Context())
			}
			c <- err
		}()
	}
	for i := range n {
		load(i)
	}
	for i := range 2*s.facts.Train + 1 {
		sl := slots[i%n]
		if err := errors.Join(<-loaded[i%n], sl.Wait(t.Context())); err != nil {
			t.Error(at(i), err)
		} else if err := sl.Assemble(t.Context()); err != nil {
			t.Error(at(i), err)
		} else {
			s.w.Holds(t, at(i), sl.Batch(), sl.X(), s.facts.DType)
		}
		load(i + n)
	}
	for i, sl := range slots {
		must(t)(errors.Join(<-loaded[i], sl.Wait(t.Context())))
	}
}

// resume: a store that is filled for any batch continues from there, and around the circle of sample epochs.
func (s *suite) resume(t *testing.T) {
	in := stack(t)
	defer in.Close()
	st, err := open(s.c, in, featurestore.PlanOptions{})
	must(t)(err)
	defer func() { must(t)(st.close()) }()
	for next := range s.facts.Train {
		state, err := st.State()
		must(t)(err)
		must(t)(st.LoadState(state))
		_, err = st.Fill(t.Context(), next, progress.Discard)
		must(t)(err)
		for k := range 3 {
			ref := featurestore.Ref{Index: (next + k) % s.facts.Train}
			must(t)(Load(t.Context(), st.train, ref))
			s.w.Holds(t, ref, st.train.Batch(), st.train.X(), s.facts.DType)
		}
	}
}

// evaluation: batches of evaluation do not change the rows in the store: training has the same reads with
// and without them.
func (s *suite) evaluation(t *testing.T) {
	in := stack(t)
	defer in.Close()
	count := func(evaluate bool) (list []featurestore.Counts) {
		st, err := open(s.c, in, featurestore.PlanOptions{})
		must(t)(err)
		defer func() { must(t)(st.close()) }()
		_, err = st.Fill(t.Context(), 0, progress.Discard)
		must(t)(err)
		others := refs(s.facts, featurestore.Valid, featurestore.Test)
		for i := range s.facts.Train {
			ref := featurestore.Ref{Index: i}
			must(t)(Load(t.Context(), st.train, ref))
			c := st.train.Counts()
			if s.has(PageCache) {
				c = featurestore.Counts{GraphRead: c.GraphRead}
			}
			list = append(list, c)
			if evaluate && len(others) > 0 {
				must(t)(Load(t.Context(), st.eval, others[i%len(others)]))
				s.w.Holds(t, ref, st.train.Batch(), st.train.X(), s.facts.DType)
			}
		}
		return list
	}
	if a, b := count(false), count(true); !slices.Equal(a, b) {
		t.Errorf("training reads %+v, with evaluation between %+v", a, b)
	}
}

// evaluationAlone: a store with the layout for evaluation loads every evaluation batch.
func (s *suite) evaluationAlone(t *testing.T) {
	l, err := s.c.PlanEval(0)
	must(t)(err)
	in := stack(t)
	defer in.Close()
	st, err := s.c.Open(in, l)
	must(t)(err)
	if l.RAMBytes+l.HeldBytes > 0 {
		_, err = st.Fill(t.Context(), 0, progress.Discard)
		must(t)(err)
	}
	sl, err := st.View(0).NewSlot(true)
	must(t)(err)
	for _, ref := range refs(s.facts, featurestore.Valid, featurestore.Test) {
		must(t)(Load(t.Context(), sl, ref))
		s.w.Holds(t, ref, sl.Batch(), sl.X(), s.facts.DType)
	}
	sl.Free()
	must(t)(st.Close())
}

// work opens a store, fills it and loads some batches of every split.
func (s *suite) work(ctx context.Context, in iostack.Stack) (err error) {
	st, err := open(s.c, in, featurestore.PlanOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if _, err := st.Fill(ctx, 0, progress.Discard); err != nil {
		return err
	}
	list := []featurestore.Ref{{Index: 0}, {Index: 1}}
	for _, split := range splits[1:] {
		if s.facts.Batches(split) > 0 {
			list = append(list, featurestore.Ref{Split: split})
		}
	}
	for _, ref := range list {
		if err := Load(ctx, st.slot(ref), ref); err != nil {
			return err
		}
	}
	return nil
}

// eachRead does the suite's work once for each of its reads, with an effect on that read. The work must
// fail with an error of the given kind, and leave no memory behind. If ends is set, the context of the
// work ends once that read was submitted. eachRead returns the number of reads.
func (s *suite) eachRead(t *testing.T, happens faultio.Effect, ends bool, kind error) int {
	before := device.HostBytes()
	for n := 0; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		in := stack(t, faultio.On(faultio.Nth(n, faultio.Always()), happens))
		watched := &ending{Stack: in, left: math.MaxInt, end: cancel}
		if ends {
			watched.left = n
		}
		err := s.work(ctx, watched)
		cancel()
		watched.over(t)
		injected := in.Injected()
		must(t)(in.Close())
		if injected == 0 {
			must(t)(err)
			if n := device.HostBytes(); n != before {
				t.Errorf("%d bytes were not given back", n-before)
			}
			return n
		}
		if !errors.Is(err, kind) {
			t.Fatalf("read %d: %v", n, err)
		}
	}
}

// everyReadFails: the error of any read reaches the caller.
func (s *suite) everyReadFails(t *testing.T) {
	if n := s.eachRead(t, faultio.Fail(syscall.EIO), false, syscall.EIO); n < 4 && !s.w.Params.Drawn {
		t.Fatalf("%d reads", n)
	}
}

// everyReadIsWrong: a changed bit in the bytes of any read is an error.
func (s *suite) everyReadIsWrong(t *testing.T) {
	s.eachRead(t, faultio.Flip(0, 4), false, fault.ErrCorrupt)
}

// cancel: a context that ends stops the store at every read.
func (s *suite) cancel(t *testing.T) {
	s.eachRead(t, faultio.Hang(), true, context.Canceled)
	in := stack(t)
	defer in.Close()
	st, err := open(s.c, in, featurestore.PlanOptions{})
	must(t)(err)
	defer func() { must(t)(st.close()) }()
	_, err = st.Fill(t.Context(), 0, progress.Discard)
	must(t)(err)
	must(t)(errors.Join(st.train.Start(featurestore.Ref{}), st.train.LoadGraph(t.Context()), st.train.Wait(t.Context())))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := st.train.Assemble(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("assembled after the end: %v", err)
	}
}

// ending is a stack that ends a context once a read was submitted, and records the reads in flight.
type ending struct {
	iostack.Stack
	left int // reads to submit before
	end  func()

	mu       sync.Mutex
	inFlight map[*iostack.Group]string // the file of a read
}

func (e *ending) Wait(ctx context.Context, g *iostack.Group) error {
	err := e.Stack.Wait(ctx, g)
	e.mu.Lock()
	delete(e.inFlight, g)
	e.mu.Unlock()
	return err
}

// over fails the test if a read was left in flight.
func (e *ending) over(t testing.TB) {
	t.Helper()
	for _, name := range e.inFlight {
		t.Errorf("nobody waited for a read of %s", name)
	}
}

func (e *ending) Submit(g *iostack.Group, reqs []iostack.Request) error {
	err := e.Stack.Submit(g, reqs)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inFlight == nil {
		e.inFlight = make(map[*iostack.Group]string)
	}
	for _, r := range reqs {
		e.inFlight[g] = r.File.Name()
	}
	if e.left -= len(reqs); e.left < 0 {
		e.end()
	}
	return err
}

// budget: less memory than the smallest layout needs is refused, the memory of a layout suffices, and the
// store holds no more.
func (s *suite) budget(t *testing.T) {
	o := featurestore.PlanOptions{Least: true, Slots: 2, EvalSlots: 1, Memory: 1 << 40, MostSlots: 2}
	least, err := s.c.Plan(o)
	must(t)(err)
	held := least.RAMBytes + least.KeepBytes + least.WindowBytes
	o.Memory = least.TableBytes + held + least.DecodeBytes + 2*least.SlotBytes + least.EvalSlotBytes
	if l, err := s.c.Plan(o); err != nil || l.CacheRows != least.CacheRows {
		t.Errorf("with just enough memory: %+v, %v", l, err)
	}
	o.Memory--
	if _, err := s.c.Plan(o); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("with a byte too little: %v", err)
	}
	in := stack(t)
	defer in.Close()
	const slack = 2 * device.PageSize // buffers are whole pages
	before := device.HostBytes()
	st, err := s.c.Open(in, least)
	must(t)(err)
	if n := device.HostBytes() - before; n > held+slack {
		t.Errorf("the store holds %d bytes of %d", n, held)
	}
	for _, eval := range []bool{false, true} {
		before := device.HostBytes()
		sl, err := st.View(0).NewSlot(eval)
		must(t)(err)
		want := least.SlotBytes
		if eval {
			want = least.EvalSlotBytes
		}
		if n := device.HostBytes() - before; n > want || n < want/4 {
			t.Errorf("a slot (evaluation: %t) holds %d bytes of %d", eval, n, want)
		}
		sl.Free()
	}
	must(t)(st.Close())
}

// steadyState: after some batches, loading further batches allocates almost no memory.
func (s *suite) steadyState(t *testing.T) {
	in, _, err := all.Open("pread", iostack.Options{Workers: 2})
	must(t)(err)
	defer in.Close()
	st, err := open(s.c, in, featurestore.PlanOptions{})
	must(t)(err)
	defer func() { must(t)(st.close()) }()
	_, err = st.Fill(t.Context(), 0, progress.Discard)
	must(t)(err)
	next := 0
	load := func() {
		must(t)(Load(t.Context(), st.train, featurestore.Ref{Index: next % s.facts.Train}))
		next++
	}
	for range s.facts.Train {
		load()
	}
	const most = 16 // names of files, closures: nothing that grows with the batch
	n := testing.AllocsPerRun(s.facts.Train, load)
	for range 2 { // AllocsPerRun counts all goroutines of the process: of several counts the least is the store's
		if n > most {
			n = min(n, testing.AllocsPerRun(s.facts.Train, load))
		}
	}
	if n > most {
		t.Errorf("a batch takes %v allocations", n)
	}
}
