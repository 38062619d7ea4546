package prepare

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// tinyTyped has a block of papers, which cite papers and are written by authors: papers 0 and 1 lie at the sources 0
// and 1, paper 2 and author 3 are sources alone.
func tinyTyped() (*graph.Batch, *model.Types) {
	types := &graph.Types{Nodes: []graph.NodeType{{Name: "paper", Count: 9, Features: true}, {Name: "author", Count: 4, Features: true}},
		Relations: []graph.Relation{{Source: 0, Name: "cites", Destination: 0}, {Source: 1, Name: "writes", Destination: 0}}}
	if err := types.Check(); err != nil {
		panic(err)
	}
	k := graph.Block{NumSrc: 4, NumDst: 2, Indptr: []uint32{0, 2, 3, 3, 4}, Indices: []uint32{2, 1, 3, 3}, Dst: []uint32{0, 1}, Ends: []uint32{3, 4}}
	return &graph.Batch{Types: types, Blocks: []graph.Block{k}, Input: []uint32{5, 6, 7, 9}, Labels: []int32{1, 0}}, recipe.Types(types, 0)
}

func TestTypedByHand(t *testing.T) {
	b, types := tinyTyped()
	m := model.Model{Kind: model.RSAGE, Dims: []int{2, 3}, Types: types}
	r := New(&m, []model.Order{model.Aggregate}, graphtest.Roomy(b), true)
	r.transpose[0], r.place[0] = true, true
	var p Prepared
	if err := r.Prepare(&p, b); err != nil {
		t.Fatal(err)
	}
	k := &p.Blocks[0]
	equal(t, "means", k.Dst, []float32{0.5, 1, 0, 1})
	equal(t, "transposed indptr", k.TIndptr, []uint32{0, 0, 1, 2, 4})
	equal(t, "transposed rows", k.TIndices, []uint32{0, 0, 1, 3})
	equal(t, "places", k.Place, []uint32{1, 2, 0, 0})
	equal(t, "ends", k.Ends, []uint32{2, 2})
}

// All that is derived from typed batches follows from the rows, in memory that is predicted.
func TestTypedTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		types := graphtest.Types(rng, 1000)
		s := graphtest.Shape{Seeds: rng.IntN(9) + 1, Classes: 3, Layers: rng.IntN(3) + 1, MaxDegree: rng.IntN(9), Fresh: rng.IntN(12), Scatter: rng.IntN(2) == 0}
		b, next := s.Typed(rng, types), s.Typed(rng, types)
		m := model.Model{Kind: rapid.SampledFrom([]model.Kind{model.RSAGE, model.RGCN, model.RGAT}).Draw(t, "kind"), Dims: slices.Repeat([]int{3}, s.Layers+1), Types: recipe.Types(types, 0)}
		m.Heads = 1
		m.ClearOthers()
		r := New(&m, make([]model.Order, s.Layers), graphtest.Roomy(b, next), true)
		var p Prepared
		for _, b := range []*graph.Batch{next, b} {
			if err := r.Prepare(&p, b); err != nil {
				t.Fatal(err)
			}
		}
		if got := held(&p, b, next); got != r.Bytes() {
			t.Errorf("%d bytes, %d are predicted", got, r.Bytes())
		}
		for l := range b.Blocks {
			checkTypedBlock(t, b, l, &p.Blocks[l], m.Kind == model.RGAT)
		}
		if a := testing.AllocsPerRun(1, func() { _ = r.Prepare(&p, b) }); a > 2 { // of the seeds' ends, by Validate
			t.Errorf("%v allocations", a)
		}
	})
}

func checkTypedBlock(t *rapid.T, b *graph.Batch, l int, got *Block, attends bool) {
	k := &b.Blocks[l]
	for row, w := range got.Dst {
		n := k.Indptr[row+1] - k.Indptr[row]
		if want := 1 / float32(max(1, n)); w != want && n > 0 || n == 0 && w != 0 {
			t.Errorf("layer %d: the weight of a row of %d edges is %v", l, n, w)
		}
	}
	if !slices.Equal(got.Ends, b.DstEnds(l)) || !attends && len(got.Dst) != k.NumRows() {
		t.Errorf("layer %d: ends %v, %d weights", l, got.Ends, len(got.Dst))
	}
	if l == 0 {
		if len(got.TIndptr)+len(got.Place) > 0 {
			t.Error("the outermost block is transposed")
		}
		return
	}
	if want := plainTransposed(k.NumSrc, k.Indptr, k.Indices); !slices.Equal(got.TIndptr, want.indptr) || !slices.Equal(got.TIndices, want.indices) {
		t.Errorf("layer %d: transposed: %v and %v, want %v", l, got.TIndptr, got.TIndices, want)
	}
	if attends && !slices.Equal(got.TEdges, plainTransposed(k.NumSrc, k.Indptr, k.Indices).edges) {
		t.Errorf("layer %d: edges %v", l, got.TEdges)
	}
	for i := range k.NumDst {
		if at, ok := got.Destination(k, k.DstPos(i)); !ok || at != i {
			t.Errorf("layer %d: destination %d is number %d, %t", l, i, at, ok)
		}
	}
}

func TestRefusesOtherTypes(t *testing.T) {
	for want, spoil := range map[string]func(b *graph.Batch, m *model.Model, s *graph.Sizes){
		"the batch has none":              func(b *graph.Batch, _ *model.Model, _ *graph.Sizes) { *b = *tiny() },
		"the model is for graphs without": func(_ *graph.Batch, m *model.Model, _ *graph.Sizes) { m.Kind, m.Types = model.SAGE, nil },
		"other node types":                func(_ *graph.Batch, m *model.Model, _ *graph.Sizes) { m.Types.Nodes[1] = "writer" },
		"other node types or relations":   func(_ *graph.Batch, m *model.Model, _ *graph.Sizes) { m.Types.Relations[1].Name = "reads" },
		"logits for type author":          func(_ *graph.Batch, m *model.Model, _ *graph.Sizes) { m.Types.Seed = 1 },
		"has 4 rows; buffers were made":   func(_ *graph.Batch, _ *model.Model, s *graph.Sizes) { s.Rows[0] = 3 },
		"than the model":                  func(_ *graph.Batch, m *model.Model, _ *graph.Sizes) { m.Types.Relations = m.Types.Relations[:1] },
	} {
		b, types := tinyTyped()
		m := model.Model{Kind: model.RSAGE, Dims: []int{2, 3}, Types: types}
		s := graphtest.Roomy(b)
		spoil(b, &m, &s)
		if err := New(&m, []model.Order{model.Aggregate}, s, true).Prepare(new(Prepared), b); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
