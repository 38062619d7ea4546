package sampler

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
)

// Degrees are bytes; 255 stands for all that are larger.
func TestFillDegrees(t *testing.T) {
	to := []byte{9, 9, 9, 9, 9}
	FillDegrees(to[:4], []int64{3, 3, 257, 512, 1 << 40})
	if !slices.Equal(to, []byte{0, 254, 255, 255, 9}) {
		t.Errorf("%v", to)
	}
}

// TestDegrees draws the same batches with a table of degrees and without, from graphs with nodes of any degree.
func TestDegrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGraph(t)
		if rapid.Bool().Draw(t, "long") { // one more node, with 254 to 256 edges or many, from all nodes, and an edge to the first
			n := rapid.SampledFrom([]int{254, 255, 256, 3000}).Draw(t, "degree")
			v := uint32(g.NumNodes())
			g.Indices = append(slices.Insert(g.Indices, 0, v), make([]uint32, n)...)
			for i := range g.Indptr[1:] {
				g.Indptr[1+i]++
			}
			g.Indptr = append(g.Indptr, int64(len(g.Indices)))
		}
		short := make([]byte, g.NumNodes())
		FillDegrees(short, g.Indptr)
		fanout, seeds := genFanout(t), genSeeds(t, g)
		var with, without graph.Batch
		if err := New(g, fanout, Options{}).sample(t.Context(), &without, seeds, 1); err != nil {
			t.Fatal(err)
		}
		if err := New(g, fanout, Options{Degrees: short}).sample(t.Context(), &with, seeds, 1); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(with.Input, without.Input) || !slices.Equal(with.Degree, without.Degree) {
			t.Fatalf("degrees %v of %v, want %v of %v", with.Degree, with.Input, without.Degree, without.Input)
		}
	})
}

// A hash table numbers any id; a node that is not of the graph is refused where its degree is looked up.
func TestDegreesRefuse(t *testing.T) {
	g := &graph.CSC{Indptr: []int64{0, 1, 1}, Indices: []uint32{2}}
	var b graph.Batch
	err := New(g, []int{1}, Options{Hash: true, Degrees: []byte{1, 0}}).sample(t.Context(), &b, []uint32{0}, 1)
	if !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}

// TestManyLongDegrees looks up more long degrees than fit into one request.
func TestManyLongDegrees(t *testing.T) {
	const nodes, seeds = 5000, 3000
	g := &graph.CSC{Indptr: make([]int64, nodes+1)}
	src := rng.New(1)
	for v := range nodes {
		for range 255 + v%2 {
			g.Indices = append(g.Indices, src.Uint32n(nodes))
		}
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	short := make([]byte, nodes)
	FillDegrees(short, g.Indptr)
	var b graph.Batch
	if err := New(g, []int{2}, Options{Degrees: short}).sample(t.Context(), &b, identity(make([]uint32, seeds)), 1); err != nil {
		t.Fatal(err)
	}
	if found := len(b.Input) - seeds; found <= chunkEdges/2 || found >= nodes-seeds {
		t.Errorf("%d nodes are found", found)
	}
	for i, v := range b.Input {
		if b.Degree[i] != 255+v%2 {
			t.Fatalf("node %d has the degree %d", v, b.Degree[i])
		}
	}
}
