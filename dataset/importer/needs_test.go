package importer

import (
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/edgesort"
	"diskgnn/internal/dtype"
)

func TestLabelMemory(t *testing.T) {
	for _, c := range []struct {
		s    Shape
		want int64
	}{
		{Shape{Nodes: 10, Classes: 100}, 50},                                           // a class and a split
		{Shape{Nodes: 10, Classes: 17, Multi: true}, 10*(5+3) + 4*Chunk},               // and 17 bits; values
		{Shape{Nodes: 10, Classes: Chunk + 8, Multi: true}, 10*(5+2049) + 4*(Chunk+8)}, // of a row at least
	} {
		if got := c.s.labelMemory(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
}

func TestLeastMemory(t *testing.T) {
	for _, c := range []struct {
		s    Shape
		want int64
	}{
		{Shape{Nodes: 10, Dim: 4}, edgesort.Least},
		{Shape{Nodes: 10, Dim: 4, Held: 1000}, edgesort.Least + 1000},
		{Shape{Nodes: 2 << 20, Dim: 4, Held: 1000}, 5*2<<20 + 1000}, // the labels
	} {
		im := &importing{shape: c.s, o: Options{DType: dtype.Float32}}
		if got := im.leastMemory(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
}

// TestStoredEdges counts the edges of 100 between 10 nodes.
func TestStoredEdges(t *testing.T) {
	for _, c := range []struct {
		o       Options
		reverse bool
		want    dataset.Need
	}{
		{Options{SelfLoops: LoopsKeep}, false, dataset.Need{Least: 100, Most: 100}},
		{Options{SelfLoops: LoopsKeep}, true, dataset.Need{Least: 200, Most: 200}},
		{Options{SelfLoops: LoopsKeep, Dedupe: true}, false, dataset.Need{Least: 0, Most: 100}},
		{Options{SelfLoops: LoopsDrop}, false, dataset.Need{Least: 0, Most: 100}},
		{Options{SelfLoops: LoopsAdd}, false, dataset.Need{Least: 100, Most: 110}},
		{Options{SelfLoops: LoopsDrop, Dedupe: true, Symmetrize: true}, false, dataset.Need{Least: 100, Most: 200}},
	} {
		im := &importing{shape: Shape{Nodes: 10, Edges: 100}, o: c.o, reverse: c.reverse}
		if got := im.storedEdges(); got != c.want {
			t.Errorf("%+v, reverse %t: %+v, want %+v", c.o, c.reverse, got, c.want)
		}
	}
}

// TestLabelsOfManyBytes gives the last node the last of nine classes, which has a byte of its own.
func TestLabelsOfManyBytes(t *testing.T) {
	l := newLabelling(&Shape{Nodes: 3, Classes: 9, Multi: true})
	if err := l.Row(2, []float32{1, 0, 0, 0, 0, 0, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0, 0, 0, 0, 1, 1}; !slices.Equal(l.targets, want) {
		t.Errorf("%v, want %v", l.targets, want)
	}
}
