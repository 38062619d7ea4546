package exact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
)

// lines reads a prediction as text: a line a node, its id first, whatever form it has.
func lines(t *testing.T, name string) (header string, rows []string) {
	t.Helper()
	b, err := os.ReadFile(name)
	check(t, err)
	if filepath.Ext(name) == ".csv" {
		text := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		return text[0], text[1:]
	}
	f, err := parquet.OpenFile(strings.NewReader(string(b)), int64(len(b)))
	check(t, err)
	var names []string
	for _, c := range f.Schema().Columns() {
		names = append(names, c[0])
	}
	for _, g := range f.RowGroups() {
		r := g.Rows()
		for {
			var list [1]parquet.Row
			n, _ := r.ReadRows(list[:])
			if n == 0 {
				break
			}
			var words []string
			for _, v := range list[0] {
				if v.Kind() == parquet.Float {
					words = append(words, strconv.FormatFloat(float64(v.Float()), 'g', -1, 32))
				} else if v.Kind() == parquet.ByteArray {
					words = append(words, string(v.ByteArray()))
				} else {
					words = append(words, strconv.FormatInt(v.Int64(), 10))
				}
			}
			rows = append(rows, strings.Join(words, ","))
		}
		check(t, r.Close())
	}
	return strings.Join(names, ","), rows
}

// A table has the array's values beside the ids of the nodes, of all nodes and of a file's.
func TestTables(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 4}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 8)
	list := w.path("nodes.txt")
	check(t, os.WriteFile(list, []byte("node\n17, of these\n\n# a comment\n299\n0\n17\n"), 0o600))
	for _, nodes := range []string{AllNodes, "test", list} {
		ids := slices.Collect(func(yield func(uint32) bool) {
			for v := range uint32(300) {
				if !yield(v) {
					return
				}
			}
		})
		switch nodes {
		case "test":
			ids = raw.Test
		case list:
			ids = []uint32{0, 17, 299}
		}
		for output, columns := range map[string][]string{
			Logits: {"logit_0", "logit_1", "logit_2"}, Classes: {"class"},
			Embeddings: {"embedding_0", "embedding_1", "embedding_2", "embedding_3", "embedding_4", "embedding_5", "embedding_6", "embedding_7"},
		} {
			values, p := w.predict(t, PredictOptions{Output: output, Nodes: nodes}, 0)
			if p.Rows != int64(len(ids)) {
				t.Fatalf("%s of %s: %+v", output, nodes, p)
			}
			if nodes != AllNodes {
				b, err := os.ReadFile(w.path("out.nodes.npy"))
				if want := append(binio.NPYHeader("<u4", []int64{int64(len(ids))}), bytesOf(ids)...); err != nil || !slices.Equal(b, want) {
					t.Errorf("%s of %s: the ids beside are %q, %v", output, nodes, b, err)
				}
			} else if _, err := os.Stat(w.path("out.nodes.npy")); err == nil {
				t.Error("ids were written beside all nodes")
			}
			var want []string
			for i, id := range ids {
				words := []string{strconv.Itoa(int(id))}
				for _, x := range values[i*len(columns):][:len(columns)] {
					words = append(words, strconv.FormatFloat(float64(x), 'g', -1, 32))
				}
				want = append(want, strings.Join(words, ","))
			}
			for _, suffix := range []string{".csv", ".parquet"} {
				o := PredictOptions{Options: w.options(), Output: output, Nodes: nodes, Out: w.path("out" + suffix), Force: true}
				if _, err := predict(context.Background(), disk, o, progress.Discard, parts{stack: all.Open, room: w.tight(t, 0.5)}); err != nil {
					t.Fatalf("%s of %s as %s: %v", output, nodes, suffix, err)
				}
				header, rows := lines(t, o.Out)
				if header != "node,"+strings.Join(columns, ",") || !slices.Equal(rows, want) {
					t.Errorf("%s of %s as %s: %s, %q, want %q", output, nodes, suffix, header, rows, want)
				}
			}
			_ = os.Remove(w.path("out.nodes.npy"))
		}
	}
}

func bytesOf(ids []uint32) (b []byte) {
	for _, id := range ids {
		b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	return b
}

// addRows passes computed rows to a sink.
func addRows(ctx context.Context, s sink, v values, first int, rows []float32) error {
	made := converter{values: v}
	return made.each(ctx, rows, func(at int, cells []byte) error { return s.add(ctx, first+at, cells) })
}

// Classes of nodes that may have several are a column each, one or zero.
func TestTablesOfManyLabels(t *testing.T) {
	v := values{kind: Classes, multi: true, columns: 3, width: 3}
	for _, suffix := range []string{".csv", ".parquet"} {
		name := filepath.Join(t.TempDir(), "out"+suffix)
		s, err := newSink(disk, name, v, &targets{nodes: 2})
		check(t, err)
		check(t, addRows(t.Context(), s, v, 0, []float32{-1, 2, 0}))
		check(t, addRows(t.Context(), s, v, 1, []float32{3, 0.5, -0.5}))
		check(t, s.finish())
		header, rows := lines(t, name)
		if header != "node,class_0,class_1,class_2" || !slices.Equal(rows, []string{"0,0,1,0", "1,1,1,0"}) {
			t.Errorf("%s: %s %q", suffix, header, rows)
		}
	}
}

// Row groups are bounded, so that what a table holds is.
func TestRowGroups(t *testing.T) {
	v := values{kind: Logits, columns: 64, width: 64}
	name := filepath.Join(t.TempDir(), "out.parquet")
	const nodes = 3 * parquetGroup / (8 + 4*64)
	s, err := newSink(disk, name, v, &targets{nodes: nodes})
	check(t, err)
	rows := make([]float32, 64*nodes)
	check(t, addRows(t.Context(), s, v, 0, rows))
	check(t, s.finish())
	b, err := os.ReadFile(name)
	check(t, err)
	f, err := parquet.OpenFile(strings.NewReader(string(b)), int64(len(b)))
	check(t, err)
	if n := len(f.RowGroups()); f.NumRows() != nodes || n < 3 {
		t.Errorf("%d rows in %d groups", f.NumRows(), n)
	}
}

func TestNodeFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "nodes")
	for text, says := range map[string]string{
		"":                          "names no nodes",
		"# nothing\n":               "names no nodes",
		"3\nx\n":                    `nodes:2: "x" is not a node id`,
		"3\n-1\n":                   `nodes:2: "-1" is not a node id`,
		"node\n5\n":                 "nodes:2: node 5 is outside the graph, which has 5 nodes",
		"3\nnode\n":                 `nodes:2: "node" is not a node id`,
		"18446744073709551616":      "is not a node id",
		"1\n1\n1\n1\n1\n1\n":        "names nodes twice",
		strings.Repeat("7", 70_000): "nodes:1: bufio.Scanner: token too long",
	} {
		check(t, os.WriteFile(name, []byte(text), 0o600))
		if _, err := readNodes(disk, name, &targets{nodes: 5}, "graph"); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v, want %q", text, err, says)
		}
	}
	check(t, os.WriteFile(name, []byte("4\r\n1\n"), 0o600))
	if ids, err := readNodes(disk, name, &targets{nodes: 5}, "graph"); err != nil || !slices.Equal(ids, []uint32{1, 4}) {
		t.Errorf("%v, %v", ids, err)
	}
}

// Whichever write fails, there is no file.
func TestSinksAreWhole(t *testing.T) {
	v := values{kind: Logits, columns: 2, width: 2}
	for _, suffix := range []string{".npy", ".csv", ".parquet"} {
		dir := t.TempDir()
		s, err := newSink(disk, filepath.Join(dir, "out"+suffix), v, &targets{nodes: 9, ids: []uint32{4}, calls: idsNodes})
		check(t, err)
		check(t, addRows(t.Context(), s, v, 0, []float32{1, 2}))
		check(t, s.abandon())
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: %v are left, %v", suffix, left, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if s, err = newSink(disk, filepath.Join(dir, "out"+suffix), v, &targets{nodes: 9}); err != nil {
			t.Fatal(err)
		}
		if err := addRows(ctx, s, v, 0, []float32{1, 2}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", suffix, err)
		}
		check(t, s.abandon())
	}
}

// An array is refused that its disk has no room for, before anything is computed.
func TestNoRoom(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 5, Classes: 3}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw)
	for _, c := range []struct {
		o    PredictOptions
		need int64
	}{
		{PredictOptions{Output: Logits}, 60 * 3 * 4},
		{PredictOptions{Output: Classes}, 60 * 4},
		{PredictOptions{Output: Logits, Nodes: dataset.Test}, 3 * 4 * int64(len(raw.Test))},
	} {
		c.o.Options, c.o.Out, c.o.Force = w.options(), w.path("x.npy"), true
		_, err := Predict(context.Background(), datasettest.FreeSpace{FS: disk, Bytes: c.need - 1}, c.o, progress.Discard)
		if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "x.npy takes ") {
			t.Errorf("%+v: %v", c.o, err)
		}
		if _, err := os.Stat(c.o.Out); err == nil {
			t.Error("there is a file")
		}
		if _, err := Predict(context.Background(), datasettest.FreeSpace{FS: disk, Bytes: c.need}, c.o, progress.Discard); err != nil {
			t.Errorf("%+v: %v", c.o, err)
		}
		if err := os.Remove(c.o.Out); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOriginalIDs writes predictions by the ids that nodes had before, in every form, and reads them
// back as a list of nodes.
func TestOriginalIDs(t *testing.T) {
	numbers, names := datasettest.Tiny(t), datasettest.Tiny(t)
	numbers.NodeIDs = []int64{7, 1, 0, 6, 2, 5, 3, 4}
	names.Names = []string{"a,b", "node", "\"q\"", "#1", "ü v", "x", " y", "7"}
	for kind, c := range map[string]struct {
		raw    dataset.Raw
		beside string // what follows .nodes
		ids    string
		csv    string
		list   string
	}{
		"number": {numbers, ".npy", "<i8", "node,class\n1,1\n6,0\n5,1\n", "1\n6\n5\n"},
		"name":   {names, ".txt", "\"node\"\n\"#1\"\nx\n", "node,class\n\"node\",1\n\"#1\",0\nx,1\n", " x , 1\n\"#1\"\n# no\n\"node\",0\nx\n"},
	} {
		dir := t.TempDir()
		d := datasettest.Create(t, t.TempDir(), c.raw)
		for _, suffix := range []string{".npy", ".csv", ".parquet"} {
			own, err := d.IDs()
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			v := values{kind: Classes, columns: 1, width: 2}
			s, err := newSink(disk, filepath.Join(dir, "out"+suffix), v, &targets{nodes: 8, ids: []uint32{1, 3, 5}, own: own, calls: idsKind(d.Facts().OriginalIDs)})
			if err != nil {
				t.Fatal(err)
			}
			if suffix == ".npy" { // its ids are all written at the beginning
				err = addRows(t.Context(), s, v, 0, []float32{0, 1, 1, 0, 0, 1})
			} else {
				err = errors.Join(addRows(t.Context(), s, v, 0, []float32{0, 1}), addRows(t.Context(), s, v, 1, []float32{1, 0, 0, 1}))
			}
			if err := errors.Join(err, s.finish()); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(dir, "out.csv")); string(b) != c.csv {
			t.Errorf("%s: %q, %v", kind, b, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "out.nodes"+c.beside))
		if err != nil {
			t.Fatal(err)
		}
		if kind == "name" && string(b) != c.ids || kind == "number" && (!strings.Contains(string(b), c.ids) || string(b[len(b)-24:]) != string(binio.Bytes([]int64{1, 6, 5}))) {
			t.Errorf("%s: ids %q", kind, b)
		}
		f, err := os.Open(filepath.Join(dir, "out.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		p, err := parquet.OpenFile(f, st.Size())
		if err != nil {
			t.Fatal(err)
		}
		rows := make([]parquet.Row, 3)
		if n, err := p.RowGroups()[0].Rows().ReadRows(rows); n != 3 {
			t.Fatal(n, err)
		}
		if got := rows[1][0].String(); got != map[string]string{"number": "6", "name": "#1"}[kind] {
			t.Errorf("%s: parquet has %q", kind, got)
		}
		list := filepath.Join(dir, "list")
		for _, content := range []string{c.list, c.csv} {
			if err := os.WriteFile(list, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			if ids, err := findNodes(t.Context(), disk, list, d); err != nil || !slices.Equal(ids, []uint32{1, 3, 5}) {
				t.Errorf("%s: %v, %v of %q", kind, ids, err, content)
			}
		}
		if err := os.WriteFile(list, []byte("\n9\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := findNodes(t.Context(), disk, list, d); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), `list:2: "9" is not a node`) {
			t.Error(err)
		}
	}
}

// TestClassNames: a table of classes has their names in a last column, by the dataset that the run was
// trained on. Other outputs, and arrays, have the same content as without names.
func TestClassNames(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 4}.Raw()
	plain := newWorld(t, vfstest.TempDir(t), raw, 8)
	raw.ClassNames = []string{"ant", "bee, \"wild\"", "node"}
	cells := []string{"ant", `"bee, ""wild"""`, `"node"`}
	w := newWorld(t, vfstest.TempDir(t), raw, 8)
	there, on := w.on(t, w.path("other"), datasettest.Params{Nodes: 60, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 4}.Raw())
	made := func(w *world, o Options, output, suffix string) (Prediction, string) {
		t.Helper()
		p := PredictOptions{Options: o, Output: output, Out: w.path("out" + suffix), Force: true}
		made, err := predict(context.Background(), disk, p, progress.Discard, parts{stack: all.Open})
		check(t, err)
		return made, p.Out
	}
	for _, suffix := range []string{".csv", ".parquet"} {
		_, name := made(plain, plain.options(), Classes, suffix)
		header, want := lines(t, name)
		if header != "node,class" {
			t.Fatal(header)
		}
		seen := map[byte]bool{}
		for i, row := range want {
			class := row[len(row)-1]
			seen[class] = true
			if want[i] = row + "," + raw.ClassNames[class-'0']; suffix == ".csv" {
				want[i] = row + "," + cells[class-'0']
			}
		}
		p, name := made(w, w.options(), Classes, suffix)
		header, rows := lines(t, name)
		if header != "node,class,class_name" || !slices.Equal(rows, want) || p.Columns != 1 || !slices.Equal(p.ClassNames, raw.ClassNames) || len(seen) < 2 {
			t.Errorf("%s: %s %q, want %q, %+v", suffix, header, rows, want, p)
		}
		if done, err := Finished(context.Background(), disk, PredictOptions{Options: w.options(), Output: Classes, Out: name}); err != nil || done == nil || !slices.Equal(done.ClassNames, raw.ClassNames) {
			t.Errorf("%s: found %+v, %v", suffix, done, err)
		}
		// Of another graph they are the run's, which may not know them.
		if _, name = made(there, on, Classes, suffix); true {
			if header, _ := lines(t, name); header != "node,class" {
				t.Errorf("another graph: %s", header)
			}
		}
	}
	w.says(t, map[string]any{"class_names": raw.ClassNames})
	p, name := made(there, on, Classes, ".csv")
	if header, rows := lines(t, name); header != "node,class,class_name" || !strings.Contains(strings.Join(rows, "\n"), ",2,\"node\"") && !strings.Contains(strings.Join(rows, "\n"), ",0,ant") || !p.OtherGraph {
		t.Errorf("another graph: %s %q", header, rows)
	}
	w.says(t, map[string]any{"class_names": []string{"ant"}}) // of another number of classes
	if p, _ := made(there, on, Classes, ".csv"); p.ClassNames != nil {
		t.Errorf("%q", p.ClassNames)
	}
	for _, c := range []struct {
		output, suffix string
		names          bool
	}{{Logits, ".csv", true}, {Embeddings, ".csv", false}, {Classes, ".npy", true}, {Logits, ".npy", true}} {
		_, a := made(plain, plain.options(), c.output, c.suffix)
		p, b := made(w, w.options(), c.output, c.suffix)
		want, errA := os.ReadFile(a)
		got, errB := os.ReadFile(b)
		if err := errors.Join(errA, errB); err != nil || string(got) != string(want) || (p.ClassNames != nil) != c.names {
			t.Errorf("%s%s differs by the names, or has the names %q: %v", c.output, c.suffix, p.ClassNames, err)
		}
	}
	e, err := evaluate(context.Background(), disk, w.options(), progress.Discard, parts{stack: all.Open})
	if err != nil || !slices.Equal(e.ClassNames, raw.ClassNames) {
		t.Errorf("%+v, %v", e, err)
	}
}
