package prepare

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
)

// tiny has the destinations 0 and 1 of the sources 0, 1, 2: node 0 drew 2 and itself,
// node 1 drew 2.
func tiny() *graph.Batch {
	return &graph.Batch{Blocks: []graph.Block{{NumSrc: 3, NumDst: 2, Indptr: []uint32{0, 2, 3}, Indices: []uint32{2, 0, 2}}},
		Input: []uint32{7, 8, 9}, Degree: []uint32{3, 0, 8}, Labels: []int32{1, graph.Unlabelled}}
}

var sizes = graph.Sizes{Src: []int{5}, Dst: []int{4}, Edges: []int{6}}

func prepared(t *testing.T, m model.Model, p *Prepared) *Block {
	t.Helper()
	m.Dims = []int{2, 3}
	r := New(&m, []model.Order{model.Aggregate}, sizes, true)
	r.TransposeAll()
	if err := r.Prepare(p, tiny()); err != nil {
		t.Fatal(err)
	}
	if p.Labelled != 1 || !p.By(r) || p.Batch() == nil {
		t.Errorf("%d labelled", p.Labelled)
	}
	return &p.Blocks[0]
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestByHand(t *testing.T) {
	b := prepared(t, model.Model{Kind: model.SAGE}, new(Prepared))
	equal(t, "means", b.Dst, []float32{0.5, 1})
	equal(t, "transposed indptr", b.TIndptr, []uint32{0, 1, 1, 3})
	equal(t, "transposed indices", b.TIndices, []uint32{0, 0, 1})

	b = prepared(t, model.Model{Kind: model.GCN}, new(Prepared))
	equal(t, "own", b.Own, []float32{0.25, 1})
	equal(t, "by destination", b.Dst, []float32{0.75, 0}) // 3/(2·√4), 0/(1·√1)
	equal(t, "by source", b.Src, []float32{0.5, 1, 1. / 3})

	l := &prepared(t, model.Model{Kind: model.GAT, Heads: 1}, new(Prepared)).Looped
	equal(t, "looped indptr", l.Indptr, []uint32{0, 2, 4})
	equal(t, "looped indices", l.Indices, []uint32{2, 0, 2, 1})
	equal(t, "transposed indptr", l.TIndptr, []uint32{0, 1, 2, 4})
	equal(t, "transposed indices", l.TIndices, []uint32{0, 1, 0, 1})
	equal(t, "transposed edges", l.TEdges, []uint32{1, 3, 0, 2})
}

// Slices of the lengths that are told are filled where they are.
func TestGivenMemoryIsUsed(t *testing.T) {
	for _, m := range []model.Model{{Kind: model.SAGE}, {Kind: model.GCN}, {Kind: model.GAT, Heads: 1}} {
		m.Dims = []int{2, 3}
		r := New(&m, []model.Order{model.Aggregate}, sizes, true)
		r.TransposeAll()
		n := r.Lengths(0)
		p := Prepared{Blocks: []Block{{Dst: make([]float32, n.Dst), Src: make([]float32, n.Src), Own: make([]float32, n.Own),
			TIndptr: make([]uint32, n.TIndptr), TIndices: make([]uint32, n.TIndices),
			Looped: Looped{Indptr: make([]uint32, n.Indptr), Indices: make([]uint32, n.Indices),
				TIndptr: make([]uint32, n.LoopTIndptr), TIndices: make([]uint32, n.LoopTIndices), TEdges: make([]uint32, n.LoopTEdges)}}}}
		was := p.Blocks[0]
		now := prepared(t, m, &p)
		for i, s := range [][2][]uint32{{was.TIndptr, now.TIndptr}, {was.TIndices, now.TIndices}, {was.Looped.Indptr, now.Looped.Indptr},
			{was.Looped.Indices, now.Looped.Indices}, {was.Looped.TIndptr, now.Looped.TIndptr}, {was.Looped.TIndices, now.Looped.TIndices}, {was.Looped.TEdges, now.Looped.TEdges}} {
			if unsafe.SliceData(s[0]) != unsafe.SliceData(s[1]) {
				t.Errorf("%s: slice %d lies elsewhere", m.Kind, i)
			}
		}
		for i, s := range [][2][]float32{{was.Dst, now.Dst}, {was.Src, now.Src}, {was.Own, now.Own}} {
			if unsafe.SliceData(s[0]) != unsafe.SliceData(s[1]) {
				t.Errorf("%s: weights %d lie elsewhere", m.Kind, i)
			}
		}
		if r.Bytes() != held(&p) || n.Dst+n.Indptr == 0 {
			t.Errorf("%s: %d bytes for %+v", m.Kind, r.Bytes(), n)
		}
	}
}

func TestRefusesBatches(t *testing.T) {
	m := model.Model{Kind: model.SAGE, Dims: []int{2, 3}}
	for what, spoil := range map[string]func(b *graph.Batch){
		"an edge from nowhere": func(b *graph.Batch) { b.Blocks[0].Indices[0] = 3 },
		"a class too high":     func(b *graph.Batch) { b.Labels[0] = 3 },
		"too many sources":     func(b *graph.Batch) { b.Blocks[0].NumSrc, b.Input, b.Degree = 6, make([]uint32, 6), make([]uint32, 6) },
		"too few targets":      func(b *graph.Batch) { b.Targets = make([]byte, 4) },
	} {
		b, p := tiny(), new(Prepared)
		spoil(b)
		r := New(&m, []model.Order{model.Aggregate}, sizes, true)
		if err := r.Prepare(p, b); !errors.Is(err, fault.ErrInput) || p.Batch() != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A block has more edges of one source than a float32 can count.
func TestBlockNormCounts(t *testing.T) {
	m := model.Model{Kind: model.GCN, Dims: []int{1, 1}, GCNNorm: model.BlockNorm}
	const edges = 1<<24 + 1<<22
	sizes := graph.Sizes{Src: []int{2}, Dst: []int{2}, Edges: []int{edges}}
	r := New(&m, []model.Order{model.Aggregate}, sizes, false)
	b := &graph.Batch{Blocks: []graph.Block{{NumSrc: 2, NumDst: 1, Indptr: []uint32{0, 3}, Indices: []uint32{1, 1, 0}}},
		Input: []uint32{4, 7}, Degree: []uint32{3, 0}, Labels: []int32{0}}
	var p Prepared
	k := &b.Blocks[0]
	k.Indptr[1], k.Indices = edges, slices.Repeat([]uint32{1}, edges)
	if err := r.Prepare(&p, b); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Blocks[0].Src[1], float32(1/math.Sqrt(edges)); got != want {
		t.Errorf("a source of %d edges weighs %v, want %v", edges, got, want)
	}
}

// Where an input projection is trained, input nodes are numbered by their ids: the same
// batch results whatever order they come in, and Order says where their rows lie.
func TestInputOrder(t *testing.T) {
	m := model.Model{Kind: model.GCN, InputProjection: 3, Dims: []int{2, 3, 4}}
	var kept, other Prepared
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		b := graphtest.Shape{Seeds: rng.IntN(9) + 1, Classes: 3, Layers: 2, MaxDegree: rng.IntN(30), Fresh: rng.IntN(12), Scatter: rng.IntN(2) == 0}.Batch(rng)
		for i, p := range rng.Perm(len(b.Input)) { // ids of one to three digits
			b.Input[i] = uint32(p) << []int{0, 9, 20}[rng.IntN(3)]
		}
		slices.Sort(b.Input)
		b.Input = slices.Compact(b.Input)
		for id := uint32(1 << 31); len(b.Input) < len(b.Degree); id++ {
			b.Input = append(b.Input, id)
		}
		rng.Shuffle(len(b.Input), func(i, k int) { b.Input[i], b.Input[k] = b.Input[k], b.Input[i] })
		moved, _ := graphtest.Shuffled(b, nil, 0, rng)
		r := New(&m, make([]model.Order, 2), graphtest.Roomy(b), true)
		if err := errors.Join(r.Prepare(&kept, b), r.Prepare(&other, moved)); err != nil {
			t.Fatal(err)
		}
		got := kept.Batch()
		if !slices.IsSorted(got.Input) || !reflect.DeepEqual(got, other.Batch()) || !reflect.DeepEqual(kept.Blocks, other.Blocks) {
			t.Fatalf("%+v, in another order %+v", got, other.Batch())
		}
		for i, at := range kept.Order {
			if got.Input[i] != b.Input[at] || got.Degree[i] != b.Degree[at] || moved.Input[other.Order[i]] != got.Input[i] {
				t.Fatalf("input node %d lies at row %d, and moved at %d", i, at, other.Order[i])
			}
		}
		k, was := &got.Blocks[0], &b.Blocks[0]
		for e := range was.Indices {
			if got.Input[k.Indices[e]] != b.Input[was.Indices[e]] {
				t.Fatalf("edge %d begins at another node", e)
			}
		}
		for i := range was.NumDst {
			if got.Input[k.DstPos(i)] != b.Input[was.DstPos(i)] {
				t.Fatalf("destination %d is another node", i)
			}
		}
	})
	// Without training the batch is taken as it is, also after one that was not.
	b := graphtest.Shape{Seeds: 3, Classes: 3, Layers: 2, MaxDegree: 3, Fresh: 3}.Batch(rand.New(rand.NewPCG(1, 1)))
	if err := New(&m, make([]model.Order, 2), graphtest.Roomy(b), false).Prepare(&kept, b); err != nil || kept.Order != nil || kept.Batch() != b {
		t.Errorf("to evaluate: %v, in the order %v", err, kept.Order)
	}
}

// Every way to weigh edges has a row, and computes weights where it has any. One that has none
// is refused.
func TestEveryWeighing(t *testing.T) {
	for _, w := range model.Weighings {
		k, ok := weighings[w]
		if weighs := k.dst || k.src || k.own; !ok || weighs != (k.weigh != nil) {
			t.Errorf("%s: %+v", w, k)
		}
	}
	if len(weighings) != len(model.Weighings) {
		t.Errorf("%d rows for %d ways", len(weighings), len(model.Weighings))
	}
}
