package presample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/samplertest"
	"diskgnn/presample/sampler/topology"
)

// disk is what the tests write to: syncs are counted, not waited for.
var disk = vfs.Unsynced(vfs.OS)

// files returns the content of a finished directory but for run.json, which
// tells of the run.
func files(t *testing.T, dir string) map[string]string { return stagetest.Files(t, dir) }

// create is datasettest.Create without the waits.
func create(t datasettest.TB, dir string, raw dataset.Raw) *dataset.Dataset {
	t.Helper()
	out := filepath.Join(dir, "dataset")
	if err := dataset.Create(disk, out, raw); err != nil {
		t.Fatalf("create the dataset: %v", err)
	}
	d, err := dataset.OpenAny(disk, out)
	if err != nil {
		t.Fatalf("open the dataset: %v", err)
	}
	return d
}

func mustRun(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t *testing.T, dir string) *mbfile.Reader {
	t.Helper()
	r, err := mbfile.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestTiny samples the hand-drawn graph, all neighbours, one layer: training
// nodes 0, 1, 4 of classes 0, 0, 1; validation 2, 5; test 3, 6.
func TestTiny(t *testing.T) {
	dir := vfstest.TempDir(t)
	d := create(t, dir, datasettest.Tiny(t))
	o := Options{Dataset: d.Dir(), Out: filepath.Join(dir, "S"), BatchSize: 3, Fanout: []int{all}}
	res := mustRun(t, o)
	want := Result{
		Out: o.Out, State: "new", Batches: 3, Epochs: 1, TrainBatches: 1, ValidBatches: 1, TestBatches: 1,
		SeedNodes: 7, InputNodes: 8 + 4 + 7, Edges: 9 + 2 + 6, Table: "array", Topology: "mapped",
		FeatureBytes: 8 * 3 * 4,
	}
	if d := cmp.Diff(want, res, cmpopts.IgnoreFields(Result{}, "Fingerprint", "Workers", "Seconds", "VerifySeconds", "SampleSeconds",
		"EdgesPerSecond", "BatchesPerSecond", "BytesWritten", "DiskBytes", "PeakRSS", "PeakAnon")); d != "" {
		t.Error(d)
	}
	r := open(t, o.Out)
	if err := stage.CheckParent(o.Out, r.Meta(), stage.RoleDataset, d.Dir(), d.Fingerprint()); err != nil {
		t.Error(err)
	}
	if res.Fingerprint != r.Fingerprint() || res.BytesWritten <= 0 || res.DiskBytes < res.BytesWritten {
		t.Errorf("%+v", res)
	}
	var b graph.Batch
	read := func(i int) *graph.Batch {
		if _, err := r.Read(t.Context(), i, nil, &b); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	// Validation: 2 ← 0 and 5 ← 4. Test: 3 ← 0, 1, 2, 4 and 6 ← 4, 5.
	if d := cmp.Diff(&graph.Batch{
		Blocks: []graph.Block{{NumSrc: 4, NumDst: 2, Indptr: []uint32{0, 1, 2}, Indices: []uint32{2, 3}}},
		Input:  []uint32{2, 5, 0, 4}, Degree: []uint32{1, 1, 3, 4}, Labels: []int32{0, 1},
	}, read(1)); d != "" {
		t.Errorf("validation: %s", d)
	}
	if d := cmp.Diff(&graph.Batch{
		Blocks: []graph.Block{{NumSrc: 7, NumDst: 2, Indptr: []uint32{0, 4, 6}, Indices: []uint32{2, 3, 4, 5, 5, 6}}},
		Input:  []uint32{3, 6, 0, 1, 2, 4, 5}, Degree: []uint32{4, 2, 3, 2, 1, 4, 1}, Labels: []int32{0, 1},
	}, read(2)); d != "" {
		t.Errorf("test: %s", d)
	}
	// Training, in the order that chance gave: 0 ← 1, 2, 7; 1 ← 0, 3; 4 ← 3, 5, 6, 7.
	train := read(0)
	if d := cmp.Diff([]uint32{0, 1, 4}, slices.Sorted(slices.Values(train.Input[:3]))); d != "" {
		t.Errorf("training: seed nodes: %s", d)
	}
	raw := datasettest.Tiny(t)
	if err := samplertest.Check(&graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}, train, train.Input[:3], []int{all}); err != nil {
		t.Errorf("training: %v", err)
	}
	hot, err := r.Hotness()
	if d := cmp.Diff([]uint32{1, 1, 1, 1, 1, 1, 1, 1}, hot); err != nil || d != "" {
		t.Errorf("hotness: %v %s", err, d)
	}
}

// TestRunProperties compares whole directories with the reference.
func TestRunProperties(t *testing.T) {
	dir := vfstest.TempDir(t)
	rapid.Check(t, func(t *rapid.T) {
		tmp, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		nodes := rapid.IntRange(1, 120).Draw(t, "nodes")
		raw := datasettest.Params{
			Nodes: nodes, AvgDegree: rapid.Float64Range(0, 20).Draw(t, "degree"), Seed: rapid.Uint64().Draw(t, "graph"),
			MultiLabel: rapid.Bool().Draw(t, "multi-label"), Classes: rapid.SampledFrom([]int{3, 8, 19}).Draw(t, "classes"),
			Typed: nodes > 3 && rapid.Bool().Draw(t, "typed"),
		}.Raw()
		if len(raw.Train) == 0 {
			t.Skip("no training nodes")
		}
		d := create(t, tmp, raw)
		fanout := genFanout(t)
		o := Options{
			Dataset: d.Dir(), Out: filepath.Join(tmp, "S"), Fanout: fanout,
			BatchSize:  rapid.IntRange(1, 40).Draw(t, "batch"),
			EvalFanout: rapid.SampledFrom([]string{"same", "all", strings.Repeat("2,", len(fanout)-1) + "2"}).Draw(t, "eval"),
			Epochs:     rapid.IntRange(1, 3).Draw(t, "epochs"),
			TrainRatio: rapid.SampledFrom([]float64{1, 0.5, 0.01}).Draw(t, "ratio"),
			Seed:       rapid.Uint64().Draw(t, "seed"),
			Workers:    rapid.IntRange(1, 3).Draw(t, "workers"),
			Sampler:    rapid.SampledFrom([]string{SamplerUniform, SamplerLabor}).Draw(t, "sampler"),
		}
		if raw.Types != nil {
			o.Sampler, o.Merged = SamplerUniform, rapid.Bool().Draw(t, "merged")
			if !o.Merged && rapid.Bool().Draw(t, "by relation") {
				o.RelationFanout = map[string][]int{"author:writes:paper": genFanout(t)}
				o.Fanout = slices.Repeat([]int{2}, len(o.RelationFanout["author:writes:paper"]))
				o.EvalFanout = rapid.SampledFrom([]string{"same", "all"}).Draw(t, "eval by relation")
			}
		}
		if o.Sampler == SamplerLabor {
			o.BatchDependency = rapid.SampledFrom([]int{1, 3, 64}).Draw(t, "batch dependency")
			o.LayerDependency = rapid.Bool().Draw(t, "layer dependency")
		}
		if _, err := Run(context.Background(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		r, err := mbfile.Open(disk, o.Out)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		compare(t, d, r)
	})
}

// compare checks every batch of a directory against the reference, and what the
// directory says of them.
func compare(t *rapid.T, d *dataset.Dataset, r *mbfile.Reader) {
	p := r.Params()
	s, err := sampler.Load(context.Background(), d, p, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	topology, err := d.Topology(context.Background(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer topology.Close()
	targets, err := d.Targets(context.Background(), everyNode(d))
	if err != nil {
		t.Fatal(err)
	}
	f, row := r.Facts(), d.TargetBytes()
	if f.TargetBytes != row || f.Epochs != p.Epochs || f.BatchesPerEpoch != s.Batches(sampler.Train) || !f.Types.Equal(d.Facts().Types) || f.Layers != len(p.Fanout) {
		t.Fatalf("%+v", f)
	}
	hot := make([]uint32, f.Nodes)
	var train, eval mbfile.Summary
	var got graph.Batch
	for i := range f.Batches() {
		fanout, sum := p.Fanout, &train
		if _, hi := r.Train(); i >= hi {
			fanout, sum = p.EvalFanout, &eval
		}
		var seeds sampler.Picked
		id := s.Nth(i)
		key := s.Pick(id, &seeds)
		var want *graph.Batch
		if f.Types == nil {
			want = samplertest.Sample(&topology.CSC, seeds.Nodes, fanout, key)
		} else {
			want = samplertest.SampleTyped(&topology.CSC, f.Types, seeds.Nodes, samplertest.DrawsOf(p, f.Types, id.Split != sampler.Train), key)
		}
		if p.Method == mbfile.Labor {
			which := samplertest.Which{Epoch: uint64(id.Epoch), Index: id.Index, PerEpoch: s.Batches(sampler.Train)}
			if id.Split != sampler.Train { // as the last epochs but one and two
				which = samplertest.Which{Epoch: -uint64(id.Split), Index: id.Index}
			}
			want = samplertest.Labor(&topology.CSC, seeds.Nodes, fanout, samplertest.LotsOf(p, which))
		}
		want.Labels = seeds.Labels
		for _, v := range seeds.Nodes {
			want.Targets = append(want.Targets, targets[int(v)*row:int(v+1)*row]...)
		}
		if _, err := r.Read(context.Background(), i, nil, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, &got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(graph.Types{})); d != "" {
			t.Fatalf("batch %d: %s", i, d)
		}
		sum.SeedNodes += int64(len(seeds.Nodes))
		sum.InputNodes += int64(len(want.Input))
		sum.Edges += int64(want.NumEdges())
		sum.Max.Cover(want)
		if sum == &train {
			for _, v := range want.Input {
				hot[v]++
			}
		}
	}
	counted, err := r.Hotness()
	if d := cmp.Diff(hot, counted); err != nil || d != "" {
		t.Fatalf("hotness: %v %s", err, d)
	}
	for name, sums := range map[string][2]mbfile.Summary{"train": {train, f.Train}, "eval": {eval, f.Eval}} {
		if d := cmp.Diff(sums[0], sums[1], cmpopts.EquateEmpty(), cmpopts.IgnoreFields(mbfile.Summary{}, "Bytes", "Mean")); d != "" {
			t.Fatalf("%s: %s", name, d)
		}
	}
}

// everyNode lists the nodes of a dataset.
func everyNode(d *dataset.Dataset) []uint32 {
	nodes := make([]uint32, d.Facts().Nodes)
	for v := range nodes {
		nodes[v] = uint32(v)
	}
	return nodes
}

const all = mbfile.AllNeighbours

func genFanout(t *rapid.T) []int {
	one := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 100), rapid.Just(all))
	return rapid.SliceOfN(one, 1, 4).Draw(t, "fanout")
}

// testOptions is a run of a few dozen batches in several files.
func testOptions(t *testing.T, dir string) Options {
	raw := datasettest.Params{Nodes: 400, AvgDegree: 12, Seed: 9}.Raw()
	d := create(t, dir, raw)
	return Options{
		Dataset: d.Dir(), Out: filepath.Join(dir, "S"), BatchSize: 32, Fanout: []int{3, 5}, EvalFanout: "all", Epochs: 3, Seed: 4,
		Workers: 2, Memory: 1 << 30, batchesPerFile: 8,
	}
}

func TestSameBytesForAnyWorkersAndMemory(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	for _, workers := range []int{1, 2, 7} {
		for _, memory := range []int64{256 << 20, 1 << 30, 8 << 30} {
			o.Workers, o.Memory = workers, memory
			o.Out = filepath.Join(dir, fmt.Sprint(workers, memory))
			mustRun(t, o)
			if d := cmp.Diff(want, files(t, o.Out)); d != "" {
				t.Errorf("%d workers, %d bytes: %.300s", workers, memory, d)
			}
		}
	}
}

// TestOtherSeedsOtherBatches guards against a seed that is not used.
func TestOtherSeedsOtherBatches(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	mustRun(t, o)
	first := files(t, o.Out)
	o.Out, o.Seed = filepath.Join(dir, "other"), 5
	mustRun(t, o)
	if second := files(t, o.Out); first["batches-00000.bin"] == second["batches-00000.bin"] {
		t.Error("two seeds, one sample")
	}
	r := open(t, o.Out)
	var a, b graph.Batch
	per := r.Facts().BatchesPerEpoch
	if _, err := r.Read(t.Context(), 0, nil, &a); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context(), per, nil, &b); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(a.Input, b.Input) {
		t.Error("two epochs, one sample")
	}
}

func TestRerun(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	first := mustRun(t, o)
	before := files(t, o.Out)
	again := mustRun(t, o)
	if again.State != "done" || again.Fingerprint != first.Fingerprint || again.Edges != first.Edges || again.BytesWritten != 0 {
		t.Errorf("%+v", again)
	}
	o.Epochs = 1
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--epochs was 3, now 1") {
		t.Error(err)
	}
	if d := cmp.Diff(before, files(t, o.Out)); d != "" {
		t.Errorf("a refusal changed the directory: %.300s", d)
	}
	o.Force = true
	if r := mustRun(t, o); r.State != "new" || r.Epochs != 1 {
		t.Errorf("%+v", r)
	}
}

// TestEveryFailure fails each operation in turn, alone and with all later ones:
// nothing may pass for finished that is not, and the next run must end with the
// same bytes.
func TestEveryFailure(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			o.Out = filepath.Join(dir, fmt.Sprint(after, n))
			in := &vfs.FailAt{N: n, After: after, Err: errors.New("boom")}
			_, err := Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard)
			if (err != nil) != in.Fired() {
				t.Fatalf("%v: fired %t, %v", in, in.Fired(), err)
			}
			if !in.Fired() {
				break
			}
			if _, err := os.Stat(o.Out); err == nil {
				if d := cmp.Diff(want, files(t, o.Out), cmpopts.IgnoreMapEntries(func(name, _ string) bool { return name == "journal.json" || name == "lock" })); d != "" {
					t.Errorf("%v: a wrong directory passes for finished: %.300s", in, d)
				}
			}
			r := mustRun(t, o)
			if d := cmp.Diff(want, files(t, o.Out)); d != "" {
				t.Fatalf("after %v (%s): %.300s", in, r.State, d)
			}
			if err := os.RemoveAll(o.Out); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// canceller calls cancel when the n-th batch is sampled, and after it.
type canceller struct {
	progress.Reporter
	left   atomic.Int64
	cancel context.CancelFunc
}

func (c *canceller) Task(name string, _ int64, _ progress.Unit) progress.Task {
	return &cancelTask{progress.Discard.Task("", 0, ""), c, name == "sample"}
}

type cancelTask struct {
	progress.Task
	c      *canceller
	counts bool
}

func (t *cancelTask) Add(n int64) {
	if t.counts && t.c.left.Add(-n) <= 0 {
		t.c.cancel()
	}
}

func TestCancelAndResume(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	batches := open(t, o.Out).Facts().Batches()
	resumed := 0
	for at := 1; at < batches; at += 3 {
		o.Out = filepath.Join(dir, fmt.Sprint("cancel", at))
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(int64(at))
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at batch %d: %v", at, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Fatalf("cancelled at batch %d, and finished", at)
		}
		if r := mustRun(t, o); r.State != "resumed" {
			t.Errorf("cancelled at batch %d: %s", at, r.State)
		} else if r.Resumed > 0 {
			resumed++
		}
		if d := cmp.Diff(want, files(t, o.Out)); d != "" {
			t.Fatalf("cancelled at batch %d: %.300s", at, d)
		}
	}
	if resumed == 0 {
		t.Error("no run went on where another had stopped")
	}
}

// TestBadDatasets checks that a damaged or unusable dataset ends in an error of
// its kind that names the file, and leaves nothing finished behind.
func TestBadDatasets(t *testing.T) {
	change := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, string)
		kind  error
		says  string
	}{
		"a changed neighbour": {change("indices.bin"), fault.ErrCorrupt, "indices.bin"},
		"a changed offset":    {change("indptr.bin"), fault.ErrCorrupt, "indptr.bin"},
		"a changed label":     {change("labels.bin"), fault.ErrCorrupt, "labels.bin"},
		"a changed seed node": {change("train.bin"), fault.ErrCorrupt, "train.bin"},
		"a changed fact":      {change("meta.json"), fault.ErrCorrupt, "meta.json"},
		"a truncated file": {func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "indices.bin"), 8); err != nil {
				t.Fatal(err)
			}
		}, fault.ErrCorrupt, "indices.bin"},
		"no dataset": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, fault.ErrInput, "no dataset"},
	} {
		dir := vfstest.TempDir(t)
		o := testOptions(t, dir)
		c.spoil(t, o.Dataset)
		_, err := Run(t.Context(), disk, o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: something passes for finished", name)
		}
	}
}

// TestDatasetShrinks truncates the mapped topology while batches are drawn from
// it.
func TestDatasetShrinks(t *testing.T) {
	for _, name := range []string{"indices.bin", "indptr.bin"} {
		dir := vfstest.TempDir(t)
		o := testOptions(t, dir)
		c := &canceller{Reporter: progress.Discard, cancel: func() { _ = os.Truncate(filepath.Join(o.Dataset, name), 0) }}
		c.left.Store(1)
		if _, err := Run(t.Context(), disk, o, c); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: something passes for finished", name)
		}
	}
}

func TestEmptyTrainingSet(t *testing.T) {
	dir := vfstest.TempDir(t)
	raw := datasettest.Tiny(t)
	raw.Train = nil
	d := create(t, dir, raw)
	if _, err := Run(t.Context(), disk, Options{Dataset: d.Dir(), Out: filepath.Join(dir, "S")}, progress.Discard); !errors.Is(err, fault.ErrInput) {
		t.Error(err)
	}
}

// TestNoEvaluation samples a dataset without validation and test nodes.
func TestNoEvaluation(t *testing.T) {
	dir := vfstest.TempDir(t)
	raw := datasettest.Tiny(t)
	raw.Valid, raw.Test = nil, nil
	d := create(t, dir, raw)
	o := Options{Dataset: d.Dir(), Out: filepath.Join(dir, "S"), BatchSize: 2}
	if r := mustRun(t, o); r.Batches != 2 || r.ValidBatches+r.TestBatches != 0 {
		t.Errorf("%+v", r)
	}
	if f := open(t, o.Out).Facts(); len(f.Eval.Max.Src) != 0 || f.Eval.Edges != 0 {
		t.Errorf("%+v", f.Eval)
	}
}

func TestBudget(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	for _, memory := range []int64{1, 1 << 20, budget.Reserve} {
		o.Memory = memory
		if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%d bytes: %v", memory, err)
		}
	}
	o.Memory, o.Workers = 256<<20, 64
	if r := mustRun(t, o); r.Workers != o.Workers {
		t.Errorf("%d workers, though batches of this graph are small", r.Workers)
	}
}

// TestTablesAreFreed samples a graph with tables outside the heap: nothing is left of them, nor of the counts of nodes.
func TestTablesAreFreed(t *testing.T) {
	dir := vfstest.TempDir(t)
	raw := datasettest.Params{Nodes: 600_000, AvgDegree: 1}.Raw()
	raw.Train, raw.Valid, raw.Test = raw.Train[:3000], nil, nil
	o := Options{Dataset: create(t, dir, raw).Dir(), Out: filepath.Join(dir, "S"), Workers: 3}
	o.EnsureDefaults()
	before := device.HostBytes()
	log := new(logger)
	if err := runWith(t, o, allotment{workers: 3, share: 1 << 18}, log); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("a table of more than a share: %v", err)
	}
	if n := device.HostBytes() - before; n != 0 {
		t.Errorf("%d bytes are left after an error", n)
	}
	o.Force = true
	if r := mustRun(t, o); r.Table != "array" || r.PeakAnon < 3*sampler.ArrayMemory(600_000) {
		t.Errorf("%+v", r)
	}
	if n := device.HostBytes() - before; n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// TestHalvesWorkers gives four workers memory that holds the largest batch of one
// alone: the same bytes must come of it, and an error when not even one fits.
func TestHalvesWorkers(t *testing.T) {
	dir := vfstest.TempDir(t)
	o := testOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	f := open(t, o.Out).Facts()
	most := sampler.Extent{Nodes: f.Nodes, Dst: 2 * f.Nodes, Edges: 2 * int64(max(slices.Max(f.Train.Max.Edges), slices.Max(f.Eval.Max.Edges)))}
	enough := allotment{workers: 1}.need(most, sampler.ArrayMemory(f.Nodes))
	o.EnsureDefaults()
	for _, c := range []struct {
		free int64
		says string // of the error
	}{{enough, ""}, {enough / 8, "give more"}} {
		o.Out = filepath.Join(dir, fmt.Sprint(c.free))
		log := new(logger)
		err := runWith(t, o, allotment{workers: 4, share: c.free / 4}, log)
		if !strings.Contains(log.String(), "continuing with 2 workers") || !strings.Contains(log.String(), "continuing with 1 workers") {
			t.Errorf("%d bytes: log %q", c.free, log)
		}
		if c.says != "" {
			if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d bytes: %v", c.free, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, files(t, o.Out)); d != "" {
			t.Errorf("%d bytes: %.300s", c.free, d)
		}
	}
}

// runWith is Run with an allotment given.
func runWith(t *testing.T, o Options, p allotment, rep progress.Reporter) error {
	t.Helper()
	ctx := t.Context()
	d, err := dataset.Open(disk, o.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	s := &sampling{o: o, out: o.Out, fs: disk, data: d, rep: rep, task: progress.Discard.Task("", 0, "")}
	if s.params, err = o.params(); err != nil {
		t.Fatal(err)
	}
	dir, _, err := stage.Begin(disk, o.Out, stage.Spec{Format: mbfile.Format, Params: s.params, Parents: map[string]string{stage.RoleDataset: d.Fingerprint()}}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := s.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	if s.topology, err = topology.Open(ctx, d, topology.Options{Level: topology.Mapped, Workers: 1}, rep); err != nil {
		t.Fatal(err)
	}
	defer s.topology.Close()
	if s.writer, err = mbfile.NewWriter(ctx, dir, s.layout, rep); err != nil {
		t.Fatal(err)
	}
	defer s.writer.Close()
	phases, err := s.allot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, ph := range phases {
		ph.allotment = p
		if _, err := s.samplePhase(ctx, ph); err != nil {
			return err
		}
	}
	files, facts, err := s.writer.Finish(s.params.Epochs)
	if err != nil {
		return err
	}
	_, err = dir.Commit(files, facts, nil)
	return err
}

// logger keeps what is reported.
type logger struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logger) Task(string, int64, progress.Unit) progress.Task {
	return progress.Discard.Task("", 0, "")
}

func (l *logger) Logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l, format+"\n", args...)
}
