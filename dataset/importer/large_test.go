package importer_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
)

// TestManyNodes numbers more nodes by their in-degrees than are written at a time: node v of the
// source has v mod 3 edges. Labels, splits and features are those of the same nodes.
func TestManyNodes(t *testing.T) {
	const n = 40_000
	g := &drawn{nodes: n, dim: 1, classes: 5, seed: 3}
	var want [3][]uint32
	for v := range uint32(n) {
		for range v % 3 {
			g.edges = append(g.edges, [2]int64{0, int64(v)})
		}
		want[2-v%3] = append(want[2-v%3], v)
	}
	from := slices.Concat(want[:]...)
	plain, moved := imported(t, g.format(), importer.Options{}), imported(t, g.format(), importer.Options{Relabel: importer.RelabelDegree})
	if got := numbers(t, moved); !slices.Equal(got, from) {
		t.Fatalf("%d nodes, the first %d; want %d, %d", len(got), got[:5], len(from), from[:5])
	}
	labels, err := plain.Labels()
	if err != nil {
		t.Fatal(err)
	}
	got, err := moved.Labels()
	if err != nil {
		t.Fatal(err)
	}
	for v := range got {
		if got[v] != labels[from[v]] {
			t.Fatalf("node %d, of the source %d, has label %d instead of %d", v, from[v], got[v], labels[from[v]])
		}
	}
	for _, name := range dataset.SplitNames {
		all, err := plain.Split(name)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := moved.Split(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == dataset.Train && len(nodes) <= importer.Chunk || !slices.IsSorted(nodes) {
			t.Errorf("%s: %d nodes, in order %v", name, len(nodes), slices.IsSorted(nodes))
		}
		old := make([]uint32, len(nodes))
		for i, v := range nodes {
			old[i] = from[v]
		}
		if slices.Sort(old); !slices.Equal(old, all) {
			t.Errorf("%s: %d nodes instead of %d, or others", name, len(old), len(all))
		}
	}
	row := make([]byte, 4)
	for v := int64(0); v < n; v += 997 {
		if err := moved.ReadFeatures(t.Context(), v, v+1, row); err != nil {
			t.Fatal(err)
		}
		if x := math.Float32frombits(binary.LittleEndian.Uint32(row)); x != float32(from[v]) {
			t.Errorf("node %d has the features of %v instead of %d", v, x, from[v])
		}
	}
}
