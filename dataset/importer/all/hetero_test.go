package all_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
)

var hetero = filepath.Join(fixtures, "igb", "het")

// TestIGBH imports a heterogeneous set with both numbers of classes, and its papers alone.
func TestIGBH(t *testing.T) {
	for _, task := range []string{"19", "2983"} {
		out := filepath.Join(t.TempDir(), "D")
		res, err := all.Import(t.Context(), datasettest.FS, out, "igb-h", importer.Options{Sources: []string{hetero}, Reading: importer.Reading{Task: task}}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(res.Classes) != task || res.Nodes != 22 || res.Unlabelled != 11 {
			t.Errorf("%+v", res)
		}
		importertest.Same(t, datasettest.Verified(t, out), filepath.Join(fixtures, "igb", "het-"+task+".txt"))
	}
	f, _, err := all.Find(datasettest.FS, all.Auto, []string{hetero})
	if err != nil || f.Name != "igb" {
		t.Fatalf("found format %q, %v", f.Name, err)
	}
	p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), f, importer.Options{Sources: []string{hetero}}, progress.Discard)
	if err != nil || p.Nodes != 11 || p.Edges != 13 || !strings.Contains(strings.Join(p.Notes, "\n"), "--format igb-h imports all types") {
		t.Errorf("%+v, %v", p, err)
	}
}

// raw is an array without a header.
func raw[T any](t *testing.T, values []T) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestIGBHLarge imports the layout of the large sets: arrays without headers of two papers, three
// authors and a journal, the last paper's features in the tail.
func TestIGBHLarge(t *testing.T) {
	const dim = 1024
	dir := t.TempDir()
	rows := func(first ...float32) []float32 {
		b := make([]float32, len(first)*dim)
		for i, x := range first {
			b[i*dim] = x
		}
		return b
	}
	for name, content := range map[string][]byte{
		"paper/node_feat.npy":                      raw(t, rows(1, 0)),
		"paper/node_feat_5M_tail.npy":              importertest.NPY("(1, 1024)", rows(2)),
		"paper/node_label_19.npy":                  raw(t, []float32{18, float32(math.NaN())}),
		"author/node_feat.npy":                     raw(t, rows(3, 4, 5)),
		"journal/node_feat.npy":                    importertest.NPY("(1, 1024)", rows(6)),
		"paper__written_by__author/edge_index.npy": raw(t, []int64{0, 2, 1, 0}),
		"paper__published__journal/edge_index.npy": importertest.NPY("(1, 2)", []int32{1, 0}),
	} {
		path := filepath.Join(dir, "processed", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		importertest.Save(t, path, content)
	}
	out := filepath.Join(t.TempDir(), "D")
	if _, err := all.Import(t.Context(), datasettest.FS, out, "igb-h", importer.Options{Sources: []string{dir}}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(importertest.Text(t, datasettest.Verified(t, out))) {
		f := strings.Fields(line)
		if f[0] == "feat" {
			f = f[:3]
		}
		got = append(got, strings.Join(f, " "))
	}
	const want = "nodes 6;edges 3;0 <- 5;2 <- 4;3 <- 5;feat 0: 3;feat 1: 4;feat 2: 5;feat 3: 6;feat 4: 1;feat 5: 2;" +
		"label 0: -1;label 1: -1;label 2: -1;label 3: -1;label 4: 18;label 5: -1;train: 4;valid:;test:"
	if s := strings.Join(got, ";"); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// TestIGBHTypes looks at the type that features get: float16 if all tables have that.
func TestIGBHTypes(t *testing.T) {
	half := func(rows int) []byte {
		return append(headed("<f2", fmt.Sprintf("(%d, 6)", rows)), make([]byte, rows*6*2)...)
	}
	dir := importertest.Edited(t, hetero)
	for _, c := range []struct {
		kind string // whose features become float16
		rows int
		want dtype.Type
	}{{"institute", 2, dtype.Float32}, {"paper", 11, dtype.Float32}, {"author", 5, dtype.Float16}} {
		importertest.Put("processed/"+c.kind+"/node_feat.npy", half(c.rows))(t, dir)
		p, err := all.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), "igb-h", importer.Options{Sources: []string{dir}}, progress.Discard)
		if err != nil || len(p.Problems) > 0 || p.SourceDType != c.want {
			t.Errorf("with %s: %+v, %v; want %s", c.kind, p, err, c.want)
		}
	}
}

// TestIGBHRefuses changes one file of a good set at a time.
func TestIGBHRefuses(t *testing.T) {
	const cites, topic = "paper__cites__paper/edge_index.npy", "paper__topic__fos/edge_index.npy"
	for _, c := range []struct {
		what, file string
		content    []byte // nil: no such file
		says       []string
	}{
		{"other elements", "author/node_feat.npy", importertest.NPY("(5, 7)", make([]float32, 35)), []string{"author/node_feat.npy: its rows have 7 elements, but the rows of paper have 6"}},
		{"fewer authors", "author/node_feat.npy", importertest.NPY("(4, 6)", make([]float32, 24)), []string{"edge_index.npy", "from 4 to 0 is out of range: there are 4 source nodes and 2 destination nodes"}},
		{"authors of a bomb", "author/node_feat.npy", headed("<f4", "(4611686018427387904, 6)"), []string{"author/node_feat.npy"}},
		{"authors that end", "author/node_feat.npy", headed("<f4", "(5, 6)"), []string{"author/node_feat.npy: truncated"}},
		{"half a row", "author/node_feat.npy", make([]byte, 6*4*2+1), []string{"author/node_feat.npy has no header, and its 49 bytes are not whole rows of 6 ×"}},
		{"negative authors", "author/node_feat.npy", headed("<f4", "(-5, 6)"), []string{"author/node_feat.npy"}},
		{"NaN", "author/node_feat.npy", importertest.NPY("(5, 6)", []float32{29: float32(math.NaN())}), []string{"NaN"}},
		{"a topic of 2⁶³", topic, importertest.NPY("(1, 2)", []int64{0, math.MaxInt64}), []string{`the node type "fos" is listed twice, or with an impossible number of nodes, 4611686018427387905`}},
		{"a topic of 2³³", topic, importertest.NPY("(1, 2)", []int64{0, 1<<33 - 1}), []string{"32-bit"}},
		{"a negative topic", topic, importertest.NPY("(2, 2)", []int64{0, 1, 0, -1}), []string{"from 0 to -1 is out of range: there are 11 source nodes and 2 destination nodes"}},
		{"a paper beyond", cites, importertest.NPY("(1, 2)", []int64{11, 0}), []string{"from 11 to 0 is out of range: there are 11 source nodes and 11 destination nodes"}},
		{"three columns", cites, importertest.NPY("(1, 3)", make([]int64, 3)), []string{"edges must be integers of shape (E, 2), not an array of shape (1, 3)"}},
		{"edges of floats", cites, importertest.NPY("(2, 2)", make([]float32, 4)), []string{"integers of shape (E, 2)"}},
		{"no edges", cites, nil, []string{"edge_index.npy is missing"}},
		{"no features of papers", "paper/node_feat.npy", nil, []string{"paper/node_feat.npy is missing"}},
		{"a class too many", "paper/node_label_19.npy", importertest.NPY("(11,)", []float32{10: 19}), []string{"node_label_19.npy: node 21 has the label 19, but there are 19 classes, counted from 0, or -1 for none"}},
	} {
		dir := importertest.Edited(t, hetero, importertest.Put("processed/"+c.file, c.content))
		refusedAs(t, "igb-h", c.what, importer.Options{Sources: []string{dir}}, c.says...)
	}
	dir := importertest.Edited(t, hetero)
	for _, name := range []string{"paper__about__nobody", "a__b"} {
		more := filepath.Join(dir, "processed", name)
		if err := os.Mkdir(more, 0o777); err != nil {
			t.Fatal(err)
		}
		refusedAs(t, "igb-h", name, importer.Options{Sources: []string{dir}}, filepath.Join(name, "edge_index.npy")+" is missing")
		if err := os.Remove(more); err != nil {
			t.Fatal(err)
		}
	}
	refusedAs(t, "igb-h", "no directory", importer.Options{Sources: []string{filepath.Join(dir, "x")}}, "processed is missing")
}
