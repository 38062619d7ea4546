package importer_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// circulant is a graph whose node v has the in-neighbours 7v, 7v+1 … 7v+degree−1, modulo the
// nodes, whose edges come in rounds: one to every node, then another.
type circulant struct{ nodes, degree int64 }

func (c circulant) Shape() importer.Shape {
	return importer.Shape{Nodes: c.nodes, Edges: c.nodes * c.degree, Dim: 1, DType: dtype.Float32, Classes: 2, NoSplit: true, Split: &importer.Split{Parts: "50/25/25"}}
}

func (circulant) Files() []string                            { return nil }
func (c circulant) CountEdges(map[string]int64) int64        { return c.nodes * c.degree }
func (circulant) Features(int64) (importer.RowStream, error) { return zeros{}, nil }

func (c circulant) Labels(_ context.Context, l *importer.Labelling) error {
	for v := range c.nodes {
		if err := l.Label(v, v%2); err != nil {
			return err
		}
	}
	return nil
}

func (c circulant) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	dst, src := make([]int64, importer.Chunk), make([]int64, importer.Chunk)
	n := 0
	for k := range c.degree {
		for v := range c.nodes {
			dst[n], src[n] = v, (7*v+k)%c.nodes
			if n++; n < len(dst) {
				continue
			}
			if err := add(dst, src); err != nil {
				return err
			}
			n = 0
		}
	}
	return add(dst[:n], src[:n])
}

type zeros struct{}

func (zeros) Next(values []float32) error { clear(values); return nil }
func (zeros) Close() error                { return nil }

// TestManyEdges imports a graph whose edges 31 bits cannot count, if DISKGNN_MANY_EDGES names a
// directory with 26 GB of room; a small one otherwise.
func TestManyEdges(t *testing.T) {
	c, dir := circulant{1 << 10, 37}, t.TempDir()
	if many := os.Getenv("DISKGNN_MANY_EDGES"); many != "" {
		var err error
		if dir, err = os.MkdirTemp(many, "edges"); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		c = circulant{1 << 20, 1<<11 + 1}
	}
	f := importer.Format{Name: "circulant", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return c, nil }}
	out := filepath.Join(dir, "D")
	res, err := importer.Import(t.Context(), vfs.OS, out, f, importer.Options{Sources: []string{"-"}, Resources: dataset.Resources{Memory: 512 << 20}}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d edges in %.0f s, %d MiB of anonymous memory", res.Edges, res.Seconds, res.PeakAnon>>20)
	if res.Edges != c.nodes*c.degree || res.PeakAnon > 512<<20 {
		t.Errorf("%+v", res)
	}
	d, err := dataset.Open(vfs.OS, out)
	if err != nil {
		t.Fatal(err)
	}
	top, err := d.Topology(t.Context(), progress.Discard, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	want := make([]uint32, c.degree)
	for v := int64(0); v < c.nodes; v += 1 + c.nodes/1000 {
		for k := range want {
			want[k] = uint32((7*v + int64(k)) % c.nodes)
		}
		slices.Sort(want)
		if got := top.Neighbors(uint32(v)); !slices.Equal(got, want) {
			t.Fatalf("node %d has the in-neighbours %d", v, got)
		}
	}
}
