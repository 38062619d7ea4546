package presample

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

const all = mbfile.AllNeighbours

func tinyGraph(t *testing.T) *graph.CSC {
	raw := datasettest.Tiny(t)
	return &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
}

// TestTinyWhole draws all neighbours of the hand-drawn graph, where no chance is
// involved: 6 ← 4, 5; then 6 ← 4, 5 again, 4 ← 3, 5, 6, 7 and 5 ← 4.
func TestTinyWhole(t *testing.T) {
	g := tinyGraph(t)
	want := &graph.Batch{
		Blocks: []graph.Block{
			{NumSrc: 5, NumDst: 3, Indptr: []uint32{0, 2, 6, 7}, Indices: []uint32{1, 2, 3, 2, 0, 4, 1}},
			{NumSrc: 3, NumDst: 1, Indptr: []uint32{0, 2}, Indices: []uint32{1, 2}},
		},
		Input:  []uint32{6, 4, 5, 3, 7},
		Degree: []uint32{2, 4, 1, 4, 0},
	}
	for name, table := range tables(g) {
		s := newSampler(g, table, plan{}, []int{all, all})
		var b graph.Batch
		for _, fanout := range [][]int{{all, all}, {4, 2}, {9, all}} { // no more than there are: the same
			if err := s.sample(t.Context(), &b, []uint32{6}, fanout, 1); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, &b); d != "" {
				t.Errorf("%s, fanout %v: %s", name, fanout, d)
			}
		}
	}
}

// TestTinyDrawn draws one of several. Which one chance takes is written down
// here, so that no change of the method passes unnoticed: the same seed must
// give the same samples in all versions to come.
func TestTinyDrawn(t *testing.T) {
	g := tinyGraph(t)
	s := newSampler(g, newArrayTable(8), plan{}, []int{1, 2})
	var b graph.Batch
	if err := s.sample(t.Context(), &b, []uint32{3, 4}, []int{1, 2}, rng.Key(0, forDraws, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tinyDrawn, &b); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(referenceSample(g, []uint32{3, 4}, []int{1, 2}, rng.Key(0, forDraws, 0, 0)), &b); d != "" {
		t.Error(d)
	}
}

// tinyDrawn: 3 ← 2, 0 and 4 ← 3, 7; then 3 ← 1, 4 ← 5, 2 ← 0, 0 ← 1 and 7 ← nobody.
var tinyDrawn = &graph.Batch{
	Blocks: []graph.Block{
		{NumSrc: 7, NumDst: 5, Indptr: []uint32{0, 1, 2, 3, 4, 4}, Indices: []uint32{5, 6, 3, 5}},
		{NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 2, 4}, Indices: []uint32{2, 3, 0, 4}},
	},
	Input:  []uint32{3, 4, 2, 0, 7, 1, 5},
	Degree: []uint32{4, 4, 1, 3, 0, 2, 1},
}

func tables(g *graph.CSC) map[string]table {
	return map[string]table{"array": newArrayTable(int64(g.NumNodes())), "hash": newHashTable(0)}
}

// genGraph draws a graph with parallel edges, self-loops, hubs and nodes without
// neighbours.
func genGraph(t *rapid.T) *graph.CSC {
	raw := datasettest.Params{
		Nodes:     rapid.IntRange(1, 300).Draw(t, "nodes"),
		AvgDegree: rapid.Float64Range(0, 40).Draw(t, "degree"),
		Seed:      rapid.Uint64().Draw(t, "graph"),
	}.Raw()
	return &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
}

func genFanout(t *rapid.T) []int {
	one := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 100), rapid.Just(all))
	return rapid.SliceOfN(one, 1, 4).Draw(t, "fanout")
}

func genSeeds(t *rapid.T, g *graph.CSC) []uint32 {
	return rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(g.NumNodes()-1)), 1, min(g.NumNodes(), 40), rapid.ID[uint32]).Draw(t, "seeds")
}

// TestSampleProperties compares with the reference, and checks by themselves the
// promises that the reference might break too.
func TestSampleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGraph(t)
		var b graph.Batch
		samplers := map[string]*sampler{}
		for name, table := range tables(g) {
			samplers[name] = newSampler(g, table, plan{}, []int{all, 100, 100, 100})
		}
		for range 2 { // reusing everything
			fanout, seeds, key := genFanout(t), genSeeds(t, g), rapid.Uint64().Draw(t, "key")
			want := referenceSample(g, seeds, fanout, key)
			for name, s := range samplers {
				if err := s.sample(context.Background(), &b, seeds, fanout, key); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, &b, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("%s: %s", name, d)
				}
				b.Labels = make([]int32, len(seeds))
				if err := check(g, &b, seeds, fanout); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				b.Labels = nil
			}
		}
	})
}

// check checks what every sampled batch promises.
func check(g *graph.CSC, b *graph.Batch, seeds []uint32, fanout []int) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if !slices.Equal(b.Input[:len(seeds)], seeds) {
		return errors.New("the seed nodes are no prefix of the input nodes")
	}
	sorted := slices.Sorted(slices.Values(b.Input))
	if len(slices.Compact(sorted)) != len(b.Input) {
		return errors.New("an input node is listed twice")
	}
	for i, v := range b.Input {
		if int(b.Degree[i]) != g.Degree(v) {
			return fmt.Errorf("node %d: degree %d", v, b.Degree[i])
		}
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		found := uint32(k.NumDst)
		for i := range k.NumDst {
			v := b.Input[i]
			drawn := k.Indices[k.Indptr[i]:k.Indptr[i+1]]
			want := g.Degree(v)
			if fanout[l] != all {
				want = min(want, fanout[l])
			}
			if len(drawn) != want {
				return fmt.Errorf("layer %d, node %d: %d neighbours instead of %d", l, v, len(drawn), want)
			}
			// Every edge is one of the graph's, parallel ones no oftener than there.
			left := map[uint32]int{}
			for _, u := range g.Neighbors(v) {
				left[u]++
			}
			for _, src := range drawn {
				if left[b.Input[src]]--; left[b.Input[src]] < 0 {
					return fmt.Errorf("layer %d: edge from %d to %d drawn too often", l, b.Input[src], v)
				}
				if src > found {
					return fmt.Errorf("layer %d: source %d before source %d", l, src, found)
				}
				if src == found {
					found++
				}
			}
		}
		if int(found) != k.NumSrc {
			return fmt.Errorf("layer %d: %d sources, %d of them reached", l, k.NumSrc, found)
		}
	}
	return nil
}

// TestLongLists has more neighbours than a chunk holds, drawn and taken whole.
func TestLongLists(t *testing.T) {
	const n = 3*chunkEdges + 7
	g := &graph.CSC{Indptr: make([]int64, n+1)}
	for v := range uint32(n) {
		if v == 5 || v == 9 {
			for u := range uint32(n) {
				g.Indices = append(g.Indices, (u*7+v)%n)
			}
		}
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	for _, fanout := range [][]int{{all, 2 * chunkEdges}, {chunkEdges + 1, all}, {1, chunkEdges}} {
		for name, table := range tables(g) {
			var b graph.Batch
			if err := newSampler(g, table, plan{}, fanout).sample(t.Context(), &b, []uint32{9, 1, 5}, fanout, 3); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(referenceSample(g, []uint32{9, 1, 5}, fanout, 3), &b); d != "" {
				t.Errorf("%s, fanout %v: %.400s", name, fanout, d)
			}
		}
	}
}

func TestSampleRefusals(t *testing.T) {
	g := tinyGraph(t)
	var b graph.Batch
	s := newSampler(g, newArrayTable(8), plan{}, []int{all})
	if err := s.sample(t.Context(), &b, []uint32{3, 3}, []int{all}, 1); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a seed node twice: %v", err)
	}
	s.plan = plan{workers: 1, share: 1}
	if err := s.sample(t.Context(), &b, []uint32{3}, []int{all}, 1); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("a share of one byte: %v", err)
	}
	huge := &graph.CSC{Indptr: []int64{0, 1 << 33}}
	if err := newSampler(huge, newArrayTable(1), plan{}, []int{1}).sample(t.Context(), &b, []uint32{0}, []int{1}, 1); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a degree beyond 32 bits: %v", err)
	}
}

func TestSampleStopsWhenCancelled(t *testing.T) {
	const n = 4 * chunkEdges
	g := &graph.CSC{Indptr: make([]int64, n+1)}
	seeds := make([]uint32, n)
	for v := range n {
		seeds[v] = uint32(v)
		g.Indices = append(g.Indices, uint32(v))
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b graph.Batch
	if err := newSampler(g, newArrayTable(n), plan{}, []int{1}).sample(ctx, &b, seeds, []int{1}, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSampleAllocatesNothing(t *testing.T) {
	raw := datasettest.Params{Nodes: 3000, AvgDegree: 20, Seed: 1}.Raw()
	g := &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
	fanout, ctx := []int{5, 5, 5}, context.Background()
	seeds := []uint32{1, 20, 300, 77, 2000}
	for name, table := range tables(g) {
		s := newSampler(g, table, plan{}, fanout)
		key := uint64(0)
		draw := func() {
			if err := s.sample(ctx, &s.batch, seeds, fanout, key); err != nil {
				t.Fatal(err)
			}
			key = (key + 1) % 8
		}
		for range 8 {
			draw()
		}
		if n := testing.AllocsPerRun(40, draw); n > 0 {
			t.Errorf("%s: %v allocations a batch", name, n)
		}
	}
}
