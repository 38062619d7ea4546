package sampler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/samplertest"
)

// genTyped draws a graph of up to three types and three relations into each, with a row for each destination
// and relation.
func genTyped(t *rapid.T) (*graph.CSC, *graph.Types) {
	types := new(graph.Types)
	featured := rapid.IntRange(0, 3).Draw(t, "types with features")
	for i := range rapid.IntRange(1, 3).Draw(t, "types") {
		types.Nodes = append(types.Nodes, graph.NodeType{Name: fmt.Sprint("t", i), Count: rapid.Int64Range(1, 60).Draw(t, "nodes"), Features: i < featured})
	}
	for i := range types.Nodes {
		least := 0
		if i == 0 {
			least = 1
		}
		for r := range rapid.IntRange(least, 3).Draw(t, "relations") {
			types.Relations = append(types.Relations, graph.Relation{Source: rapid.IntRange(0, len(types.Nodes)-1).Draw(t, "source"), Name: fmt.Sprint("r", r), Destination: i})
		}
	}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	g := &graph.CSC{Indptr: []int64{0}}
	most := rapid.IntRange(0, 12).Draw(t, "degree")
	for row := range types.NumRows() {
		_, r := types.RowOf(row)
		lo, hi := types.Range(types.Relations[r].Source)
		list := rapid.SliceOfN(rapid.Uint32Range(uint32(lo), uint32(hi-1)), 0, most).Draw(t, "sources")
		slices.Sort(list)
		g.Indices = append(g.Indices, list...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	return g, types
}

func genTypedSeeds(t *rapid.T, types *graph.Types) []uint32 {
	lo, hi := types.Range(rapid.IntRange(0, len(types.Nodes)-1).Draw(t, "type of seeds"))
	return rapid.SliceOfNDistinct(rapid.Uint32Range(uint32(lo), uint32(hi-1)), 1, int(min(hi-lo, 20)), rapid.ID[uint32]).Draw(t, "seeds")
}

// genDraws draws fanouts: one for each relation, for all together, or by relation.
func genDraws(t *rapid.T, types *graph.Types) samplertest.TypedDraws {
	d := samplertest.TypedDraws{Fanout: genFanout(t), Merged: rapid.Bool().Draw(t, "merged")}
	if !d.Merged && rapid.Bool().Draw(t, "by relation") {
		for range types.Relations {
			one := slices.Clone(d.Fanout)
			for l := range one {
				one[l] = rapid.SampledFrom([]int{1, 2, 5, all}).Draw(t, "fanout of a relation")
			}
			d.Relations = append(d.Relations, one)
		}
		d.Fanout = mbfile.Most(d.Relations)
	}
	return d
}

// TestMergedDraws draws three of the six edges of a node by two relations: each set of three is as likely.
func TestMergedDraws(t *testing.T) {
	types := &graph.Types{Nodes: []graph.NodeType{{Name: "a", Count: 1, Features: true}, {Name: "b", Count: 6, Features: true}},
		Relations: []graph.Relation{{Source: 1, Name: "x"}, {Source: 1, Name: "y"}}}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	g := &graph.CSC{Indptr: []int64{0, 2, 6}, Indices: []uint32{1, 2, 3, 4, 5, 6}}
	s := New(g, []int{3}, Options{Types: types, Merged: true})
	counts := map[string]int{}
	const draws = 20_000
	for key := range uint64(draws) {
		var b graph.Batch
		if err := s.sampleTyped(t.Context(), &b, []uint32{0}, key); err != nil {
			t.Fatal(err)
		}
		var set []uint32
		for _, at := range b.Blocks[0].Indices {
			set = append(set, b.Input[at])
		}
		slices.Sort(set)
		counts[fmt.Sprint(set)]++
	}
	chi2 := 0.0
	for _, n := range counts {
		d := float64(n) - draws/20.
		chi2 += d * d / (draws / 20.)
	}
	if len(counts) != 20 || chi2 > 45 { // 19 degrees of freedom: 0.999 below 43.8
		t.Errorf("%d sets, χ² %.1f: %v", len(counts), chi2, counts)
	}
}

// TestTypedSample compares with the reference.
func TestTypedSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, types := genTyped(t)
		for _, hash := range []bool{false, true} {
			d := genDraws(t, types)
			s := New(g, d.Fanout, Options{Types: types, Hash: hash, Relations: d.Relations, Merged: d.Merged})
			var b graph.Batch
			for range 2 { // reusing everything
				seeds, key := genTypedSeeds(t, types), rapid.Uint64().Draw(t, "key")
				want := samplertest.SampleTyped(g, types, seeds, d, key)
				if err := s.sampleTyped(t.Context(), &b, seeds, key); err != nil {
					t.Fatal(err)
				}
				b.Labels = make([]int32, len(seeds))
				if err := b.Validate(); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, &b, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(graph.Batch{}, "Labels"), cmpopts.IgnoreUnexported(graph.Types{})); d != "" {
					t.Fatal(d)
				}
				for l := range b.Blocks {
					checkTypes(t, g, &b, l)
				}
			}
		}
	})
}

// checkTypes checks, without the reference, that the edges of every row come from the relation's source type,
// and that destinations are nodes of their types. Nodes without features have no ids in a batch.
func checkTypes(t *rapid.T, g *graph.CSC, b *graph.Batch, l int) {
	if slices.ContainsFunc(b.Types.Nodes, func(k graph.NodeType) bool { return !k.Features }) {
		return
	}
	k, row := &b.Blocks[l], 0
	nodes := b.Input // of the block's sources
	for i := range l {
		next := make([]uint32, b.Blocks[i].NumDst)
		for d := range next {
			next[d] = nodes[b.Blocks[i].DstPos(d)]
		}
		nodes = next
	}
	for d := range k.NumDst {
		v := nodes[k.DstPos(d)]
		from, n := b.Types.Into(b.Types.Of(v))
		first, _ := b.Types.Rows(v)
		for r := range n {
			list := g.Neighbors(uint32(first) + uint32(r))
			for _, s := range k.Indices[k.Indptr[row]:k.Indptr[row+1]] {
				if u := nodes[s]; b.Types.Of(u) != b.Types.Relations[from+r].Source || !slices.Contains(list, u) {
					t.Fatalf("layer %d: node %d has the source %d by relation %d", l, v, u, from+r)
				}
			}
			row++
		}
	}
}

// TestOneTypeSamples draws the batches of a graph without types, if there are one type and one relation.
func TestOneTypeSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGraph(t)
		types := &graph.Types{Nodes: []graph.NodeType{{Name: "node", Count: int64(g.NumNodes()), Features: true}}, Relations: []graph.Relation{{Name: "edge"}}}
		if err := types.Check(); err != nil {
			t.Fatal(err)
		}
		fanout, seeds, key := genFanout(t), genSeeds(t, g), rapid.Uint64().Draw(t, "key")
		var want, got graph.Batch
		if err := New(g, fanout, Options{}).sample(t.Context(), &want, seeds, key); err != nil {
			t.Fatal(err)
		}
		if err := New(g, fanout, Options{Types: types}).sampleTyped(t.Context(), &got, seeds, key); err != nil {
			t.Fatal(err)
		}
		for l := range want.Blocks {
			k, q := &want.Blocks[l], &got.Blocks[l]
			if !slices.Equal(k.Indptr, q.Indptr) || !slices.Equal(k.Indices, q.Indices) {
				t.Fatalf("layer %d has other edges", l)
			}
			for i := range k.NumDst {
				if q.DstPos(i) != i {
					t.Fatalf("layer %d: destination %d is at source %d", l, i, q.DstPos(i))
				}
			}
		}
		if !slices.Equal(want.Input, got.Input) {
			t.Fatal("other input nodes")
		}
	})
}

// TestTinyTypes draws all neighbours of paper 0 by hand: papers 0 to 2 cite papers, authors 3 and 4 write papers,
// and authors have the papers that they wrote.
func TestTinyTypes(t *testing.T) {
	types := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 2}},
		Relations: []graph.Relation{{Source: 0, Name: "cites", Destination: 0}, {Source: 1, Name: "writes", Destination: 0}, {Source: 0, Name: "written by", Destination: 1}},
	}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	// Paper 0: cited by 2, written by 4. Paper 1: by 3. Paper 2: cited by 0 and 1, written by 3 and 4.
	g := &graph.CSC{Indptr: []int64{0, 1, 2, 2, 3, 5, 7, 9, 11}, Indices: []uint32{2, 4, 3, 0, 1, 3, 4, 1, 2, 0, 2}}
	var b graph.Batch
	if err := New(g, []int{all, all}, Options{Types: types}).sampleTyped(t.Context(), &b, []uint32{0}, 1); err != nil {
		t.Fatal(err)
	}
	want := graph.Batch{Types: types, Input: []uint32{0, 2, 1, 3}, Blocks: []graph.Block{
		// Destinations 0, 2 and 4; the hop finds 1 (cites 2), then 3 (writes 2). Authors have one row of features.
		{NumDst: 3, NumSrc: 4, Indptr: []uint32{0, 1, 2, 4, 6, 8}, Indices: []uint32{1, 3, 0, 2, 3, 3, 0, 1}, Dst: []uint32{0, 1, 3}, Ends: []uint32{3, 4}},
		{NumDst: 1, NumSrc: 3, Indptr: []uint32{0, 1, 2}, Indices: []uint32{1, 2}, Dst: []uint32{0}, Ends: []uint32{2, 3}},
	}}
	if d := cmp.Diff(want, b, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(graph.Types{})); d != "" {
		t.Error(d)
	}
}

// lists reads a graph in memory, list by list, as readers of other kinds do: by the numbers of Hop.Node.
type lists struct{ *inMemory }

func (r lists) Read(ctx context.Context, h *Hop) error {
	for i := range h.Len() {
		list := (*graph.CSC)(r.inMemory).Neighbors(h.Node(i))
		if h.Whole(i) {
			if err := h.Look(ctx, i, list); err != nil {
				return err
			}
			continue
		}
		start, _ := h.Edges(i)
		pos := make([]int64, h.Count(i))
		h.Draw(i, pos)
		for k, p := range pos {
			h.Out(i)[k] = list[p-start]
		}
	}
	return nil
}

// TestTypedDraw draws batches of seeds, by a reader of lists, and asks before a batch becomes larger.
func TestTypedDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, types := genTyped(t)
		fanout := genFanout(t)
		lo, hi := types.Range(0)
		seeds := identity(make([]uint32, hi-lo))
		p := mbfile.Params{BatchSize: len(seeds), Fanout: fanout, Epochs: 1}
		from := &Seeds{params: p, split: [3]split{{nodes: seeds, labels: make([]int32, len(seeds))}}}
		from.orders.init(len(seeds), &p)
		var least Extent
		s := NewFrom(lists{(*inMemory)(g)}, fanout, Options{Types: types, Check: func(x Extent, _ int64) error { least = x; return nil }})
		b, err := s.Draw(t.Context(), from, ID{Split: Train})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		picked := slices.Clone(s.picked.Nodes)
		var want Extent
		for l := range b.Blocks {
			want.Dst, want.Edges = want.Dst+int64(b.Blocks[l].NumRows()), want.Edges+int64(len(b.Blocks[l].Indices))
			checkTypes(t, g, b, l)
		}
		want.Nodes, want.Widest, want.Typed = least.Nodes, Widest(fanout), true
		if n := int64(len(s.typed.place)); least.Nodes != n || n < int64(len(b.Input)) {
			t.Fatalf("the last question is of %d nodes, want %d", least.Nodes, n)
		}
		if least != want {
			t.Fatalf("the last question is of %+v, want %+v", least, want)
		}
		var again Picked
		if d := cmp.Diff(samplertest.SampleTyped(g, types, picked, samplertest.TypedDraws{Fanout: fanout}, from.Pick(ID{Split: Train}, &again)), b, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(graph.Batch{}, "Labels"), cmpopts.IgnoreUnexported(graph.Types{})); d != "" {
			t.Fatal(d)
		}
		refused := errors.New("refused")
		for first := range 2 * len(fanout) {
			left := first
			s := New(g, fanout, Options{Types: types, Check: func(Extent, int64) error {
				if left--; left < 0 {
					return refused
				}
				return nil
			}})
			if _, err := s.Draw(t.Context(), from, ID{Split: Train}); err != refused {
				t.Fatalf("question %d: %v", first, err)
			}
		}
	})
}
