package importer_test

import (
	"cmp"
	"context"
	"errors"
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
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

func (g *typedGraph) format() importer.Format {
	return importer.Format{Name: "typed", Takes: []string{"typed"}, Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return g, nil }}
}

// triples lists the relations of types as source:name:destination, by places.
func (g *typedGraph) ends(key string) (source, destination int) {
	var name string
	if _, err := fmt.Sscanf(strings.ReplaceAll(key, ":", " "), "%d %s %d", &source, &name, &destination); err != nil {
		panic(err)
	}
	return source, destination
}

// means returns the rows of all nodes of the source as a filled dataset has them, in float32, or nil if a type cannot
// be filled. It is computed from the edges of the dataset in memory, by the plain definition.
func (g *typedGraph) means(o *importer.Options) (rows [][]float32) {
	stored := func(row []float32) []float32 {
		raw := make([]byte, len(row)*o.DType.Size())
		dtype.Convert(raw, o.DType, binio.Bytes(row), dtype.Float32)
		dtype.Convert(binio.Bytes(row), dtype.Float32, raw, o.DType)
		return row
	}
	known, first := make([]bool, len(g.types.Nodes)), []int64{0}
	source, _ := g.Features(0)
	for i, k := range g.types.Nodes {
		known[i] = k.Features
		first = append(first, first[i]+k.Count)
		for range k.Count {
			row := make([]float32, g.dim)
			if k.Features {
				if err := source.Next(row); err != nil {
					panic(err)
				}
			}
			rows = append(rows, stored(row))
		}
	}
	edges := g.reference(o)
	for slices.Contains(known, false) {
		before, some := slices.Clone(known), false
		for kind := range known {
			if before[kind] {
				continue
			}
			var in, out [][2]uint32 // node and neighbour
			has := [2]bool{}
			for key, list := range edges {
				s, d := g.ends(key)
				if d == kind && before[s] {
					in, has[0] = append(in, list...), true
				}
				if s == kind && before[d] {
					has[1] = true
					for _, e := range list {
						out = append(out, [2]uint32{e[1], e[0]})
					}
				}
			}
			switch {
			case !has[0] && !has[1]:
				continue
			case !has[0]:
				in = out
			}
			known[kind], some = true, true
			slices.SortFunc(in, func(a, b [2]uint32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
			for v := first[kind]; v < first[kind+1]; v++ {
				sum, n := make([]float64, g.dim), 0
				for _, e := range in {
					if int64(e[0]) == v {
						n++
						for j, x := range rows[e[1]] {
							sum[j] += float64(x)
						}
					}
				}
				for j := range sum {
					if n > 0 {
						rows[v][j] = float32(sum[j] / float64(n))
					}
				}
				stored(rows[v])
			}
		}
		if !some {
			return nil
		}
	}
	return rows
}

// filledRows returns the rows of a filled dataset in the order of the source's nodes.
func (g *typedGraph) filledRows(t interface{ Fatal(...any) }, d *dataset.Dataset, dim int) (rows [][]float32) {
	f := d.Facts()
	for _, k := range g.types.Nodes {
		i := slices.IndexFunc(f.Types.Nodes, func(o graph.NodeType) bool { return o.Name == k.Name })
		if !f.Types.Nodes[i].Features {
			t.Fatal("a type has no features: ", k.Name)
		}
		lo, hi := f.Types.Range(i)
		raw, values := make([]byte, (hi-lo)*int64(f.RowBytes())), make([]float32, (hi-lo)*int64(dim))
		r, err := d.Features()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.ReadRows(context.Background(), lo, hi, raw), r.Close()); err != nil {
			t.Fatal(err)
		}
		dtype.Convert(binio.Bytes(values), dtype.Float32, raw, f.DType)
		rows = append(rows, slices.Collect(slices.Chunk(values, dim))...)
	}
	return rows
}

// TestFillByHand fills authors from papers, against the direction of their relation, and institutions from authors.
// The source has institutions before authors; the dataset has them after.
func TestFillByHand(t *testing.T) {
	g := &typedGraph{types: &graph.Types{
		Nodes: []graph.NodeType{{Name: "paper", Count: 8, Features: true}, {Name: "institution", Count: 2}, {Name: "author", Count: 4}},
		Relations: []graph.Relation{
			{Source: 2, Name: "writes", Destination: 0}, {Source: 2, Name: "works", Destination: 1}, {Source: 1, Name: "near", Destination: 1},
		},
	}}
	g.nodes, g.dim, g.classes = 14, 1, 3
	// Author 10 wrote papers 0 and 3, author 11 paper 3 twice and paper 6, author 12 paper 1, and author 13 none.
	g.of = [][][2]int64{{{0, 10}, {3, 10}, {3, 11}, {3, 11}, {6, 11}, {1, 12}}, {{8, 10}, {8, 11}, {8, 13}}, {{8, 9}}}
	want := []float32{0, 1, 2, 3, 4, 5, 6, 7, (1.5 + 4 + 0) / 3, 0, 1.5, 4, 1, 0}
	out := filepath.Join(t.TempDir(), "D")
	o := importer.Options{Sources: []string{"-"}, Reading: importer.Reading{Typed: true, Fill: dataset.FillMean}}
	res, err := importer.Import(t.Context(), datasettest.FS, out, g.format(), o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d := datasettest.Verified(t, out)
	if p, err := d.Preprocessing(); err != nil || p.Fill != dataset.FillMean {
		t.Errorf("%+v, %v", p, err)
	}
	if got := slices.Concat(g.filledRows(t, d, 1)...); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := fmt.Sprint(d.Facts().Types.Nodes); got != "[{paper 8 true} {author 4 true} {institution 2 true}]" {
		t.Error(got)
	}
	if len(res.Fill) != 2 || fmt.Sprint(res.Fill[0]) != "{author [author:writes:paper] true 4 1 1 "+fmt.Sprint(res.Fill[0].ReadBytes)+" 16}" ||
		fmt.Sprint(res.Fill[1]) != "{institution [author:works:institution] false 2 1 1 "+fmt.Sprint(res.Fill[1].ReadBytes)+" 8}" {
		t.Errorf("%+v", res.Fill)
	}
}

// TestFillMovesLabels fills types of which the second, with labels, is filled last: its labels, classes and splits are as
// without filling.
func TestFillMovesLabels(t *testing.T) {
	for _, multi := range []bool{false, true} {
		g := &typedGraph{labelled: 1, types: &graph.Types{
			Nodes:     []graph.NodeType{{Name: "paper", Count: 5, Features: true}, {Name: "institution", Count: 20}, {Name: "author", Count: 6}},
			Relations: []graph.Relation{{Source: 2, Name: "writes", Destination: 0}, {Source: 2, Name: "works", Destination: 1}},
		}}
		g.nodes, g.dim, g.classes, g.multi = 31, 1, 3, multi
		g.of = [][][2]int64{{{0, 30}}, {{24, 30}}}
		text := func(fill string) (string, int64) {
			out := filepath.Join(t.TempDir(), "D")
			o := importer.Options{Sources: []string{"-"}, Reading: importer.Reading{Typed: true, Fill: fill}}
			if _, err := importer.Import(t.Context(), datasettest.FS, out, g.format(), o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			d := datasettest.Verified(t, out)
			f := d.Facts()
			first, end := f.Types.Range(f.LabelledType)
			labels, err := d.Labels()
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			fmt.Fprintln(&b, f.Types.Nodes[f.LabelledType].Name, f.Unlabelled, labels[first:end])
			for v := first; v < end && multi; v++ {
				bits, err := d.Targets(t.Context(), []uint32{uint32(v)})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&b, bits)
			}
			for _, name := range dataset.SplitNames {
				ids, err := d.Split(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range ids {
					fmt.Fprint(&b, int64(v)-first, " ")
				}
				fmt.Fprintln(&b)
			}
			return b.String(), first
		}
		want, before := text("")
		got, after := text(dataset.FillMean)
		if before != 5 || after != 11 || got != want || !strings.HasPrefix(got, "institution 11 ") {
			t.Errorf("from node %d on:\n%s\nwithout filling, from node %d on:\n%s", after, got, before, want)
		}
	}
}

// TestFill fills drawn graphs with options for edges, types and memory, and compares every row with a plain
// reference, bit by bit.
func TestFill(t *testing.T) {
	dir, n, passes := t.TempDir(), 0, int64(0)
	rapid.Check(t, func(r *rapid.T) {
		g := drawTyped(r)
		plain := rapid.IntRange(1, len(g.types.Nodes)).Draw(r, "types with features")
		for i := range g.types.Nodes {
			g.types.Nodes[i].Features = i < plain
		}
		g.seed = rapid.Uint64Range(0, 1<<20).Draw(r, "seed")
		g.dim = rapid.SampledFrom([]int{1, 3, 9000}).Draw(r, "dim") // the least memory has room for one row of 9000
		o := importer.Options{
			Sources: []string{"-"}, Symmetrize: rapid.Bool().Draw(r, "symmetrize"), SelfLoops: importer.LoopsKeep,
			Reading: importer.Reading{Typed: true, Fill: dataset.FillMean, Reverse: rapid.SampledFrom(importer.Reverses()).Draw(r, "reverse")},
			DType:   rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}).Draw(r, "dtype"), Compress: rapid.Bool().Draw(r, "compress"),
		}
		o.Workers, o.Memory = rapid.IntRange(1, 3).Draw(r, "workers"), 1<<30
		want := g.means(&o)
		p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), g.format(), o, progress.Discard)
		if err != nil {
			r.Fatal(err)
		}
		n++
		out := fmt.Sprintf("%s/%d", dir, n)
		if plain == len(g.types.Nodes) || want == nil {
			says := "all node types have features: there is nothing to fill"
			if plain < len(g.types.Nodes) {
				says = "with a type that has features: they cannot be filled"
			}
			_, err := importer.Import(t.Context(), datasettest.FS, out, g.format(), o, progress.Discard)
			if len(p.Problems) != 1 || !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || !strings.Contains(p.Problems[0], says) {
				r.Fatalf("%v, %q; want %q", err, p.Problems, says)
			}
			return
		}
		if len(p.Problems) > 0 {
			r.Fatal(p.Problems)
		}
		if rapid.Bool().Draw(r, "least memory") {
			o.Memory = p.MemoryBytes
		}
		p, err = importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), g.format(), o, progress.Discard)
		if err != nil || len(p.Problems) > 0 {
			r.Fatal(p.Problems, err)
		}
		res, err := importer.Import(t.Context(), datasettest.FS, out, g.format(), o, progress.Discard)
		if err != nil {
			r.Fatal(err)
		}
		d := datasettest.Verified(r, out)
		for v, row := range g.filledRows(r, d, g.dim) {
			if !slices.Equal(row, want[v]) {
				r.Fatalf("node %d of the source: %v, want %v", v, row[:min(5, len(row))], want[v][:min(5, len(row))])
			}
		}
		if len(res.Fill) != len(p.Fill) {
			r.Fatalf("%+v, planned %+v", res.Fill, p.Fill)
		}
		for i, d := range res.Fill {
			passes = max(passes, d.Passes)
			planned := p.Fill[i]
			if d.ReadBytes > planned.ReadBytes || d.Type != planned.Type || d.Reversed != planned.Reversed || !slices.Equal(d.From, planned.From) ||
				d.Nodes != planned.Nodes || d.Passes != planned.Passes || d.WriteBytes != planned.WriteBytes {
				r.Fatalf("%+v, planned %+v", d, planned)
			}
		}
		if err := os.RemoveAll(out); err != nil {
			r.Fatal(err)
		}
	})
	if passes < 2 {
		t.Errorf("no type took more than %d passes", passes)
	}
}

// papers is a graph of papers, authors and institutions, with rows of 120 kB. The least memory has
// room for one.
func papers(t *testing.T, change func(*importer.Options)) (*typedGraph, importer.Options) {
	t.Helper()
	g := &typedGraph{types: &graph.Types{
		Nodes: []graph.NodeType{{Name: "paper", Count: 8, Features: true}, {Name: "institution", Count: 2}, {Name: "author", Count: 3}},
		Relations: []graph.Relation{
			{Source: 2, Name: "writes", Destination: 0}, {Source: 2, Name: "works", Destination: 1}, {Source: 0, Name: "cites", Destination: 0},
		},
	}}
	g.nodes, g.dim, g.classes = 13, 30_000, 3
	g.of = [][][2]int64{{{0, 10}, {3, 10}, {3, 11}, {3, 11}, {6, 11}, {7, 12}}, {{8, 10}, {9, 12}, {8, 11}, {9, 10}}, {{0, 7}}}
	o := importer.Options{Sources: []string{"-"}, Reading: importer.Reading{Typed: true, Fill: dataset.FillMean}}
	o.Workers, o.Memory = 1, 1<<30
	change(&o)
	p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), g.format(), o, progress.Discard)
	if err != nil || len(p.Problems) > 0 {
		t.Fatal(p.Problems, err)
	}
	o.Memory = p.MemoryBytes
	return g, o
}

// fills are the ways in which papers are filled: along reversed relations, and into types alone.
func fills() map[string]func(*importer.Options) {
	return map[string]func(*importer.Options){
		"raw":        func(*importer.Options) {},
		"compressed": func(o *importer.Options) { o.Compress, o.Reverse, o.Workers = true, importer.ReverseYes, 2 },
	}
}

// TestFillPasses fills with the least memory: a pass for each node. The bytes are the same as with all memory, and a plan
// for one more byte than the least is no more than one for the least.
func TestFillPasses(t *testing.T) {
	for what, change := range fills() {
		dir := t.TempDir()
		g, o := papers(t, change)
		res, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(dir, "least"), g.format(), o, progress.Discard)
		if err != nil || len(res.Fill) != 2 || res.Fill[0].Passes != 3 || res.Fill[1].Passes != 2 {
			t.Fatalf("%s: %+v, %v", what, res.Fill, err)
		}
		least := o.Memory
		o.Memory, o.Workers = 1<<30, 3
		res, err = importer.Import(t.Context(), datasettest.FS, filepath.Join(dir, "most"), g.format(), o, progress.Discard)
		if err != nil || res.Fill[0].Passes != 1 || res.Fill[1].Passes != 1 {
			t.Fatalf("%s: %+v, %v", what, res.Fill, err)
		}
		datasettest.Same(t, filepath.Join(dir, "least"), filepath.Join(dir, "most"))
		o.Memory = least - 1
		if _, err = importer.Import(t.Context(), datasettest.FS, filepath.Join(dir, "less"), g.format(), o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%s: with less than the least memory: %v", what, err)
		}
	}
}

// TestFillFails fails changes of files in turn, each or, where features are compressed, some; and then openings and
// readings of the dataset's own files. It imports again after each.
func TestFillFails(t *testing.T) {
	for what, change := range fills() {
		t.Run(what, func(t *testing.T) {
			step := 1
			if what == "compressed" {
				step = 7
			}
			g, o := papers(t, change)
			run := func(fsys vfs.FS, out string) error {
				_, err := importer.Import(t.Context(), fsys, out, g.format(), o, progress.Discard)
				return err
			}
			dir := vfstest.TempDir(t)
			ref := filepath.Join(dir, "ref")
			if err := run(datasettest.FS, ref); err != nil {
				t.Fatal(err)
			}
			boom := errors.New("boom")
			reads := func(op vfs.Op, name string) bool {
				ext := filepath.Ext(name)
				return (op == vfs.OpOpen || op == vfs.OpRead) && (ext == ".bin" || ext == ".zst" || ext == ".scratch" || ext == ".sums")
			}
			for _, match := range []func(vfs.Op, string) bool{nil, reads} {
				for n := 0; ; n++ {
					out, files := filepath.Join(dir, "D"), importertest.NewFiles(datasettest.FS)
					fail := &vfs.FailAt{N: n * step, Err: boom, Match: match}
					err := run(vfs.Inject(files, fail), out)
					if left := files.StillOpen(); len(left) > 0 {
						t.Errorf("%v: %q are open", fail, left)
					}
					if !fail.Fired() {
						if err != nil || fail.N < 20 {
							t.Errorf("%d operations, %v", fail.N, err)
						}
						break
					}
					if !errors.Is(err, boom) {
						t.Errorf("%v: %v", fail, err)
					}
					if err := run(datasettest.FS, out); err != nil {
						t.Fatal(err)
					}
					datasettest.Same(t, ref, out)
					if err := os.RemoveAll(out); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestFillResumes interrupts an import while it fills the second type, and changes a byte of a file or none: the next run
// makes the same dataset, and fills that type alone if the rows before are as they were.
func TestFillResumes(t *testing.T) {
	for what, change := range fills() {
		dir := vfstest.TempDir(t)
		g, o := papers(t, change)
		run := func(ctx context.Context, out string, rep progress.Reporter) (dataset.Result, error) {
			return importer.Import(ctx, datasettest.FS, out, g.format(), o, rep)
		}
		if _, err := run(t.Context(), filepath.Join(dir, "ref"), progress.Discard); err != nil {
			t.Fatal(err)
		}
		features := "features.bin"
		if o.Compress {
			features = "features.zst"
		}
		for _, name := range []string{"", features, dataset.IndptrFile, dataset.IndicesFile} {
			out := filepath.Join(dir, "D"+name)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := run(ctx, out, datasettest.At("fill institution", false, cancel))
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", what, err)
			}
			if name != "" {
				if err := flip(filepath.Join(stage.Partial(out), name)); err != nil {
					t.Fatal(err)
				}
			}
			res, err := run(t.Context(), out, progress.Discard)
			if err != nil || res.State != "resumed" {
				t.Fatalf("%s, %q changed: %v, %v", what, name, res.State, err)
			}
			want := 1
			if name == features || o.Compress { // the frame with the end of the first type was not full
				want = 2
			}
			if len(res.Fill) != want {
				t.Errorf("%s, %q changed: %+v", what, name, res.Fill)
			}
			datasettest.Same(t, filepath.Join(dir, "ref"), out)
		}
	}
}

// flip changes a byte of a file.
func flip(name string) error {
	b, err := os.ReadFile(name)
	if err == nil {
		b[len(b)/2] ^= 0x10
		err = os.WriteFile(name, b, 0o666)
	}
	return err
}

// TestFillOfChangedFiles changes a byte of a file between two passes over it.
func TestFillOfChangedFiles(t *testing.T) {
	for what, change := range fills() {
		g, o := papers(t, change)
		features := "features.bin"
		if o.Compress {
			features = "features.zst"
		}
		for _, name := range []string{features, dataset.IndptrFile, dataset.IndicesFile} {
			out := filepath.Join(t.TempDir(), "D")
			rep := datasettest.At("fill institution", false, func() {
				if err := flip(filepath.Join(stage.Partial(out), name)); err != nil {
					t.Error(err)
				}
			})
			_, err := importer.Import(t.Context(), datasettest.FS, out, g.format(), o, rep)
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "fill the node type institution: ") || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, %s changed: %v", what, name, err)
			}
		}
	}
}
