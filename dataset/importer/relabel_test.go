package importer_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// drawn is a random graph: hubs, parallel edges, self-loops, nodes without edges, several
// components. The features of node v begin with v.
type drawn struct {
	nodes, dim, classes int
	seed                uint64
	multi               bool
	names               []string   // of the classes
	edges               [][2]int64 // source, destination
}

func (d *drawn) Shape() importer.Shape {
	s := importer.Shape{Nodes: int64(d.nodes), Edges: int64(len(d.edges)), Dim: d.dim, DType: dtype.Float32, Multi: d.multi, NoSplit: true, Split: &importer.Split{Parts: "50/25/25", Seed: d.seed}}
	if d.multi || d.names != nil {
		s.Classes, s.ClassNames = d.classes, d.names
	}
	return s
}

func (d *drawn) Files() []string                   { return nil }
func (d *drawn) CountEdges(map[string]int64) int64 { return int64(len(d.edges)) }
func (d *drawn) format() importer.Format {
	return importer.Format{Name: "drawn", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return d, nil }}
}

func (d *drawn) Edges(_ context.Context, add func(dst, src []int64) error) error {
	for part := range slices.Chunk(d.edges, 100) {
		var dst, src []int64
		for _, e := range part {
			src, dst = append(src, e[0]), append(dst, e[1])
		}
		if err := add(dst, src); err != nil {
			return err
		}
	}
	return nil
}

func (d *drawn) Labels(_ context.Context, l *importer.Labelling) error {
	for v := range int64(d.nodes) {
		src := rng.New(rng.Key(d.seed, uint64(v)))
		if d.multi {
			row := make([]float32, d.classes)
			for c := range row {
				row[c] = float32(src.Uint64n(2))
			}
			if err := l.Row(v, row); err != nil {
				return err
			}
			continue
		}
		if err := l.Label(v, int64(src.Uint64n(uint64(d.classes)+1))-1); err != nil {
			return err
		}
	}
	return nil
}

type drawnRows struct {
	d  *drawn
	at int64
}

func (d *drawn) Features(first int64) (importer.RowStream, error) { return &drawnRows{d, first}, nil }
func (*drawnRows) Close() error                                   { return nil }
func (r *drawnRows) Next(values []float32) error {
	for row := range slices.Chunk(values, r.d.dim) {
		src := rng.New(rng.Key(r.d.seed, uint64(r.at), 1))
		row[0] = float32(r.at)
		for i := 1; i < len(row); i++ {
			row[i] = float32(src.Uint64n(512))
		}
		r.at++
	}
	return nil
}

// draw makes a graph of rapid's choices.
func draw(rt *rapid.T) *drawn {
	d := &drawn{nodes: rapid.IntRange(8, 60).Draw(rt, "nodes"), dim: rapid.IntRange(1, 5).Draw(rt, "dim"), classes: rapid.IntRange(2, 11).Draw(rt, "labels are whole numbers"),
		seed: rapid.Uint64Range(0, 1<<60).Draw(rt, "seed"), multi: rapid.Bool().Draw(rt, "multi")}
	src := rng.New(d.seed)
	for range rapid.IntRange(0, 150).Draw(rt, "edges") {
		u, v := src.Float64()*src.Float64(), src.Float64()*src.Float64()
		d.edges = append(d.edges, [2]int64{int64(u * float64(d.nodes)), int64(v * float64(d.nodes))})
	}
	return d
}

func imported(t testing.TB, f importer.Format, o importer.Options) *dataset.Dataset {
	t.Helper()
	o.Sources = []string{"drawn"}
	out := filepath.Join(vfstest.TempDir(t.(*testing.T)), "D")
	if _, err := importer.Import(t.Context(), datasettest.FS, out, f, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(datasettest.FS, out)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// numbers returns the source's number of each node.
func numbers(t testing.TB, d *dataset.Dataset) []uint32 {
	t.Helper()
	return datasettest.EachID(t, d, func(ids *dataset.IDs) uint32 { return uint32(ids.Number()) })
}

// mappedBack is importertest.Text by the numbers of the source: lines sorted, since each names
// its node, but for those of splits, whose nodes are.
func mappedBack(t testing.TB, d *dataset.Dataset, from []uint32) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(importertest.Text(t, d)) {
		f := strings.Fields(line)
		old := func(i int) {
			var v int
			suffix := ""
			if strings.HasSuffix(f[i], ":") {
				suffix = ":"
			}
			if _, err := fmt.Sscanf(f[i], "%d", &v); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			f[i] = fmt.Sprintf("%04d%s", from[v], suffix)
		}
		switch {
		case len(f) == 3 && f[1] == "<-":
			old(0)
			old(2)
		case f[0] == "feat" || f[0] == "label":
			old(1)
		case slices.Contains([]string{"train:", "valid:", "test:"}, f[0]):
			for i := 1; i < len(f); i++ {
				old(i)
			}
			slices.Sort(f[1:])
		case f[0] != "nodes" && f[0] != "edges":
			t.Fatalf("line %q", line)
		}
		lines = append(lines, strings.Join(f, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestRelabel imports random graphs under other numbers: mapped back, they are the graphs.
func TestRelabel(t *testing.T) {
	type choice struct {
		g *drawn
		o importer.Options
	}
	choices := rapid.Custom(func(rt *rapid.T) choice {
		o := importer.Options{
			Symmetrize: rapid.Bool().Draw(rt, "symmetrize"), Dedupe: rapid.Bool().Draw(rt, "dedupe"), RowNormalize: rapid.Bool().Draw(rt, "normalize"),
			SelfLoops: rapid.SampledFrom([]string{importer.LoopsKeep, importer.LoopsDrop, importer.LoopsAdd}).Draw(rt, "loops"),
			DType:     rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}).Draw(rt, "dtype"),
			Compress:  rapid.Bool().Draw(rt, "compress"),
		}
		if rapid.Bool().Draw(rt, "reverse") {
			o.Reverse = importer.ReverseYes
		}
		o.Workers, o.Memory = rapid.IntRange(1, 4).Draw(rt, "workers"), rapid.Int64Range(48<<20, 200<<20).Draw(rt, "memory")
		return choice{draw(rt), o}
	})
	for seed := range 12 {
		c := choices.Example(seed)
		g, o := c.g, c.o
		use := o.Resources
		o.Resources = dataset.Resources{}
		plain := imported(t, g.format(), o)
		if plain.Facts().OriginalIDs != "" || plain.Meta().Format.Version > 2 {
			t.Errorf("%s of ids %q", plain.Meta().Format, plain.Facts().OriginalIDs)
		}
		same := make([]uint32, g.nodes)
		for v := range same {
			same[v] = uint32(v)
		}
		o.Relabel = importer.Relabels()[1+seed%2]
		d := imported(t, g.format(), o)
		if err := d.Verify(t.Context(), progress.Discard, 1); err != nil {
			t.Error(err)
		}
		from := numbers(t, d)
		if got, want := mappedBack(t, d, from), mappedBack(t, plain, same); got != want {
			t.Errorf("%s\ninstead of\n%s", got, want)
		}
		want := byDegree(t, plain)
		if o.Relabel == importer.RelabelBFS {
			want = byBreadth(t, plain)
		}
		if !slices.Equal(from, want) {
			t.Errorf("%s: %v instead of %v", o.Relabel, from, want)
		}
		o.Resources = use
		datasettest.Same(t, d.Dir(), imported(t, g.format(), o).Dir())
	}
}

// byDegree is the order degree, by the finished dataset.
func byDegree(t testing.TB, d *dataset.Dataset) (order []uint32) {
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for v := range uint32(d.Facts().Nodes) {
		order = append(order, v)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(len(top.Neighbors(b)), len(top.Neighbors(a))) })
	return order
}

// byBreadth is the order bfs: every component is coloured, then searched level by level.
func byBreadth(t testing.TB, d *dataset.Dataset) (order []uint32) {
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	near := make([]map[uint32]bool, d.Facts().Nodes)
	for v := range near {
		near[v] = map[uint32]bool{}
	}
	for v := range near {
		for _, u := range top.Neighbors(uint32(v)) {
			if u != uint32(v) {
				near[v][u], near[u][uint32(v)] = true, true
			}
		}
	}
	done := map[uint32]bool{}
	for v := range uint32(len(near)) {
		if done[v] {
			continue
		}
		component := map[uint32]bool{v: true}
		for grown := 0; grown != len(component); {
			grown = len(component)
			for u := range component {
				for w := range near[u] {
					component[w] = true
				}
			}
		}
		best := v
		for u := range uint32(len(near)) {
			if component[u] && len(near[u]) > len(near[best]) {
				best = u
			}
		}
		done[best] = true
		for level := []uint32{best}; len(level) > 0; {
			order = append(order, level...)
			var next []uint32
			for _, u := range level {
				for w := range uint32(len(near)) {
					if near[u][w] && !done[w] {
						done[w] = true
						next = append(next, w)
					}
				}
			}
			level = next
		}
	}
	return order
}

// TestRelabelByHand numbers a path 0-3-1, with 1 -> 5 -> 1, a pair 2-6 and node 4 alone.
func TestRelabelByHand(t *testing.T) {
	g := &drawn{nodes: 7, dim: 2, classes: 3, edges: [][2]int64{{0, 3}, {3, 1}, {1, 3}, {1, 5}, {5, 1}, {5, 1}, {6, 2}, {4, 4}}}
	for _, c := range []struct {
		o    importer.Options
		want []uint32
	}{
		// in-degrees 0:0 1:3 2:1 3:2 4:1 5:1 6:0
		{importer.Options{Relabel: importer.RelabelDegree}, []uint32{1, 3, 2, 4, 5, 0, 6}},
		// without parallel edges and self-loops, 0:0 1:2 2:1 3:2 4:0 5:1 6:0
		{importer.Options{Relabel: importer.RelabelDegree, Dedupe: true, SelfLoops: importer.LoopsDrop}, []uint32{1, 3, 2, 5, 0, 4, 6}},
		// 1 and 3 have two neighbours; 3 has 0 and 1, 1 has 3 and 5. Then 2 and 6, then 4.
		{importer.Options{Relabel: importer.RelabelBFS}, []uint32{1, 3, 5, 0, 2, 6, 4}},
	} {
		d := imported(t, g.format(), c.o)
		if got := numbers(t, d); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
	d := imported(t, g.format(), importer.Options{Relabel: importer.RelabelBFS})
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	// Of 1, now 0: twice 5, now 2, and 3, now 1. Of 3, now 1: 0, now 3, and 1, now 0.
	if got := fmt.Sprint(top.Neighbors(0), top.Neighbors(1), top.Neighbors(2), top.Neighbors(3), top.Neighbors(4), top.Neighbors(5), top.Neighbors(6)); got != "[1 2 2] [0 3] [0] [] [5] [] [6]" {
		t.Error(got)
	}
	if p := d.Meta().Params; !strings.Contains(string(p), `"relabel": "bfs"`) {
		t.Errorf("%s", p)
	}
}

// TestRelabelFailures fails every operation, alone and with all later ones, and goes on.
func TestRelabelFailures(t *testing.T) {
	g := &drawn{nodes: 40, dim: 3, classes: 3, seed: 4}
	for i := range int64(60) {
		g.edges = append(g.edges, [2]int64{i * i % 37, i * 7 % 40})
	}
	datasettest.EveryFailure(t, []bool{true, false}, func(fsys vfs.FS, out string) error {
		_, err := importer.Import(t.Context(), fsys, out, g.format(), importer.Options{Sources: []string{"drawn"}, Relabel: importer.RelabelBFS, Resources: dataset.Resources{Workers: 1}}, progress.Discard)
		return err
	})
}

// TestRelabelBudget refuses before the work what the numbers of the nodes do not leave room for.
func TestRelabelBudget(t *testing.T) {
	g := circulant{nodes: 4 << 20, degree: 0}
	f := importer.Format{Name: "circulant", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return g, nil }}
	out := filepath.Join(vfstest.TempDir(t), "D")
	o := importer.Options{Sources: []string{"drawn"}, Relabel: importer.RelabelBFS, Resources: dataset.Resources{Memory: 64 << 20}}
	p, err := importer.MakePlan(t.Context(), datasettest.FS, out, f, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	// 32 MiB, 8 bytes a node and a bit, and a sort: more than labels, which have 9 bytes a node.
	if want := int64(32<<20 + 9*(4<<20)); p.MemoryBytes < want || p.MemoryBytes > want+4<<20 || len(p.Problems) != 1 {
		t.Errorf("%d bytes, %q", p.MemoryBytes, p.Problems)
	}
	_, err = importer.Import(t.Context(), datasettest.FS, out, f, o, progress.Discard)
	if err == nil || !strings.Contains(err.Error(), "importing") {
		t.Error(err)
	}
	if _, err := os.Stat(out + ".partial"); err == nil {
		t.Error("something was begun")
	}
}
