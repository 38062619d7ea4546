package onthefly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/presampled"
	"diskgnn/featurestore/storetest"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

var (
	disk = vfs.Unsynced(vfs.OS)
	all  = math.Inf(1)
)

// params are those of batches in the order in which they are drawn.
func params(batch, epochs int, fanout, eval []int) mbfile.Params {
	return mbfile.Params{BatchSize: batch, Fanout: fanout, EvalFanout: eval, Epochs: epochs, TrainRatio: 1, Order: sampler.Random, Sampler: sampler.Version}
}

// open opens a source of a dataset, for as long as the test.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	if o.Workers == 0 {
		o.Workers = 3
	}
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	s, err := Open(context.Background(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// create makes a dataset.
func create(t testing.TB, p datasettest.Params) string {
	t.Helper()
	dir := t.TempDir()
	datasettest.Create(t, dir, p.Raw())
	return filepath.Join(dir, "dataset")
}

// refs lists all batches.
func refs(f featurestore.Facts) (list []featurestore.Ref) {
	for _, s := range []featurestore.Split{featurestore.Train, featurestore.Valid, featurestore.Test} {
		for i := range f.Batches(s) {
			list = append(list, featurestore.Ref{Split: s, Index: i})
		}
	}
	return list
}

// load takes a batch from a loader.
func load(l featurestore.Loader, r featurestore.Ref) (*graph.Batch, error) {
	if err := errors.Join(l.Start(r), l.Wait(context.Background())); err != nil {
		return nil, err
	}
	b, err := l.Decode()
	return b, errors.Join(err, l.Wait(context.Background())) // as of a batch that is given up
}

// newLoaders returns a loader of each kind.
func newLoaders(t testing.TB, s *Source) (train, eval featurestore.Loader, of *loaders) {
	t.Helper()
	l, err := s.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	train, err = l.NewLoader(false)
	if err == nil && s.facts.Valid+s.facts.Test > 0 {
		eval, err = l.NewLoader(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return train, eval, l.(*loaders)
}

// Facts, ranks and batches are those of samples that presample drew with the same
// parameters, in whatever order they are drawn, on any number of workers.
func TestBatchesAreTheSamples(t *testing.T) {
	var graphs []string
	for _, p := range []datasettest.Params{{Nodes: 5}, {Nodes: 20, AvgDegree: 3}, {Nodes: 90, AvgDegree: 6, MultiLabel: true}, {Nodes: 120, AvgDegree: 2, Seed: 1}} {
		graphs = append(graphs, create(t, p))
	}
	n, dir := 0, t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n++
		data, samples := rapid.SampledFrom(graphs).Draw(t, "graph"), filepath.Join(dir, fmt.Sprint(n))
		fanouts := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 5, mbfile.AllNeighbours}), 1, 3).Draw(t, "fanout")
		p := presample.Options{Dataset: data, Out: samples, BatchSize: rapid.IntRange(1, 20).Draw(t, "batch"), Epochs: rapid.IntRange(1, 4).Draw(t, "epochs"), Fanout: fanouts,
			EvalFanout: rapid.SampledFrom([]string{"same", "all"}).Draw(t, "eval"), TrainRatio: rapid.SampledFrom([]float64{0.3, 1}).Draw(t, "ratio"), Seed: rapid.Uint64Range(0, 3).Draw(t, "seed"),
			Sampler: rapid.SampledFrom([]string{sampler.Uniform, mbfile.Labor}).Draw(t, "sampler"), BatchDependency: 1}
		if p.Sampler == mbfile.Labor {
			p.BatchDependency, p.LayerDependency = rapid.IntRange(1, 4).Draw(t, "batch dependency"), rapid.Bool().Draw(t, "layer dependency")
		}
		if _, err := presample.Run(context.Background(), disk, p, progress.Discard); err != nil {
			t.Fatal(err)
		}
		want, err := presampled.Find(disk, data, samples)
		if err != nil {
			t.Fatal(err)
		}
		eval, err := sampler.EvalFanout(p.EvalFanout, fanouts)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Dataset: data, Params: params(p.BatchSize, p.Epochs, fanouts, eval), DryEpochs: all, Workers: rapid.IntRange(1, 4).Draw(t, "workers"), Memory: 1 << 30}
		o.TrainRatio, o.Seed = p.TrainRatio, p.Seed
		if err := sampler.SetMethod(&o.Params, p.Sampler, p.BatchDependency, p.LayerDependency); err != nil {
			t.Fatal(err)
		}
		got, err := Open(context.Background(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		if fmt.Sprint(got.Facts()) != fmt.Sprint(want.Facts()) {
			t.Fatalf("facts %+v, of the samples %+v", got.Facts(), want.Facts())
		}
		nodes := got.Facts().Nodes
		a, b := make([]uint32, nodes), make([]uint32, nodes)
		if err := errors.Join(got.Ranks(a), want.Ranks(b)); err != nil || !slices.Equal(a, b) {
			t.Fatalf("ranks %v, of the samples %v, %v", a, b, err)
		}
		r, err := mbfile.Open(disk, samples)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		l, _ := got.Open(nil)
		loaders := map[bool]featurestore.Loader{}
		list := refs(got.Facts())
		for _, i := range rapid.Permutation(identity(len(list))).Draw(t, "order") {
			ref := list[i]
			of := ref.Split != featurestore.Train
			if loaders[of] == nil {
				if loaders[of], err = l.NewLoader(of); err != nil {
					t.Fatal(err)
				}
			}
			batch, err := load(loaders[of], ref)
			var wanted graph.Batch
			_, more := r.Read(context.Background(), i, nil, &wanted)
			if err = errors.Join(err, more); err != nil {
				t.Fatal(err)
			}
			if err := same(batch, &wanted); err != nil {
				t.Fatalf("batch %d: %v", i, err)
			}
			input, _, err := got.Inputs(context.Background(), ref, nil)
			if err != nil || !slices.Equal(input, wanted.Input) {
				t.Fatalf("batch %d has the input nodes %v, not %v: %v", i, input, wanted.Input, err)
			}
			for k := range batch.Input {
				batch.Input[k] = 0 // as a store does, which names them by ranks
			}
		}
	})
}

func identity(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// same says what two batches differ in.
func same(a, b *graph.Batch) error {
	if len(a.Blocks) != len(b.Blocks) {
		return errors.New("other layers")
	}
	for l := range a.Blocks {
		x, y := &a.Blocks[l], &b.Blocks[l]
		if x.NumSrc != y.NumSrc || x.NumDst != y.NumDst || !slices.Equal(x.Indptr, y.Indptr) || !slices.Equal(x.Indices, y.Indices) || x.Dst != nil || y.Dst != nil {
			return fmt.Errorf("layer %d: %+v, not %+v", l, *x, *y)
		}
	}
	if !slices.Equal(a.Input, b.Input) || !slices.Equal(a.Degree, b.Degree) || !slices.Equal(a.Labels, b.Labels) || !slices.Equal(a.Targets, b.Targets) {
		return fmt.Errorf("%+v, not %+v", *a, *b)
	}
	return nil
}

// On the hand-drawn graph the training nodes are 0, 1 and 4, with in-neighbours 1 2 7, 0 3
// and 3 5 6 7. All are drawn: node 0's batch needs 0 1 2 7, node 1's 1 0 3, node 4's 4 3 5 6
// 7. Of the validation nodes 2 and 5 it needs 2 0 and 5 4, of the test nodes 3 and 6
// 3 0 1 2 4 and 6 4 5.
func TestTiny(t *testing.T) {
	dir := t.TempDir()
	datasettest.Create(t, dir, datasettest.Tiny(t))
	every := []int{mbfile.AllNeighbours}
	s := open(t, Options{Dataset: filepath.Join(dir, "dataset"), Params: params(1, 2, every, every), DryEpochs: all})
	f := s.Facts()
	want := featurestore.Facts{Nodes: 8, Dim: 3, DType: f.DType, RowBytes: 12, Classes: 2, Metric: "accuracy", Train: 6, Valid: 2, Test: 2, Epochs: 2, BatchesPerEpoch: 3,
		Fanout: every, EvalFanout: every, EpochSeeds: 3, EvalSeeds: 2,
		TrainSizes: graph.Sizes{Src: []int{5}, Dst: []int{1}, Edges: []int{4}}, TrainMeans: graph.Sizes{Src: []int{4}, Dst: []int{1}, Edges: []int{3}},
		EvalSizes: graph.Sizes{Src: []int{5}, Dst: []int{1}, Edges: []int{4}}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("facts\n%+v, want\n%+v", f, want)
	}
	// In both epochs 0, 1, 3 and 7 are needed twice, 2, 4, 5 and 6 once.
	ranks := make([]uint32, 8)
	if err := s.Ranks(ranks); err != nil || !slices.Equal(ranks, []uint32{0, 1, 4, 2, 5, 6, 7, 3}) {
		t.Errorf("ranks %v, %v", ranks, err)
	}
	if s.RanksBytes() != 12*7 {
		t.Errorf("counts of %d bytes", s.RanksBytes())
	}
}

// TestTrainingAlone is a source without batches for evaluation: they take nothing, and have no loader.
func TestTrainingAlone(t *testing.T) {
	raw := datasettest.Params{Nodes: 40, AvgDegree: 3}.Raw()
	raw.Train, raw.Valid, raw.Test = slices.Concat(raw.Train, raw.Valid, raw.Test), nil, nil
	slices.Sort(raw.Train)
	dir := t.TempDir()
	datasettest.Create(t, dir, raw)
	s := open(t, Options{Dataset: filepath.Join(dir, "dataset"), Params: params(4, 1, []int{2, 2}, []int{2, 2}), DryEpochs: all})
	if a, b := s.LoaderBytes(true), s.HeapBytes(true); a != 0 || b != 0 {
		t.Errorf("loaders for evaluation take %d bytes, %d of the heap", a, b)
	}
	if a, b := s.LoaderBytes(false), s.HeapBytes(false); a <= 0 || b <= 0 {
		t.Errorf("loaders for training take %d bytes, %d of the heap", a, b)
	}
	train, _, of := newLoaders(t, s)
	defer train.Free()
	if _, err := of.NewLoader(true); err == nil {
		t.Error("there is a loader for evaluation")
	}
	if _, err := load(train, featurestore.Ref{Split: featurestore.Train}); err != nil {
		t.Error(err)
	}
}

// The dry pass draws a part of an epoch, rounded up to a batch, or as many epochs as the run
// has; means and hotness are of those batches, and maxima have room for others.
func TestPartOfThePass(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 500, AvgDegree: 6, Seed: 3})
	p := params(20, 3, []int{2, 3}, []int{2, 3})
	whole := open(t, Options{Dataset: data, Params: p, DryEpochs: all})
	per := whole.Facts().BatchesPerEpoch
	if per < 8 {
		t.Fatalf("%d batches in an epoch", per)
	}
	for _, c := range []struct {
		epochs float64
		want   int
	}{{1e-9, 1}, {0.5, (per + 1) / 2}, {1, per}, {1.0001, per + 1}, {2, 2 * per}, {3, 3 * per}, {4, 3 * per}} {
		s := open(t, Options{Dataset: data, Params: p, DryEpochs: c.epochs})
		var sum tally
		hot := make([]uint32, 500)
		train, _, _ := newLoaders(t, whole)
		for i := range c.want {
			b, err := load(train, featurestore.Ref{Index: i})
			if err != nil {
				t.Fatal(err)
			}
			sum.add(b)
			for _, v := range b.Input {
				hot[v]++
			}
		}
		f := s.Facts()
		if s.dry != c.want || !reflect.DeepEqual(f.TrainMeans, sum.mean()) || !slices.Equal(s.hotness, hot) || !reflect.DeepEqual(f.EvalSizes, whole.Facts().EvalSizes) {
			t.Errorf("%v epochs: drew %d batches, means %+v, want %d, %+v", c.epochs, s.dry, f.TrainMeans, c.want, sum.mean())
		}
		if c.want == 3*per {
			if !reflect.DeepEqual(f.TrainSizes, sum.most) {
				t.Errorf("all epochs: sizes %+v, want %+v", f.TrainSizes, sum.most)
			}
			continue
		}
		if want := s.roomier(sum.most, sum.mean()); !reflect.DeepEqual(f.TrainSizes, want) || c.want > 1 && reflect.DeepEqual(want, sum.most) {
			t.Errorf("%v epochs: sizes %+v, want %+v", c.epochs, f.TrainSizes, want)
		}
	}
}

// Sizes with room are as far above the largest as that is above the mean, and never larger
// than a batch can be.
func TestRoomier(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 300, AvgDegree: 6, Seed: 3})
	s := open(t, Options{Dataset: data, Params: params(20, 3, []int{2, 3}, []int{2, 3}), DryEpochs: 1})
	for name, c := range map[string]struct{ most, mean, want graph.Sizes }{
		"twice the way": {
			graph.Sizes{Src: []int{110, 60}, Dst: []int{60, 20}, Edges: []int{90, 50}},
			graph.Sizes{Src: []int{100, 55}, Dst: []int{55, 19}, Edges: []int{80, 44}},
			graph.Sizes{Src: []int{120, 65}, Dst: []int{65, 20}, Edges: []int{100, 56}},
		},
		"at most every neighbour that may be drawn": { // 20 seed nodes draw 60 at most, 80 nodes 160
			graph.Sizes{Src: []int{200, 79}, Dst: []int{79, 20}, Edges: []int{150, 59}},
			graph.Sizes{Src: []int{100, 60}, Dst: []int{60, 20}, Edges: []int{100, 50}},
			graph.Sizes{Src: []int{240, 80}, Dst: []int{80, 20}, Edges: []int{160, 60}},
		},
		"at most every node": {
			graph.Sizes{Src: []int{290, 79}, Dst: []int{79, 20}, Edges: []int{158, 59}},
			graph.Sizes{Src: []int{100, 79}, Dst: []int{79, 20}, Edges: []int{158, 59}},
			graph.Sizes{Src: []int{237, 79}, Dst: []int{79, 20}, Edges: []int{158, 59}},
		},
	} {
		if got := s.roomier(c.most, c.mean); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	s.options.Fanout = []int{mbfile.AllNeighbours, 3}
	edges := int(s.data.Facts().Edges)
	got := s.roomier(graph.Sizes{Src: []int{290, 79}, Dst: []int{79, 20}, Edges: []int{edges - 1, 59}}, graph.Sizes{Src: []int{200, 79}, Dst: []int{79, 20}, Edges: []int{edges - 9, 59}})
	if got.Src[0] != 300 || got.Edges[0] != edges {
		t.Errorf("all neighbours: %+v of a graph of 300 nodes and %d edges", got, edges)
	}
}

// A batch beyond the maxima is refused, whether its memory or a count shows it. Once the
// source has grown it is drawn, and means, by which layers are ordered, are as before.
func TestGrow(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 2000, AvgDegree: 6, Seed: 3})
	s := open(t, Options{Dataset: data, Params: params(20, 3, []int{4, 5}, []int{4, 5}), DryEpochs: 1e-9})
	before := s.Facts()
	grown := map[bool]int{}
	for i := 0; i < before.Train; i++ {
		train, _, of := newLoaders(t, s)
		ref := featurestore.Ref{Index: i}
		_, err := load(train, ref)
		if err == nil {
			continue
		}
		var o *Outgrown
		if !errors.As(err, &o) || o.Ref != ref || !errors.Is(err, fault.ErrBudget) {
			t.Fatalf("batch %d: %v", i, err)
		}
		if _, err := train.Decode(); err == nil {
			t.Fatal("a batch that was refused can be decoded")
		}
		by, err := of.newDrawer(false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.draw(t.Context(), by, s.id(ref))
		if grown[errors.Is(err, errTooLarge)]++; grown[true]+grown[false] > 20 {
			t.Fatalf("batch %d: grown too often", i)
		}
		if err := s.Grow(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		i--
	}
	if grown[true] == 0 || grown[false] == 0 {
		t.Errorf("memory showed %d batches, counts %d", grown[true], grown[false])
	}
	if !reflect.DeepEqual(s.Facts().TrainMeans, before.TrainMeans) {
		t.Errorf("means %+v, before %+v", s.Facts().TrainMeans, before.TrainMeans)
	}
	s.options.Memory = budget.Reserve + s.TableBytes()
	if err := s.Grow(t.Context(), featurestore.Ref{Index: 3}); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "batch 3 of epoch 0 needs more memory than") {
		t.Errorf("without memory: %v", err)
	}
}

// Less memory means fewer workers, and the same facts; too little is refused.
func TestDryPassKeepsToMemory(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 3000, AvgDegree: 9, Seed: 4})
	o := Options{Dataset: data, Params: params(300, 2, []int{5, 9}, []int{5, 9}), DryEpochs: all, Workers: 8}
	o.Memory = 1 << 30
	want := open(t, o)
	refused, done := 0, 0
	for more := int64(100 << 10); more < 8<<20; more += more / 4 {
		o.Memory = budget.Reserve + want.TableBytes() + more
		s, err := Open(t.Context(), disk, o, progress.Discard)
		if err != nil {
			if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--fanout 5,9") {
				t.Fatal(err)
			}
			refused++
			continue
		}
		done++
		if !reflect.DeepEqual(s.Facts(), want.Facts()) || !slices.Equal(s.hotness, want.hotness) {
			t.Errorf("with %d bytes: facts %+v, want %+v", more, s.Facts(), want.Facts())
		}
		_ = s.Close()
	}
	if refused < 2 || done < 4 {
		t.Errorf("%d times refused, %d times done", refused, done)
	}
}

// Counts of an epoch agree with its batches, and are extrapolated from those that the dry pass draws.
func TestDrawn(t *testing.T) {
	o := Options{Dataset: create(t, datasettest.Params{Nodes: 100, AvgDegree: 3}), Params: params(10, 2, []int{2, mbfile.AllNeighbours}, []int{2, 2}), AllNodes: true}
	for dry, batches := range map[float64]int64{0.3: 3, 1: 10, 2: 20} {
		o.DryEpochs = dry
		s := open(t, o)
		train, _, _ := newLoaders(t, s)
		var inputs, edges int64
		for i := range int(batches) {
			b, err := load(train, featurestore.Ref{Index: i})
			if err != nil {
				t.Fatal(err)
			}
			inputs, edges = inputs+int64(len(b.Input)), edges+int64(b.NumEdges())
		}
		ofEpoch := func(n int64) int64 { return (20*n + batches) / (2 * batches) }
		want := Drawn{Batches: int(min(batches, 10)), SeedNodes: 100, InputNodes: ofEpoch(inputs), Edges: ofEpoch(edges), Amplification: float64(ofEpoch(inputs)) / 100, FeatureBytes: ofEpoch(inputs) * int64(s.Facts().RowBytes)}
		if got := s.Drawn(); got != want {
			t.Errorf("%v epochs: %+v, want %+v", dry, got, want)
		}
	}
}

// Everything that decides batches or ranks is in the lineage.
func TestLineage(t *testing.T) {
	o := Options{Dataset: create(t, datasettest.Params{Nodes: 100, AvgDegree: 3}), Params: params(10, 2, []int{2}, []int{2}), DryEpochs: 1}
	seen := map[string]string{}
	for name, change := range map[string]func(*Options){
		"as it is":    func(*Options) {},
		"dry":         func(o *Options) { o.DryEpochs = 2 },
		"seed":        func(o *Options) { o.Seed = 1 },
		"batch size":  func(o *Options) { o.BatchSize = 11 },
		"fanout":      func(o *Options) { o.Fanout = []int{3} },
		"eval fanout": func(o *Options) { o.EvalFanout = []int{3} },
		"epochs":      func(o *Options) { o.Epochs = 3 },
		"sampler":     func(o *Options) { o.Method = mbfile.Labor },
		"ratio":       func(o *Options) { o.TrainRatio = 0.5 },
		"all nodes":   func(o *Options) { o.AllNodes = true },
		"dataset":     func(o *Options) { o.Dataset = create(t, datasettest.Params{Nodes: 100, AvgDegree: 3, Seed: 2}) },
	} {
		changed := o
		change(&changed)
		l := open(t, changed).Lineage()
		if same, ok := seen[l.Samples]; ok || l.Dataset == "" || l.Store != "" {
			t.Errorf("%s: %+v, as %s", name, l, same)
		}
		seen[l.Samples] = name
	}
	if again := open(t, o).Lineage(); seen[again.Samples] != "as it is" {
		t.Errorf("another time: %+v", again)
	}
}

// The store of all rows passes the suite with batches that are drawn, and so do windows.
func TestConformance(t *testing.T) {
	find := func(t testing.TB, w *storetest.World) *Source {
		return open(t, Options{Dataset: w.Dataset, Params: params(w.Params.Batch, w.Params.Epochs, w.Params.Fanout, w.Params.Fanout), DryEpochs: all})
	}
	sample := func(dataset, out string, p storetest.Params) error {
		_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out, BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout}, progress.Discard)
		return err
	}
	for name, p := range map[string]storetest.Params{
		"float32":     {Params: datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 90}, Batch: 16, Epochs: 2, Drawn: true},
		"multi-label": {Params: datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 50, Classes: 11, MultiLabel: true}, Batch: 9, Epochs: 1, Drawn: true, Drive: true},
	} {
		w := storetest.NewWorld(t, p, sample)
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, w, func(t testing.TB, w *storetest.World) featurestore.Candidate {
				s := find(t, w)
				c, err := memory.Design().On(s, s.Dataset())
				if err != nil {
					t.Fatal(err)
				}
				return c
			})
		})
		t.Run(name+", window", func(t *testing.T) {
			storetest.RunWindow(t, w, func(t testing.TB, w *storetest.World) featurestore.Source { return find(t, w) })
		})
	}
}

// heap returns the bytes of Go's heap that are in use: the least that several collections
// leave, since what has a finalizer goes with the second one, and other goroutines of the
// runtime and of earlier tests come and go.
func heap() int64 {
	least := int64(math.MaxInt64)
	for range 4 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, int64(m.HeapAlloc))
	}
	return least
}

// A loader holds room for the neighbours of one node, which may be far more than a chunk.
func TestWideFanoutIsHeld(t *testing.T) {
	o := Options{Dataset: create(t, datasettest.Params{Nodes: 2000, AvgDegree: 3}), Params: params(50, 1, []int{sampler.MaxFanout}, []int{2}), DryEpochs: all, Workers: 2, Memory: 1 << 30}
	s := open(t, o)
	l, _ := s.Open(nil)
	before := heap()
	var loaders [3]featurestore.Loader
	for i := range loaders {
		loaders[i], _ = l.NewLoader(false)
		if _, err := load(loaders[i], featurestore.Ref{Index: i}); err != nil {
			t.Fatal(err)
		}
	}
	if got, most := heap()-before, int64(len(loaders))*s.LoaderBytes(false); got > most+4<<10 || got < most/2 {
		t.Errorf("loaders hold %d bytes of %d", got, most)
	}
	runtime.KeepAlive(loaders)
}

// A loader, a window and the source hold no more than they say, once all batches of many
// epochs were drawn, and not much less.
func TestHeld(t *testing.T) {
	for name, p := range map[string]datasettest.Params{
		"array": {Nodes: 40_000, AvgDegree: 8, Seed: 5},
		"hash":  {Nodes: 400_000, AvgDegree: 1, Seed: 5},
	} {
		o := Options{Dataset: create(t, p), Params: params(1000, 8, []int{5, 10}, []int{10, 10}), DryEpochs: all, Workers: 2, Memory: 1 << 30}
		o.TrainRatio = 4000 / (0.4 * float64(p.Nodes)) // four or five batches an epoch
		before := heap()
		s := open(t, o)
		if got, most := heap()-before, s.TableBytes(); got > most+64<<10 || got < most/4 {
			t.Errorf("%s: the source holds %d bytes of %d", name, got, most)
		}
		for _, eval := range []bool{false, true} {
			_, hash := s.samplerBytes(eval)
			if hash != (name == "hash") {
				t.Fatalf("%s: hash %t", name, hash)
			}
			l, _ := s.Open(nil)
			before := heap()
			var loaders [5]featurestore.Loader
			for i := range loaders {
				loaders[i], _ = l.NewLoader(eval)
			}
			for i := range s.facts.Train {
				ref := featurestore.Ref{Index: i}
				if eval {
					ref = featurestore.Ref{Split: featurestore.Valid, Index: i % s.facts.Valid}
				}
				if _, err := load(loaders[i%len(loaders)], ref); err != nil {
					t.Fatal(err)
				}
			}
			got, most := heap()-before, int64(len(loaders))*s.LoaderBytes(eval)
			if got > most+4<<10 || got < most/4 {
				t.Errorf("%s: loaders (evaluation: %t) hold %d bytes of %d", name, eval, got, most)
			}
			runtime.KeepAlive(loaders)
		}
		l, _ := s.Open(nil)
		before = heap()
		host := device.HostBytes()
		w, err := l.NewWindow(3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Seek(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got, most := heap()-before+device.HostBytes()-host, s.WindowBytes(3); got > most+4<<10 || got < most/4 {
			t.Errorf("%s: a window holds %d bytes of %d", name, got, most)
		}
		w.Free()
	}
}

// Drawing ends with its context, and what was not drawn cannot be decoded.
func TestCancel(t *testing.T) {
	s := open(t, Options{Dataset: create(t, datasettest.Params{Nodes: 300, AvgDegree: 4}), Params: params(16, 2, []int{3}, []int{3}), DryEpochs: 1})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	train, eval, of := newLoaders(t, s)
	for _, l := range []featurestore.Loader{train, eval} {
		ref := featurestore.Ref{Index: 0}
		if l == eval {
			ref.Split = featurestore.Valid
		}
		if err := errors.Join(l.Start(ref), l.Wait(ended)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", ref, err)
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Errorf("waited for once more: %v", err)
		}
		if _, err := l.Decode(); err == nil {
			t.Error("decoded")
		}
		if _, err := load(l, ref); err != nil {
			t.Errorf("started again: %v", err)
		}
	}
	w, err := of.NewWindow(2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	if _, err := w.Seek(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a window: %v", err)
	}
	if _, err := Open(ended, disk, s.options, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("opened: %v", err)
	}
}

// A topology that is damaged is found before anything is drawn; one that is cut off while
// batches are drawn is an error, too. Both say how the dataset is made again.
func TestDamage(t *testing.T) {
	o := Options{Dataset: create(t, datasettest.Params{Nodes: 60_000, AvgDegree: 4}), Params: params(16, 2, []int{3}, []int{3}), DryEpochs: 0.01, Workers: 2, Memory: 1 << 30}
	s := open(t, o)
	name := filepath.Join(o.Dataset, "indices.bin")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "make it again, by its diskgnn generate or import") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	train, _, _ := newLoaders(t, s)
	_, err = load(train, featurestore.Ref{})
	damaged("cut off", err)
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), disk, o, progress.Discard)
	damaged("changed", err)
}

// Parameters that make no sense are refused by the flag.
func TestRefusals(t *testing.T) {
	data, classes, bare := create(t, datasettest.Params{}), create(t, datasettest.Params{Nodes: 1000, Classes: 1000, MultiLabel: true}), filepath.Join(t.TempDir(), "dataset")
	raw := datasettest.Params{}.Raw()
	raw.Labels, raw.Classes, raw.Train, raw.Valid, raw.Test = nil, 0, nil, nil, nil
	datasettest.Create(t, filepath.Dir(bare), raw)
	if s := open(t, Options{Dataset: bare, Params: params(7, 1, []int{3}, []int{3}), DryEpochs: 1, AllNodes: true}); s.Facts().Train != 3 {
		t.Errorf("%d batches of 20 nodes without labels", s.Facts().Train)
	}
	for want, o := range map[string]Options{
		"--batch-size 0": {Dataset: data, Params: params(0, 1, []int{3}, []int{3})},
		"--fanout: 0 la": {Dataset: data, Params: params(1, 1, nil, nil)},
		"no dataset":     {Dataset: filepath.Join(data, "x"), Params: params(1, 1, []int{3}, []int{3})},
		"has no labels":  {Dataset: bare, Params: params(1, 1, []int{3}, []int{3})},
		// The classes of all nodes have more bytes than the classes of the splits.
		"reading the labels": {Dataset: classes, Params: params(100, 1, []int{3}, []int{3}), AllNodes: true, Memory: budget.Reserve + 1000*(4+125) - 1},
	} {
		o.DryEpochs, o.Workers, o.Memory = 1, 1, cmp.Or(o.Memory, 1<<30)
		if _, err := Open(t.Context(), disk, o, progress.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
