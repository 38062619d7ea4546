package pack

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/idset"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
)

// TestRenumberByHand packs one batch of the nodes 4, 7, 2, 9, 5, seeds 4 and 7.
// Ranks: 9→0, 4→1, 2→5, 5→6, 7→8; edges 6 and 3:
//
//	band 0 (rank ≥ 6): 5, 7   band 1 (3 … 5): 2   hot: 4 (rank 1), 9 (rank 0)
func TestRenumberByHand(t *testing.T) {
	rank := []uint32{2, 3, 5, 4, 1, 6, 7, 8, 9, 0}
	b := &graph.Batch{
		Blocks: []graph.Block{{NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 3, 4}, Indices: []uint32{4, 2, 3, 0}}},
		Input:  []uint32{4, 7, 2, 9, 5},
		Degree: []uint32{40, 70, 20, 90, 50},
		Labels: []int32{0, 1},
	}
	r := renumberer{rank: rank, edges: []int64{6, 3}}
	r.train(b)
	want := &graph.Batch{
		Blocks: []graph.Block{{NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 3, 4},
			Indices: []uint32{0, 2, 4, 3}, // 5, 2, 9; 4: the order of drawing is kept
			Dst:     []uint32{3, 1}}},
		Input:  []uint32{6, 8, 5, 1, 0},
		Degree: []uint32{50, 70, 20, 40, 90},
		Labels: []int32{0, 1},
	}
	if d := cmp.Diff(want, b); d != "" {
		t.Error(d)
	}
	if !slices.Equal(r.bands, []int{2, 1}) || !slices.Equal(r.cold, []uint32{5, 7, 2}) {
		t.Errorf("bands of %v rows, chunk of nodes %v; want [2 1], [5 7 2]", r.bands, r.cold)
	}
}

// TestRenumberTypes packs a typed batch of the papers 2 and 0, the author 4 and the places' row, 6. Ranks: 2→0, 4→1,
// 6→2, 0→3; edge 1.
func TestRenumberTypes(t *testing.T) {
	types := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "paper", Count: 4, Features: true}, {Name: "author", Count: 2, Features: true}, {Name: "place", Count: 5}},
		Relations: []graph.Relation{{Source: 1, Name: "writes"}, {Source: 0, Name: "wrote", Destination: 1}, {Source: 2, Name: "employs", Destination: 1}},
	}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	b := &graph.Batch{
		Types: types,
		Blocks: []graph.Block{
			{NumSrc: 4, NumDst: 2, Indptr: []uint32{0, 1, 2, 4}, Indices: []uint32{2, 1, 3, 3}, Dst: []uint32{0, 2}, Ends: []uint32{2, 3, 4}},
			{NumSrc: 2, NumDst: 1, Indptr: []uint32{0, 1}, Indices: []uint32{1}, Dst: []uint32{0}, Ends: []uint32{1, 2, 2}},
		},
		Input: []uint32{2, 0, 4, 6}, Labels: []int32{1},
	}
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	r := renumberer{rank: []uint32{3, 6, 0, 5, 1, 4, 2}, edges: []int64{1}}
	r.train(b)
	want := &graph.Batch{
		Types: types,
		Blocks: []graph.Block{
			{NumSrc: 4, NumDst: 2, Indptr: []uint32{0, 1, 2, 4}, Indices: []uint32{1, 0, 2, 2}, Dst: []uint32{3, 1}},
			{NumSrc: 2, NumDst: 1, Indptr: []uint32{0, 1}, Indices: []uint32{1}, Dst: []uint32{0}, Ends: []uint32{1, 2, 2}},
		},
		Input: []uint32{3, 1, 2, 0}, InputTypes: []uint32{0, 1, 2, 0}, Labels: []int32{1},
	}
	if d := cmp.Diff(want, b, cmpopts.IgnoreUnexported(graph.Types{})); d != "" {
		t.Error(d)
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
}

// TestRenumber holds the renumbered batch against the sampled one: under the
// permutation of input nodes it must be the same graph, edge by edge.
func TestRenumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(t, "nodes")
		hotness := rapid.SliceOfN(rapid.Uint32Range(0, 5), n, n).Draw(t, "hotness")
		rank, _, touched := cut.Rank(hotness)
		node := make([]uint32, n) // by rank
		for v, r := range rank {
			node[r] = uint32(v)
		}
		perm := rapid.Permutation(node).Draw(t, "order")
		inputs := rapid.IntRange(1, n).Draw(t, "inputs")
		dst := rapid.IntRange(0, inputs).Draw(t, "destinations")
		b := &graph.Batch{Blocks: []graph.Block{{NumSrc: inputs, NumDst: dst, Indptr: []uint32{0}}}, Labels: make([]int32, dst)}
		k := &b.Blocks[0]
		for range dst {
			k.Indices = append(k.Indices, rapid.SliceOfN(rapid.Uint32Range(0, uint32(inputs-1)), 0, 4).Draw(t, "edges")...)
			k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
		}
		for _, v := range perm[:inputs] {
			b.Input = append(b.Input, v)
			b.Degree = append(b.Degree, v*3)
		}
		before := slices.Clone(b.Input)
		oldIndices := slices.Clone(k.Indices)
		edges := packfile.BandEdges(int64(n), touched, rapid.Int64Range(0, int64(n)).Draw(t, "cache"), []float64{50, 20, 5})
		hot := edges[0]
		if rapid.Bool().Draw(t, "evaluation") {
			eval := idset.New(int64(n))
			for v, r := range rank {
				if int64(r) >= hot {
					eval.Add(uint32(v))
				}
			}
			eval.Count()
			r := renumberer{rank: rank, edges: edges, hot: hot, base: uint32(hot), eval: eval}
			rows := r.evaluation(b)
			for i, v := range b.Input {
				if (i < rows) != (int64(v) >= hot) {
					t.Fatalf("%d eval rows, but row %d is %d with %d hot rows", rows, i, v, hot)
				}
				if int64(v) >= hot { // places ascend with node ids
					for u := range uint32(n) {
						if eval.Has(u) && int64(eval.Place(u))+hot == int64(v) {
							b.Input[i] = rank[u]
						}
					}
				}
			}
		} else {
			r := renumberer{rank: rank, edges: edges}
			r.train(b)
			checkBands(t, &r, b, node)
		}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		for e, s := range k.Indices {
			if got, want := node[b.Input[s]], before[oldIndices[e]]; got != want {
				t.Fatalf("edge %d comes from node %d, was drawn from %d", e, got, want)
			}
		}
		for i := range dst {
			if got := node[b.Input[k.DstPos(i)]]; got != before[i] {
				t.Fatalf("destination %d is node %d, was %d", i, got, before[i])
			}
		}
		for i, v := range b.Input {
			if b.Degree[i] != node[v]*3 {
				t.Fatalf("input node %d has the degree of another", i)
			}
		}
	})
}

// checkBands checks the order inside a training batch.
func checkBands(t *rapid.T, r *renumberer, b *graph.Batch, node []uint32) {
	i := 0
	for band, rows := range r.bands {
		lo, hi := r.edges[band], int64(len(node))
		if band > 0 {
			hi = r.edges[band-1]
		}
		for k := range rows {
			if v := int64(b.Input[i]); v < lo || v >= hi || r.cold[i] != node[v] {
				t.Fatalf("row %d of band %d has rank %d, the band %d to %d; requested node %d", k, band, v, lo, hi, r.cold[i])
			}
			if k > 0 && node[b.Input[i]] <= node[b.Input[i-1]] {
				t.Fatalf("band %d does not ascend by node", band)
			}
			i++
		}
	}
	for ; i < len(b.Input); i++ {
		if int64(b.Input[i]) >= r.edges[len(r.edges)-1] {
			t.Fatalf("row %d is no hot one", i)
		}
	}
}
