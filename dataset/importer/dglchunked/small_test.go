package dglchunked_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dglchunked"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// files is a document of metadata.json; names that end in .csv are of text.
func files(names ...string) string {
	format := `"name": "numpy"`
	if strings.HasSuffix(names[0], ".csv") {
		format = `"name": "csv", "delimiter": ","`
	}
	return fmt.Sprintf(`{"format": {%s}, "data": ["%s"]}`, format, strings.Join(names, `", "`))
}

// three is the metadata of a graph of three types, a of two nodes, b of three and c, which has data, of two
// and one.
func three(data string) string {
	return `{"node_type": ["a", "b", "c"], "num_nodes_per_chunk": [[2], [3], [2, 1]], "edge_type": ["a:to:c"], "num_edges_per_chunk": [[2]],
		"edges": {"a:to:c": ` + files("e.csv") + `}, "node_data": {"c": {` + data + `}}}`
}

const good = `"feat": {"format": {"name": "numpy"}, "data": ["f0.npy", "f1.npy", "f2.npy"]}, "label": {"format": {"name": "csv"}, "data": ["l0.csv", "l2.csv"]}, "train_mask": {"format": {"name": "numpy"}, "data": ["m.npy"]}`

// write writes a graph's files, and metadata.json with DIR replaced by the directory.
func write(t *testing.T, metadata string) string {
	t.Helper()
	dir := t.TempDir()
	importertest.Tree{
		"metadata.json": []byte(strings.ReplaceAll(metadata, "DIR", dir)),
		"e.csv":         []byte("0,1\n1,2\n"), "semicolons.csv": []byte("0;1\n1;2\n"), "columns.csv": []byte("0,1,2\n1,2,2\n"),
		"reversed.csv": []byte("dst,src\n1,0\n2,1\n"), "twice.csv": []byte("dst,to\n1,0\n"), "ids0.csv": []byte("nid,x\n0,1\n1,2\n"), "ids2.csv": []byte("nid,x\n2,3\n"),
		"f0.npy": importertest.NPY("(2, 1)", []float32{5, 6}), "f1.npy": importertest.NPY("(0, 1)", []float32{}), "f2.npy": importertest.NPY("(1, 1)", []float32{7}),
		"half.npy": importertest.Vector([]uint16{0, 0x3c00, 0x4000}), "f.npy": importertest.Vector([]float32{1, 2, 3}),
		"l0.csv": []byte("1\n0\n"), "l2.csv": []byte("1\n"), "l.npy": importertest.Vector([]float32{0, 1, 0}), "more.csv": []byte("1\n0\n"),
		"m.npy": importertest.Vector([]int8{1, 0, 0}), "m2.npy": importertest.Vector([]int8{0, 1, 1}), "wide.npy": importertest.NPY("(3, 2)", make([]int8, 6)),
	}.Write(t, dir)
	return dir
}

func look(t *testing.T, dir string, o importer.Reading) (importer.Plan, error) {
	t.Helper()
	watched := importertest.NewFiles(datasettest.FS)
	p, err := importer.MakePlan(t.Context(), watched, filepath.Join(dir, "D"), dglchunked.Format, importer.Options{Sources: []string{dir}, Reading: o}, progress.Discard)
	if left := watched.StillOpen(); len(left) > 0 {
		t.Errorf("%q are open", left)
	}
	return p, err
}

// TestSmall changes one thing of a small graph at a time.
func TestSmall(t *testing.T) {
	const feat, label = `"feat": {"format": {"name": "numpy"}, "data": ["f.npy"]}`, `"label": {"format": {"name": "numpy"}, "data": ["l.npy"]}`
	replaced := func(old, new string) string {
		all := three(good)
		if !strings.Contains(all, old) {
			t.Fatal(old)
		}
		return strings.Replace(all, old, new, 1)
	}
	for _, c := range []struct{ metadata, says string }{
		{three(feat + ", " + label + `, "train_mask": ` + files("m.npy")), ""},
		{three(feat + ", " + label + `, "train_mask": ` + files("m.npy") + `, "test_mask": ` + files("m2.npy")), ""},
		{replaced(`"e.csv"`, `"reversed.csv"`), ""},
		{replaced(`"e.csv"`, `"twice.csv"`), `twice.csv: its columns are "dst" and "to"`},
		{three(label + `, "x": ` + files("ids0.csv", "ids2.csv") + `, "train_mask": ` + files("m.npy")), `ids0.csv: the name of column 1, "nid", says that it has ids`},
		{three(feat + ", " + label + `, "test_mask": ` + files("m.npy")), "has masks, but no train_mask"},
		{three(feat + ", " + label + `, "val_mask": ` + files("m.npy")), "has masks, but no train_mask"},
		{three(feat + ", " + label + `, "train_mask": ` + files("wide.npy")), "wide.npy: a mask has 2 columns instead of 1"},
		{replaced(`["a", "b", "c"]`, `[]`), "it lists 0 node types, but chunks of 3 node types"},
		{replaced(`["a", "b", "c"]`, `["a", "b"]`), "it lists 2 node types, but chunks of 3 node types"},
		{replaced(`[[2], [3], [2, 1]]`, `[[0], [0], [0]]`), "the graph has 0 nodes; at least 1 is needed"},
		{replaced(`[[2], [3], [2, 1]]`, `[[4611686018427387903], [0], [0]]`), "32-bit"},
		{replaced(`[[2], [3], [2, 1]]`, `[[4611686018427387904], [0], [0]]`), "a chunk has an impossible number of nodes or edges, 4611686018427387904"},
		{replaced(`[[2], [3], [2, 1]]`, `[[10], [4611686018427387893], [0]]`), "32-bit"},
		{replaced(`[[2], [3], [2, 1]]`, `[[10], [4611686018427387894], [0]]`), "a chunk has an impossible number of nodes or edges, 4611686018427387894"},
		{strings.Replace(three(feat+", "+label+`, "train_mask": `+files("m.npy")), "[2, 1]", "[2, 0, 1]", 1), ""}, // a chunk of no nodes
		{replaced(`["a:to:c"]`, `[]`), "it lists 0 edge types, but chunks of 1 edge types"},
		{replaced(`"edge_type": ["a:to:c"], "num_edges_per_chunk": [[2]]`, `"edge_type": ["a:to:c", "a:to:c"], "num_edges_per_chunk": [[2], [2]]`), `it has the edge type "a:to:c" twice`},
		{replaced(`["a:to:c"]`, `["a:c"]`), `the edge type "a:c" is not source:relation:destination`},
		{replaced(`"num_edges_per_chunk": [[2]]`, `"num_edges_per_chunk": [[140737488355330]]`), "a chunk has an impossible number of nodes or edges, 140737488355330"},
		{replaced(`"edge_type": ["a:to:c"], "num_edges_per_chunk": [[2]]`, `"edge_type": ["a:to:c", "a:of:c"], "num_edges_per_chunk": [[2], [140737488355327]]`), "it names no files for edges a:of:c"},
		{replaced(`"edge_type": ["a:to:c"], "num_edges_per_chunk": [[2]]`, `"edge_type": ["a:to:c", "a:of:c"], "num_edges_per_chunk": [[2], [140737488355328]]`), "a chunk has an impossible number of nodes or edges, 140737488355328"},
		{replaced(`"delimiter": ","}, "data": ["e.csv"]`, `"delimiter": ";"}, "data": ["semicolons.csv"]`), ""},
		{replaced(`"data": ["e.csv"]`, `"data": ["DIR/e.csv"]`), ""}, // an absolute path
		{replaced(`"data": ["e.csv"]`, `"data": ["columns.csv"]`), "columns.csv: edges have 3 columns instead of 2"},
		{replaced(`"data": ["e.csv"]`, `"data": []`), "it names no files for edges a:to:c"},
		{replaced(`"feat": {"format": {"name": "numpy"}`, `"feat": {"format": {"name": "orc"}`), `features feat: unknown format "orc"`},
		{replaced(`"label": {"format": {"name": "csv"}`, `"label": {"format": {"name": "orc"}`), `labels label: unknown format "orc"`},
		{replaced(`"train_mask": {"format": {"name": "numpy"}`, `"train_mask": {"format": {"name": "orc"}`), `train_mask: unknown format "orc"`},
		{replaced(`["l0.csv", "l2.csv"]`, `["l0.csv", "more.csv"]`), "more.csv: it has more rows than its chunk's 1 nodes"},
		{replaced(`["l0.csv", "l2.csv"]`, `["l2.csv", "l2.csv"]`), "l2.csv: it has 1 rows instead of one for each of its chunk's 2 nodes"},
		{replaced(`["l0.csv", "l2.csv"]`, `["l0.csv"]`), "l0.csv: label has 1 files of text instead of one for each of 2 chunks"},
		{strings.Replace(three(good), `"node_data"`, `"graph_info": {"ntype_label": ["c"], "ntype_label_property": []}, "node_data"`, 1), ""},
		{strings.Replace(three(good), `"node_data"`, `"graph_info": {"ntype_label": ["c"], "ntype_label_property": ["none"]}, "node_data"`, 1), ""},
	} {
		p, err := look(t, write(t, c.metadata), importer.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Join(p.Problems, "; "); c.says == "" && found != "" || !strings.Contains(found, c.says) || strings.Contains(found, "\n") {
			t.Errorf("%s: %q, want %q", c.metadata, found, c.says)
		}
	}
}

// TestBlank imports chunks of text without a line, as DGL's script writes those of no nodes or edges:
// the first one, one between others, and the last.
func TestBlank(t *testing.T) {
	text := func(names string) string {
		return `{"format": {"name": "csv", "delimiter": ","}, "data": [` + names + `]}`
	}
	metadata := strings.Replace(three(`"feat": `+text(`"b.csv", "f.csv", "b.csv", "g.csv"`)+`, "label": `+text(`"b.csv", "f.csv", "b.csv", "g.csv"`)+`, "train_mask": `+text(`"b.csv", "f.csv", "b.csv", "g.csv"`)), "[2, 1]", "[0, 2, 0, 1]", 1)
	metadata = strings.Replace(strings.Replace(metadata, `per_chunk": [[2]]`, `per_chunk": [[0, 2, 0]]`, 1), `["e.csv"]`, `["b.csv", "e.csv", "b.csv"]`, 1)
	dir := write(t, metadata)
	importertest.Tree{"b.csv": {}, "f.csv": []byte("1\n0\n"), "g.csv": []byte("1\n"), "head.csv": []byte("x\n"), "more.csv": []byte("1\n")}.Write(t, dir)
	out, _ := importertest.Imported(t, dglchunked.Format, dir, importer.Reading{})
	want := "0 |  | 0 | -1 | -\n1 |  | 0 | -1 | -\n2 |  | 0 | -1 | -\n3 |  | 0 | -1 | -\n4 |  | 0 | -1 | -\n5 |  | 1 | 1 | train\n6 | 0 | 0 | 0 | -\n7 | 1 | 1 | 1 | train\n"
	if got := importertest.Nodes(t, out); got != want {
		t.Errorf("imported\n%s, want\n%s", got, want)
	}
	for _, c := range []struct{ old, new, says string }{
		{`[0, 2, 0, 1]`, `[0, 2, 1, 0]`, "b.csv is empty"},
		{`[[0, 2, 0]]`, `[[1, 1, 0]]`, "b.csv is empty"},
		{`"b.csv", "f.csv", "b.csv", "g.csv"`, `"b.csv", "f.csv", "none.csv", "g.csv"`, "none.csv is missing"},
		{`"b.csv", "f.csv", "b.csv", "g.csv"`, `"b.csv", "f.csv", "head.csv", "g.csv"`, ""},
		{`"b.csv", "f.csv", "b.csv", "g.csv"`, `"b.csv", "f.csv", "more.csv", "g.csv"`, "more.csv: it has more rows than its chunk's 0 nodes"},
		{`["b.csv", "e.csv", "b.csv"]`, `["b.csv", "e.csv", "none.csv"]`, "none.csv is missing"},
		{`["b.csv", "e.csv", "b.csv"]`, `["semicolons.csv", "e.csv", "b.csv"]`, "semicolons.csv: edges have 1 columns instead of 2"},
		{`"train_mask": ` + text(`"b.csv", "f.csv", "b.csv", "g.csv"`), `"train_mask": ` + text(`"b.csv", "b.csv", "b.csv", "b.csv"`), "b.csv is empty"},
	} {
		if !strings.Contains(metadata, c.old) {
			t.Fatal(c.old)
		}
		importertest.Save(t, filepath.Join(dir, "metadata.json"), []byte(strings.ReplaceAll(metadata, c.old, c.new)))
		p, err := look(t, dir, importer.Reading{})
		if found := strings.Join(p.Problems, "; "); err != nil || c.says == "" && found != "" || !strings.Contains(found, c.says) {
			t.Errorf("%s: %q, %v, want %q", c.new, found, err, c.says)
		}
	}
	none := strings.ReplaceAll(metadata, `"b.csv", "f.csv", "b.csv", "g.csv"`, `"b.csv"`)
	importertest.Save(t, filepath.Join(dir, "metadata.json"), []byte(strings.Replace(none, "[0, 2, 0, 1]", "[0]", 1)))
	if p, err := look(t, dir, importer.Reading{}); err != nil || !strings.Contains(strings.Join(p.Problems, "; "), "b.csv is empty, like all files of label") {
		t.Errorf("no nodes of the type with labels: %q, %v", p.Problems, err)
	}
}

// TestRows reads the features of the last of three types, and of many edges.
func TestRows(t *testing.T) {
	dir := write(t, strings.Replace(three(strings.Replace(good, `["l0.csv", "l2.csv"]`, `["l.npy"]`, 1)), `per_chunk": [[2]]`, `per_chunk": [[40000]]`, 1))
	var text strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&text, "%d,%d\n", i%2, i%3)
	}
	importertest.Save(t, filepath.Join(dir, "e.csv"), []byte(text.String()))
	replaceIn(t, filepath.Join(dir, "metadata.json"), `"csv"}, "data": ["l.npy"]`, `"numpy"}, "data": ["l.npy"]`)
	s, err := dglchunked.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Features(0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 8)
	if err := errors.Join(rows.Next(got), rows.Close()); err != nil || !slices.Equal(got, []float32{0, 0, 0, 0, 0, 5, 6, 7}) {
		t.Errorf("%v, %v", got, err)
	}
	n := 0
	if err := s.Edges(t.Context(), func(dst, src []int64) error {
		for i := range dst {
			if dst[i] != int64(5+n%3) || src[i] != int64(n%2) {
				return fmt.Errorf("edge %d is %d to %d", n, src[i], dst[i])
			}
			n++
		}
		return nil
	}); err != nil || n != 40_000 {
		t.Errorf("%d edges, %v", n, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "f2.npy")), os.Remove(filepath.Join(dir, "l.npy"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Labels(t.Context(), nil); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "l.npy is missing") {
		t.Error(err)
	}
	if rows, err = s.Features(7); err == nil {
		err = rows.Next(got[:1])
	}
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "f2.npy is missing") {
		t.Error(err)
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
}

func replaceIn(t *testing.T, name, old, new string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatal(old, err)
	}
	importertest.Save(t, name, []byte(strings.Replace(string(b), old, new, 1)))
}

// TestHalf looks at the type that features get: float16 if all tables have that.
func TestHalf(t *testing.T) {
	label := `, "label": ` + files("l.npy")
	for features, want := range map[string]dtype.Type{`"half": ` + files("half.npy"): dtype.Float16, `"half": ` + files("half.npy") + `, "f": ` + files("f.npy"): dtype.Float32} {
		s, err := dglchunked.Format.Open(datasettest.FS, []string{write(t, three(features+label))}, &importer.Reading{})
		if err != nil || s.Shape().DType != want {
			t.Errorf("%s: %v, %v, want %s", features, s, err, want)
		}
	}
}

// TestDetect looks at a directory, at its metadata.json, and at another directory.
func TestDetect(t *testing.T) {
	dir := write(t, three(good))
	for name, want := range map[string]string{dir: "it has a metadata.json", filepath.Join(dir, "metadata.json"): "it has a metadata.json", t.TempDir(): ""} {
		if got := dglchunked.Format.Detect(datasettest.FS, []string{name}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
