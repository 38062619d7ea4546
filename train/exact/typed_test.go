package exact

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
	"diskgnn/train/oracle"
	"diskgnn/train/recipe"
)

// typedKinds are the typed models. Dims and types are the test's.
var typedKinds = map[string]model.Model{
	"rsage":       {Kind: model.RSAGE},
	"rsage, elu":  {Kind: model.RSAGE, Activation: model.ELU},
	"rgcn":        {Kind: model.RGCN},
	"rgcn, bases": {Kind: model.RGCN, Bases: 2},
	"rgat":        {Kind: model.RGAT, Heads: 2},
	"rgat, relu":  {Kind: model.RGAT, Heads: 1, Activation: model.ReLU},
}

// typedRaw returns a dataset of these types, with random rows of up to degree sources, and one of hub sources. Labels
// and splits are of the type labelled.
func typedRaw(rng *rand.Rand, types *graph.Types, labelled, dim, classes, degree, hub int) dataset.Raw {
	n := types.NumNodes()
	raw := dataset.Raw{Types: types, LabelledType: labelled, Dim: dim, DType: dtype.Float32, Classes: classes, Indptr: []int64{0}, Labels: make([]int32, n)}
	for row := range types.NumRows() {
		_, r := types.RowOf(row)
		lo, hi := types.Range(types.Relations[r].Source)
		many := rng.IntN(degree+1) * rng.IntN(2)
		if row == types.NumRows()/2 {
			many = hub
		}
		var list []uint32
		for range many {
			list = append(list, uint32(lo+rng.Int64N(hi-lo)))
		}
		slices.Sort(list)
		raw.Indices = append(raw.Indices, list...)
		raw.Indptr = append(raw.Indptr, int64(len(raw.Indices)))
	}
	x := make([]float32, int(types.NumFeatureRows())*dim)
	for row := range int(types.NumFeatureRows()) {
		for c := 0; c < dim && types.Nodes[types.OfFeatureRow(uint32(row))].Features; c++ {
			x[row*dim+c] = float32(rng.NormFloat64())
		}
	}
	raw.Features = binio.Bytes(x)
	lo, hi := types.Range(labelled)
	for v := range n {
		if raw.Labels[v] = graph.Unlabelled; v < lo || v >= hi {
			continue
		}
		raw.Labels[v] = int32(rng.IntN(classes))
		split := []*[]uint32{&raw.Train, &raw.Valid, &raw.Test}[rng.IntN(3)]
		*split = append(*split, uint32(v))
	}
	return raw
}

// randomTypes returns graphtest's, with other numbers of nodes.
func randomTypes(rng *rand.Rand, most int) *graph.Types {
	types := graphtest.Types(rng, 1)
	for i := range types.Nodes {
		types.Nodes[i].Count = int64(rng.IntN(most) + 1)
	}
	if err := types.Check(); err != nil {
		panic(err)
	}
	return types
}

// typedOracle returns the output of each layer of the run on the graph, by the formulas alone, of all nodes.
func (w *world) typedOracle(t datasettest.TB) (layers [][][]float64, largest float64) {
	t.Helper()
	r, err := oracle.OpenRun(w.path("run"), "weights.safetensors")
	check(t, err)
	d, err := oracle.OpenDataset(w.path("dataset"))
	check(t, err)
	layers = r.TypedLayers(d.Typed)
	if names := r.Unused(); len(names) > 0 {
		t.Fatalf("the formulas do not have %v", names)
	}
	return layers, r.Largest
}

// seeds returns the nodes of the seed type.
func (w *world) seeds() (ids []uint32) {
	lo, hi := w.raw.Types.Range(w.model.Types.Seed)
	for v := lo; v < hi; v++ {
		ids = append(ids, uint32(v))
	}
	return ids
}

// of returns the rows of nodes.
func of(rows [][]float64, nodes []uint32) (some [][]float64) {
	for _, v := range nodes {
		some = append(some, rows[v])
	}
	return some
}

// tightTyped is tight for a typed graph.
func (w *world) tightTyped(t datasettest.TB, share float64) int64 {
	t.Helper()
	var least, most int64
	for back := 1; back <= 2; back++ {
		j := &job{fs: disk, options: w.options(), report: progress.Discard, parts: parts{stack: all.Open, room: 1 << 40}}
		j.options.EnsureDefaults()
		check(t, j.do(context.Background(), func(ctx context.Context) error {
			last := j.model.Layers() - back
			if last < 0 {
				return nil
			}
			f := j.data.Facts()
			for _, ids := range [][]uint32{nil, w.seeds()} {
				nodes := j.everyNode(&f)
				if nodes.ids = ids; ids != nil {
					nodes.nodes = 0
				}
				if err := j.decide(ctx, last, nodes, 0); err != nil {
					return err
				}
				need, _ := j.least()
				least, most = max(least, need), max(most, need, j.most())
			}
			return nil
		}))
	}
	return least + int64(share*float64(most-least))
}

// genTyped draws a typed world, with its last layer's outputs by the formulas.
func genTyped(t *rapid.T, dir string) (w *world, layers [][][]float64, most float64) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	m := typedKinds[rapid.SampledFrom([]string{"rgat", "rgat, relu", "rgcn", "rgcn, bases", "rsage", "rsage, elu"}).Draw(t, "kind")]
	hidden := rapid.IntRange(0, 2).Draw(t, "hidden")
	for {
		types := randomTypes(rng, 1+rng.IntN(30))
		seed := rng.IntN(len(types.Nodes))
		m.Dims = []int{rng.IntN(7) + 1}
		for range hidden {
			m.Dims = append(m.Dims, 2*(rng.IntN(4)+1))
		}
		m.Dims = append(m.Dims, rng.IntN(5)+1)
		m.Types = recipe.Types(types, seed)
		if m.Validate() == nil {
			w = newWorldOf(t, dir, typedRaw(rng, types, seed, m.Dims[0], m.Classes(), rng.IntN(7), rng.IntN(80)), m)
			layers, most = w.typedOracle(t)
			return w, layers, tolerance * max(1, most)
		}
	}
}

// Any typed model computes its formulas on any graph, for any memory: with types without features, types that no
// relation leads to, relations within a type, seed nodes of any type, and lists that are folded.
func TestAnyTypedModel(t *testing.T) {
	fold := grid.Fold
	t.Cleanup(func() { grid.Fold = fold })
	root := vfstest.TempDir(t)
	n, tiles, folded, dead := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := fmt.Sprintf("%s/%d", root, n)
		check(t, os.Mkdir(dir, 0o777))
		defer os.RemoveAll(dir)
		grid.Fold = rapid.SampledFrom([]int{5, 1 << 12}).Draw(t, "fold")
		w, want, most := genTyped(t, dir)
		o := PredictOptions{Options: w.options(), Nodes: rapid.SampledFrom([]string{AllNodes, dataset.Train, dataset.Test}).Draw(t, "of")}
		last := len(want) - 1
		if last > 0 && w.model.Alive(last)[w.model.Types.Seed] && rapid.Bool().Draw(t, "embeddings") {
			last, o.Output = last-1, Embeddings
		}
		nodes := map[string][]uint32{AllNodes: w.seeds(), dataset.Train: w.raw.Train, dataset.Test: w.raw.Test}[o.Nodes]
		if len(nodes) == 0 {
			return
		}
		got, p := w.predict(t, o, w.tightTyped(t, rapid.Float64Range(0, 1).Draw(t, "room")))
		near(t, w.model.Types.Nodes[w.model.Types.Seed], got, of(want[last], nodes), most)
		o.BLAS, o.Threads = "auto", 3
		got, _ = w.predict(t, o, 0)
		near(t, "with the fastest products", got, of(want[last], nodes), most)
		for _, l := range p.Layers {
			if l.Ranges > 1 {
				tiles++
			}
		}
		if grid.Fold == 5 {
			folded++
		}
		for _, row := range want[0] {
			if row == nil {
				dead++
			}
		}
	})
	if tiles == 0 || folded == 0 || dead == 0 {
		t.Errorf("%d layers of several tiles, %d graphs with folds, %d nodes without rows", tiles, folded, dead)
	}
}

// fewTypes has seed nodes of the second type, a type without features, and relations between all.
func fewTypes() *graph.Types {
	types := &graph.Types{
		Nodes: []graph.NodeType{{Name: "a", Count: 130, Features: true}, {Name: "b", Count: 91, Features: true}, {Name: "c", Count: 37}},
		Relations: []graph.Relation{{Source: 1, Name: "p"}, {Source: 0, Name: "q", Destination: 1}, {Source: 1, Name: "r", Destination: 1},
			{Source: 2, Name: "s", Destination: 1}, {Source: 1, Name: "t", Destination: 2}},
	}
	if err := types.Check(); err != nil {
		panic(err)
	}
	return types
}

// Results have the same bits for any memory, any threads, any other nodes beside, and lists or splits of nodes.
func TestTypedMemoryDoesNotShow(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	types := fewTypes()
	for name, m := range typedKinds {
		m.Dims, m.Types = []int{12, 10, 6, 4}, recipe.Types(types, 1)
		w := newWorldOf(t, vfstest.TempDir(t), typedRaw(rng, types, 1, 12, 4, 9, 300), m)
		want, whole := w.predict(t, PredictOptions{}, 0)
		ranges := 0
		for i, share := range []float64{0, 0.01, 0.1, 0.4, 0.8} {
			o := PredictOptions{Options: w.options()}
			o.Threads = 1 + i%2
			got, p := w.predict(t, o, w.tightTyped(t, share))
			if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
				t.Errorf("%s: at %v of the memory other bits", name, share)
			}
			ranges = max(ranges, p.Layers[0].Ranges)
			test, _ := w.predict(t, PredictOptions{Options: o.Options, Nodes: dataset.Test}, w.tightTyped(t, share))
			for i, v := range w.raw.Test {
				if at := 4 * (int(v) - 130); !slices.Equal(test[4*i:4*i+4], want[at:at+4]) {
					t.Fatalf("%s: node %d is %v among the test nodes, %v among all", name, v, test[4*i:4*i+4], want[at:at+4])
				}
			}
		}
		if whole.Layers[0].Ranges != 1 || ranges < 10 {
			t.Errorf("%s: %d tiles with memory for all, %d with little", name, whole.Layers[0].Ranges, ranges)
		}
		// Nodes are counted in their type.
		list := PredictOptions{Nodes: w.path("list")}
		check(t, os.WriteFile(list.Nodes, []byte("90\n2\n"), 0o666))
		if got, _ := w.predict(t, list, 0); !slices.Equal(got, slices.Concat(want[8:12], want[360:])) {
			t.Errorf("%s: other rows of a list", name)
		}
		b, err := os.ReadFile(w.path("out.nodes.npy"))
		check(t, err)
		if ids := b[len(b)-8:]; binary.LittleEndian.Uint32(ids) != 2 || binary.LittleEndian.Uint32(ids[4:]) != 90 {
			t.Errorf("%s: the ids are %v", name, ids)
		}
	}
}

// Scores are the logits', and only types that lead to the seed type are computed.
func TestEvaluateTyped(t *testing.T) {
	raw := datasettest.Params{Nodes: 400, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 4, Typed: true}.Raw()
	for name, m := range typedKinds {
		m.Dims, m.Types = []int{6, 8, 3}, recipe.Types(raw.Types, 0)
		w := newWorldOf(t, vfstest.TempDir(t), raw, m)
		layers, _ := w.typedOracle(t)
		right := 0
		for _, v := range raw.Test {
			best := 0
			for c, y := range layers[1][v] {
				if y > layers[1][v][best] {
					best = c
				}
			}
			if best == int(raw.Labels[v]) {
				right++
			}
		}
		for _, s := range []float64{0, 1} {
			e, err := evaluate(t.Context(), disk, w.options(), progress.Discard, parts{stack: all.Open, room: w.tightTyped(t, s)})
			check(t, err)
			if want := float64(right) / float64(len(raw.Test)); math.Abs(float64(e.TestAccuracy)-want) > 1e-12 {
				t.Errorf("%s: the test accuracy is %v, by the formulas %v", name, e.TestAccuracy, want)
			}
			// Papers and authors lead to papers, places do not.
			if !e.Exact || e.Layers[0].Nodes != 300 || e.Layers[1].Nodes >= 300 || e.BytesWritten != int64(4*300*8*(1-s)) || e.Layers[0].Order != "aggregate" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		p, err := PlanEvaluation(t.Context(), disk, w.options(), progress.Discard)
		check(t, err)
		if len(p.Layers) != 2 || p.Layers[0].ComputeSeconds <= 0 || p.Layers[1].ComputeSeconds <= 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// An interrupted prediction goes on from its hidden states, of types that the next layer reads.
func TestTypedStatesAreKept(t *testing.T) {
	groups(t, 8)
	types := fewTypes()
	m := model.Model{Kind: model.RSAGE, Dims: []int{5, 6, 4, 3}, Types: recipe.Types(types, 1)}
	w := newWorldOf(t, vfstest.TempDir(t), typedRaw(rand.New(rand.NewPCG(4, 4)), types, 1, 5, 3, 9, 50), m)
	o, room := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}, w.tightTyped(t, 0)
	want, whole := w.predict(t, o, room)
	for _, n := range []int{1, 7, 24, 36} {
		w.interrupted(t, o, room, n)
		got, p := w.predict(t, o, room)
		if !slices.Equal(got, want) || p.BytesWritten >= whole.BytesWritten {
			t.Errorf("after %d tiles: %d bytes written of %d, equal rows: %t", n, p.BytesWritten, whole.BytesWritten, slices.Equal(got, want))
		}
	}
}

// Scores of a validator are Evaluate's.
func TestValidatorOfTypedModels(t *testing.T) {
	types := fewTypes()
	raw := typedRaw(rand.New(rand.NewPCG(5, 4)), types, 1, 6, 3, 9, 5000)
	for name, m := range typedKinds {
		m.Dims, m.Types = []int{6, 8, 4, 3}, recipe.Types(types, 1)
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, vfstest.TempDir(t), raw, m)
			layers, _ := w.typedOracle(t)
			w.checkValidator(t, nil, layers[2])
			w.checkValidator(t, cudatest.Open(t), layers[2])
		})
	}
}

// Graphs, nodes and engines that a typed model is not for are refused by name.
func TestTypedRefusals(t *testing.T) {
	raw := datasettest.Params{Nodes: 80, Dim: 4, Classes: 2, Seed: 1, Typed: true}.Raw()
	plain := datasettest.Params{Nodes: 20, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.RSAGE, Dims: []int{4, 4, 2}, Types: recipe.Types(raw.Types, 0)})
	other := newWorld(t, vfstest.TempDir(t), plain, 4)
	check(t, os.WriteFile(w.path("list"), []byte("node\n3\n70\n"), 0o666))
	for want, change := range map[string]func(o *PredictOptions){
		"the type paper":    func(o *PredictOptions) { o.Nodes = w.path("list") },
		"has no node types": func(o *PredictOptions) { o.Dataset = other.path("dataset") },
		"3 node types":      func(o *PredictOptions) { o.Run = other.path("run") },
	} {
		o := PredictOptions{Options: w.options(), Out: w.path("out.npy")}
		change(&o)
		_, err := Predict(t.Context(), disk, o, progress.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.ErrUsage) && !errors.Is(err, fault.ErrInput) {
			t.Errorf("%s: %v", want, err)
		}
	}
	raw.Types.Relations[0].Name = "other"
	check(t, raw.Types.Check())
	w, options := w.on(t, vfstest.TempDir(t)+"/other", raw)
	if _, err := Evaluate(t.Context(), disk, options, progress.Discard); err == nil || !strings.Contains(err.Error(), "other node types or relations") {
		t.Errorf("%v, on %s", err, w.dir)
	}
}
