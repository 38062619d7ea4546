package beacon

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/simulate/directgraph"
)

// drawnGraph is a random graph, a batch that may have been drawn of it, and its layout.
func drawnGraph(t *rapid.T) (*graph.CSC, *graph.Batch, *directgraph.Layout) {
	nodes := rapid.IntRange(2, 30).Draw(t, "nodes")
	g := &graph.CSC{Indptr: []int64{0}}
	for range nodes {
		list := rapid.SliceOfN(rapid.Uint32Range(0, uint32(nodes-1)), 0, 40).Draw(t, "neighbours")
		slices.Sort(list)
		g.Indices = append(g.Indices, list...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	b := &graph.Batch{Input: []uint32{uint32(rapid.IntRange(0, nodes-1).Draw(t, "seed"))}}
	for range rapid.IntRange(1, 3).Draw(t, "hops") {
		block := graph.Block{NumDst: len(b.Input), Indptr: []uint32{0}}
		for d := range block.NumDst {
			list := g.Neighbors(b.Input[d])
			slots := rapid.SliceOfNDistinct(rapid.IntRange(0, max(0, len(list)-1)), min(1, len(list)), min(4, len(list)), rapid.ID).Draw(t, "slots")
			if len(list) == 0 {
				slots = nil
			}
			for _, slot := range slots {
				at := slices.Index(b.Input, list[slot])
				if at < 0 {
					at = len(b.Input)
					b.Input = append(b.Input, list[slot])
				}
				block.Indices = append(block.Indices, uint32(at))
			}
			block.Indptr = append(block.Indptr, uint32(len(block.Indices)))
		}
		block.NumSrc = len(b.Input)
		b.Blocks = slices.Insert(b.Blocks, 0, block)
	}
	l, err := directgraph.New(directgraph.Shape{Page: 64, Feature: 8}, int64(nodes), func(v int64) int64 { return int64(g.Degree(uint32(v))) })
	if err != nil {
		t.Fatal(err)
	}
	return g, b, l
}

// paths counts the nodes that a tree has below a node of a batch.
func paths(b *graph.Batch, hop int, u uint32) int {
	if hop == len(b.Blocks) {
		return 1
	}
	block, n := &b.Blocks[len(b.Blocks)-1-hop], 1
	for _, s := range block.Indices[block.Indptr[u]:block.Indptr[u+1]] {
		n += paths(b, hop+1, s)
	}
	return n
}

// A tree has a node for every path, dedup one for every hop and node; each command reads the
// page that its children's entries are in, as the layout says it.
func TestReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, b, l := drawnGraph(t)
		p := Defaults(rapid.SampledFrom([]Mode{Faithful, Strict}).Draw(t, "mode"))
		tree, err := FromBatch(p, b, g, l, 4, Tree)
		if err != nil {
			t.Fatal(err)
		}
		if want := paths(b, 0, 0); tree.Nodes() != want {
			t.Fatalf("%d nodes of a tree of %d", tree.Nodes(), want)
		}
		dedup, err := FromBatch(p, b, g, l, 4, Dedup)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := nodesOf(b, Tree), nodesOf(b, Dedup); a != float64(tree.Nodes()) || b != float64(dedup.Nodes()) {
			t.Fatalf("%v and %v nodes were said, there are %d and %d", a, b, tree.Nodes(), dedup.Nodes())
		}
		reached := []map[uint32]bool{{0: true}}
		for h := range b.Blocks {
			block, next := &b.Blocks[len(b.Blocks)-1-h], map[uint32]bool{}
			for u := range reached[h] {
				for _, s := range block.Indices[block.Indptr[u]:block.Indptr[u+1]] {
					next[s] = true
				}
			}
			reached = append(reached, next)
		}
		for h, nodes := range reached {
			if dedup.Hops[h] != int64(len(nodes)) {
				t.Fatalf("hop %d reads %d nodes, reached are %d", h, dedup.Hops[h], len(nodes))
			}
		}
		// What the target's commands read is where the slots of its children are.
		list := g.Neighbors(b.Input[0])
		pages := map[int64]int{}
		first, end := tree.commandsOf(0)
		for c := first; c < end; c++ {
			pages[tree.Commands[c].Page] += len(tree.childrenOf(c))
		}
		last := &b.Blocks[len(b.Blocks)-1]
		left := slices.Clone(list)
		for _, s := range last.Indices[:last.Indptr[1]] {
			slot := slices.Index(left, b.Input[s])
			left[slot] = ^uint32(0) // of parallel edges, each once
			pages[l.At(b.Input[0], l.Shape().Section(int64(slot), int64(len(list)))).Page()]--
		}
		for page, n := range pages {
			if n != 0 {
				t.Fatalf("page %d is read for %d children too many", page, n)
			}
		}
		for _, tr := range []*Trace{tree, dedup} {
			for i := range platforms {
				if _, err := Run(p, &platforms[i], tr); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A batch of another graph is refused.
func TestReplayOfAnotherGraph(t *testing.T) {
	b := &graph.Batch{Input: []uint32{0, 1}, Blocks: []graph.Block{{NumSrc: 2, NumDst: 1, Indptr: []uint32{0, 1}, Indices: []uint32{1}}}}
	for _, g := range []*graph.CSC{{Indptr: []int64{0, 0, 0}}, {Indptr: []int64{0, 1, 1}, Indices: []uint32{0}}} {
		l, err := directgraph.New(directgraph.Shape{Page: 64, Feature: 8}, 2, func(v int64) int64 { return int64(g.Degree(uint32(v))) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromBatch(Defaults(Faithful), b, g, l, 4, Tree); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}
