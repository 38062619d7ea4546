package raw_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
)

// files writes a graph of four nodes in many forms, and returns the path of a file by its name.
func files(t *testing.T) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	packed := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	const edges, blanks = "0,1\n1,2\n\n2,3\n", "# a comment\n0 1\n1\t2\n2  3\n"
	for name, content := range map[string][]byte{
		"e.csv": []byte(edges), "e.csv.gz": packed(edges), "e.txt": []byte(blanks), "e.txt.gz": packed(blanks), "none.txt": []byte("# nothing\n"),
		"e.npy": importertest.NPY("(3, 2)", []int32{0, 1, 1, 2, 2, 3}), "word.csv.gz": packed("0,1\nx,2\n"), "word.txt.gz": packed("0 1\nx 2\n"),
		"three.csv": []byte("0,1,2\n"), "one.csv": []byte("0\n"), "floats.npy": importertest.NPY("(2, 3)", make([]float32, 6)), "line.npy": importertest.Vector([]int64{0, 1, 2}),
		"last.txt": []byte("4294967295 0\n"), "beyond.txt": []byte("4294967296 0\n"), "g.graph-txt": []byte("4\n1\n2\n3\n\n"), "g.graph-txt.gz": packed("4\n1\n2\n3\n\n"),
		"words.txt": []byte("a b\n"), "x.words": []byte("0 1\n"), "three.txt": []byte("0 1 2\n"), "half.txt": []byte("0 1.5\n"), "e.mtx": []byte("% a comment\n0 1\n"),
		"f.npy": importertest.NPY("(4, 2)", []float32{1, 2, 3, 4, 5, 6, 7, 8}), "f.csv": []byte("1,2\n3,4\n5,6\n7,8\n"), "f0.npy": importertest.NPY("(0, 2)", []float32{}), "f5.npy": importertest.NPY("(5, 2)", make([]float32, 10)),
		"l.csv": []byte("0\n1\n0\n1\n"), "l.npy": importertest.Vector([]int64{0, 1, 0, 1}), "l3.csv": []byte("0\n1\n0\n"), "l5.csv": []byte("0\n1\n0\n1\n0\n"), "l0.npy": importertest.Vector([]int64{}), "l5.npy": importertest.Vector([]int64{0, 1, 0, 1, 0}),
		"s0.csv": []byte("0\n"), "s1.csv": []byte("1\n"), "s2.csv": []byte("2\n3\n"), "mask.npy": importertest.Vector([]bool{true, false, false, false}), "mask5.npy": importertest.Vector(make([]bool, 5)),
		"e0.npy": importertest.NPY("(0, 2)", []int64{}), "pairs.npy": importertest.NPY("(2, 2)", []int64{0, 1, 2, 3}), "share.npy": importertest.Vector([]float32{0, 1}),
	} {
		importertest.Save(t, at(name), content)
	}
	return at
}

// reading is that of files by their names; those drawn stay as they are.
func reading(at func(string) string, edges, features, labels string, splits ...string) importer.Reading {
	path := func(name string) string {
		if name == "" || strings.HasPrefix(name, "random:") {
			return name
		}
		return at(name)
	}
	o := importer.Reading{Edges: path(edges), FeatureFile: path(features), LabelFile: path(labels)}
	for _, s := range splits {
		o.SplitFiles = append(o.SplitFiles, path(s))
	}
	return o
}

// opened opens lists of edges by the format that their names say, and all else as raw.
func opened(o importer.Reading) (importer.Source, error) {
	f, sources := raw.Format, []string(nil)
	for _, list := range []importer.Format{raw.SNAP, raw.WebGraph} {
		if list.Detect(datasettest.FS, []string{o.Edges}) != "" {
			f, sources, o.Edges = list, []string{o.Edges}, ""
		}
	}
	return f.Open(datasettest.FS, sources, &o)
}

// TestCounts counts nodes and edges of every form of a graph.
func TestCounts(t *testing.T) {
	at := files(t)
	for _, c := range []struct {
		edges, features string
		given           int64 // --nodes
		nodes           int64
		known           int64 // edges, before lines are counted
		note            bool
	}{
		{"e.csv", "f.npy", 0, 4, 0, false},
		{"e.csv", "f.csv", 0, 4, 0, false},
		{"e.csv", "f.csv", 5, 5, 0, false},
		{"e.csv", "f.npy", 4, 4, 0, false},
		{"e.csv.gz", "f.npy", 0, 4, 3, false},
		{"e.txt", "f.npy", 0, 4, 0, false},
		{"e.txt", "random:1", 0, 4, 0, true},
		{"e.txt.gz", "random:1", 0, 4, 3, true},
		{"e.npy", "random:1", 9, 9, 3, false},
		{"g.graph-txt", "random:1", 0, 4, 3, false},
		{"g.graph-txt.gz", "f.npy", 4, 4, 3, false},
		{"last.txt", "random:1", 0, 1 << 32, 0, true},
	} {
		o := reading(at, c.edges, c.features, "random:2")
		o.Nodes = c.given
		s, err := opened(o)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		sh := s.Shape()
		if sh.Nodes != c.nodes || sh.Edges != c.known || len(sh.Notes) > 0 != c.note {
			t.Errorf("%+v: %+v", c, sh)
		}
		want := c.known
		if want == 0 {
			want = 3
		}
		if n := s.CountEdges(map[string]int64{at(c.edges): 3}); n != want {
			t.Errorf("%+v: %d edges", c, n)
		}
		if n := s.CountEdges(map[string]int64{at(c.edges): math.MaxInt64}); c.known == 0 && n != importer.MaxEdges+1 {
			t.Errorf("%+v: %d edges of as many lines as can be", c, n)
		}
		if given := sh.Reading["nodes"]; c.given > 0 != (given == fmt.Sprint(c.given)) {
			t.Errorf("%+v: recorded is %q", c, given)
		}
	}
}

// TestOpenRefuses has one thing wrong at a time.
func TestOpenRefuses(t *testing.T) {
	at := files(t)
	with := func(o importer.Reading, change func(*importer.Reading)) importer.Reading {
		change(&o)
		return o
	}
	scratch := func(ids string) func(*importer.Reading) {
		return func(o *importer.Reading) { o.NodeIDs, o.Scratch = ids, at("scratch") }
	}
	good := reading(at, "e.csv", "f.npy", "l.npy")
	for _, c := range []struct {
		o    importer.Reading
		kind error // nil: nothing is wrong
		says string
	}{
		{good, nil, ""},
		{reading(at, "e.csv", "", "l.npy"), fault.ErrUsage, "--features is missing: give a file, or random:DIM"},
		{reading(at, "e.csv", "f.npy", ""), fault.ErrUsage, "--labels is missing: give a file, or random:CLASSES"},
		{reading(at, "e.csv", "random:0", "l.npy"), fault.ErrUsage, "--features random:0: needs a number from 1 to 16777216"},
		{reading(at, "e.csv", "random:1", "l.npy"), nil, ""},
		{reading(at, "e.csv", "random:16777216", "l.npy"), nil, ""},
		{reading(at, "e.csv", "random:16777217", "l.npy"), fault.ErrUsage, "--features random:16777217: needs a number from 1 to 16777216"},
		{reading(at, "e.csv", "random:many", "l.npy"), fault.ErrUsage, "--features random:many: needs a number from 1 to 16777216"},
		{reading(at, "e.csv", "f.npy", "random:0"), fault.ErrUsage, "--labels random:0: needs a number from 1 to 1048576"},
		{reading(at, "e.csv", "f.npy", "random:1048576"), nil, ""},
		{reading(at, "e.csv", "f.npy", "random:1048577"), fault.ErrUsage, "--labels random:1048577: needs a number from 1 to 1048576"},
		{reading(at, "e.csv", "f0.npy", "random:2"), fault.ErrInput, "f0.npy has no rows of features"},
		{reading(at, "e.csv", "random:2", "l0.npy"), fault.ErrInput, "l0.npy has no rows of labels"},
		{reading(at, "e.csv", "f5.npy", "l.npy"), fault.ErrInput, "l.npy says 4 nodes, but another file says 5 nodes"},
		{reading(at, "e.csv", "f.npy", "l5.npy"), fault.ErrInput, "l5.npy says 5 nodes, but another file says 4 nodes"},
		{reading(at, "g.graph-txt", "f5.npy", "random:2"), fault.ErrInput, "g.graph-txt says 4 nodes, but another file says 5 nodes"},
		{with(good, func(o *importer.Reading) { o.Nodes = 5 }), fault.ErrInput, "--nodes says 5 nodes, but another file says 4 nodes"},
		{reading(at, "none.txt", "random:2", "random:2"), fault.ErrInput, "none.txt is empty"},
		{reading(at, "beyond.txt", "random:2", "random:2"), fault.ErrInput, "beyond.txt: 4294967297 nodes are too many: this version has 32-bit node ids, for at most 4294967296 nodes"},
		{reading(at, "e0.npy", "random:2", "random:2"), fault.ErrInput, "e0.npy: the graph has 0 nodes; at least 1 is needed"},
		{reading(at, "e.csv:x", "f.npy", "l.npy"), fault.ErrUsage, `unknown type "x"`},
		{reading(at, "three.csv", "f.npy", "l.npy"), nil, ""},
		{reading(at, "one.csv", "f.npy", "l.npy"), fault.ErrInput, "one.csv: edges need two columns, sources and destinations; it has one column without a name, 0"},
		{reading(at, "floats.npy", "f.npy", "l.npy"), fault.ErrInput, "edges must be integers of shape (E, 2) or (2, E), not float32 of shape (2, 3)"},
		{reading(at, "line.npy", "f.npy", "l.npy"), fault.ErrInput, "not int64 of shape (3,)"},
		{reading(at, "pairs.npy", "f.npy", "l.npy"), fault.ErrInput, "the shape (2, 2) may mean (E, 2) or (2, E): add an edge, or use a text file"},
		{reading(at, "word.csv.gz", "f.npy", "l.npy"), fault.ErrInput, "word.csv.gz: line 2"},
		{reading(at, "word.txt.gz", "f.npy", "l.npy"), fault.ErrInput, "word.txt.gz: line 2"},
		{reading(at, "e.csv", "f.npy", "l.npy", "s0.csv", "s1.csv"), fault.ErrUsage, "needs three files: training, validation and test nodes"},
		{reading(at, "e.csv", "f.npy", "l.npy", "s0.csv", "s1.csv", "s2.csv", "s2.csv"), fault.ErrUsage, "needs three files: training, validation and test nodes"},
		{reading(at, "e.csv", "f.npy", "l.npy", "mask.npy", "s1.csv", "s2.csv"), nil, ""},
		{reading(at, "e.csv", "f.npy", "l.npy", "s0.csv", "pairs.npy", "s2.csv"), fault.ErrInput, "pairs.npy: the mask has 2 rows, but the graph has 4 nodes"},
		{reading(at, "e.csv", "f.npy", "l.npy", "s0.csv", "s1.csv", "share.npy"), fault.ErrInput, "share.npy: it is no set of nodes: a set is one column of integers, the numbers of nodes, or a mask with a row for each of the 4 nodes"},
		{with(good, func(o *importer.Reading) { o.NodeIDs = "edges" }), nil, "raw: no place for scratch files"},
		{with(with(good, scratch("edges")), func(o *importer.Reading) { o.Nodes = 4 }), fault.ErrUsage, "--nodes: not with --node-ids, which determines the number of nodes"},
		{with(reading(at, "g.graph-txt", "f.npy", "l.npy"), scratch("edges")), fault.ErrUsage, "--node-ids: the adjacency lists of"},
		{with(good, scratch(at("e.csv:x"))), fault.ErrUsage, `unknown type "x"`},
		{with(reading(at, "e.csv", "f.npy", "l.npy", "mask.npy", "s1.csv", "s2.csv"), scratch("edges")), fault.ErrInput, "mask.npy is a mask, but with --node-ids edges nodes have no order: give a list of ids"},
	} {
		s, err := opened(c.o)
		switch {
		case c.kind == nil && c.says == "":
			if err != nil {
				t.Errorf("%+v: %v", c.o, err)
			}
		case err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says):
			t.Errorf("%+v: %v, %v, want %v that says %q", c.o, s, err, c.kind, c.says)
		}
	}
	if _, err := raw.Format.Open(datasettest.FS, []string{"x"}, &good); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("edges and a source: %v", err)
	}
	if left, err := filepath.Glob(at("scratch*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// TestDetect looks at the names and first lines of lists of edges.
func TestDetect(t *testing.T) {
	at := files(t)
	for name, want := range map[string]string{
		"e.txt": "its lines are pairs of integers", "e.txt.gz": "its lines are pairs of integers", "e.mtx": "its lines are pairs of integers", "none.txt": "", "words.txt": "", "three.txt": "", "half.txt": "", "x.words": "", "e.csv": "",
		"word.txt.gz": "its lines are pairs of integers", "missing.txt": "",
	} {
		if got := raw.SNAP.Detect(datasettest.FS, []string{at(name)}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"g.graph-txt": "it is named .graph-txt", "g.graph-txt.gz": "it is named .graph-txt", "e.txt": ""} {
		if got := raw.WebGraph.Detect(datasettest.FS, []string{at(name)}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestPlans has one thing wrong at a time that is seen when labels, splits and edges are read.
func TestPlans(t *testing.T) {
	at := files(t)
	for _, c := range []struct {
		o    importer.Reading
		says string // "": nothing is wrong
	}{
		{reading(at, "e.csv", "f.csv", "l.csv", "s0.csv", "s1.csv", "s2.csv"), ""},
		{reading(at, "e.csv", "f.npy", "l3.csv", "s0.csv", "s1.csv", "s2.csv"), "l3.csv has labels of 3 nodes, but the graph has 4 nodes"},
		{reading(at, "e.csv", "f.npy", "l5.csv", "s0.csv", "s1.csv", "s2.csv"), "l5.csv has labels of more nodes than the graph's 4"},
		{reading(at, "e.csv", "f.npy", "l.csv", "mask5.npy", "s1.csv", "s2.csv"), "mask5.npy: the mask has 5 rows, but the graph has 4 nodes"},
		{reading(at, "e.csv", "f.npy", "l.csv", "s2.csv", "mask.npy", "s2.csv"), "s2.csv: node 2 is in the train set and in the test set"},
		{reading(at, "e.csv", "f.npy", "l.csv", "mask.npy", "mask.npy", "s2.csv"), "mask.npy: node 0 is in the train set and in the valid set"},
		{reading(at, "last.txt", "f.npy", "l.csv", "s0.csv", "s1.csv", "s2.csv"), "is out of range: the graph has 4 nodes"},
	} {
		f, o := raw.Format, importer.Options{Reading: c.o}
		p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), f, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Join(p.Problems, "; "); c.says == "" && found != "" || !strings.Contains(found, c.says) {
			t.Errorf("%+v: %q, want %q", c.o, found, c.says)
		}
		if c.says == "" && (p.Train != 1 || p.Valid != 1 || p.Test != 2) {
			t.Errorf("%+v", p)
		}
	}
}

// TestDrawn compares features and labels that are drawn with the formula of Box and Muller, and with
// classes that are drawn node by node.
func TestDrawn(t *testing.T) {
	at := files(t)
	for _, dim := range []int{1, 2, 5} {
		o := reading(at, "e.csv", fmt.Sprintf("random:%d", dim), "random:7")
		o.Nodes, o.Seed = 1000, 3
		s, err := opened(o)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.Features(0)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 1000*dim)
		if err := rows.Next(got); err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		for v := range 1000 {
			src := rng.New(rng.Key(0x66656174_01, 3, uint64(v)))
			var want []float32
			for len(want) < dim {
				r := math.Sqrt(2 * -math.Log(1-src.Float64()))
				angle := 2 * math.Pi * src.Float64()
				want = append(want, float32(r*math.Cos(angle)), float32(r*math.Sin(angle)))
			}
			if !slices.Equal(got[v*dim:][:dim], want[:dim]) {
				t.Fatalf("node %d: %v, want %v", v, got[v*dim:][:dim], want)
			}
			for _, x := range want[:dim] {
				sum += float64(x)
				squares += float64(x) * float64(x)
			}
		}
		n := float64(len(got))
		if mean, variance := sum/n, squares/n; math.Abs(mean) > 0.1 || math.Abs(variance-1) > 0.15 {
			t.Errorf("%d elements: mean %v, variance %v", dim, mean, variance)
		}
	}
	out := at("D")
	o := importer.Options{Reading: reading(at, "e.csv", "random:1", "random:7"), Split: &importer.Split{Parts: "50/25/25"}}
	o.Nodes, o.Seed = 50, 3
	if _, err := importer.Import(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	labels, err := datasettest.Verified(t, out).Labels()
	if err != nil {
		t.Fatal(err)
	}
	for v, got := range labels {
		src := rng.New(rng.Key(0x6c61626c_01, 3, uint64(v)))
		if want := int32(src.Uint64n(7)); got != want {
			t.Errorf("node %d has the class %d, want %d", v, got, want)
		}
	}
}

// TestNamedShape looks at what a source of nodes with names says of itself, and at what it leaves.
func TestNamedShape(t *testing.T) {
	at := files(t)
	for name, text := range map[string]string{"ne.csv": "a,bb\nbb,ccc\n", "nf.csv": "ccc,3,4\na,1,2\nbb,5,6\n", "nl.csv": "bb,1\na,0\n", "ids.csv": "a\nbb\nccc\n", "f3.csv": "1\n2\n3\n", "l3.csv": "0\n1\n0\n", "nowhere.csv": "a,b\n"} {
		importertest.Save(t, at(name), []byte(text))
	}
	held := map[string]int64{}
	for _, c := range []struct {
		ids, features, labels string
		memory                int64
	}{
		{"edges", "nf.csv", "nl.csv", 0}, {"edges", "nf.csv", "nl.csv", 1 << 30}, {"edges", "random:2", "random:2", 0}, {"edges", "random:2", "random:2", 1 << 30}, {at("ids.csv"), "f3.csv", "l3.csv", 0},
	} {
		o := reading(at, "ne.csv", c.features, c.labels)
		o.NodeIDs, o.Scratch, o.ScratchMemory = c.ids, filepath.Join(t.TempDir(), "new", "scratch"), c.memory
		s, err := opened(o)
		if err != nil {
			t.Fatal(err)
		}
		sh := s.Shape()
		if sh.Nodes != 3 || sh.Edges != 2 || sh.NameBytes != 6 || sh.Reading["node-ids"] != map[bool]string{true: "edges", false: "table"}[c.ids == "edges"] {
			t.Errorf("%+v: %+v", c, sh)
		}
		held[fmt.Sprint(c.features, c.memory)] = sh.Held
		var names []string
		if err := s.(importer.Namer).Names(t.Context(), func(name []byte) error { names = append(names, string(name)); return nil }); err != nil || !slices.Equal(names, []string{"a", "bb", "ccc"}) {
			t.Errorf("%+v: %q, %v", c, names, err)
		}
		if c.features == "nf.csv" {
			for first, want := range [][]float32{{1, 2, 5, 6, 3, 4}, {5, 6, 3, 4}, {3, 4}} {
				rows, err := s.Features(int64(first))
				if err != nil {
					t.Fatal(err)
				}
				got := make([]float32, len(want))
				if err := errors.Join(rows.Next(got), rows.Close()); err != nil || !slices.Equal(got, want) {
					t.Errorf("%+v from %d: %v, %v", c, first, got, err)
				}
			}
		}
		if err := s.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(filepath.Dir(o.Scratch)); err != nil || len(left) > 0 {
			t.Errorf("%+v: %v are left, %v", c, left, err)
		}
	}
	// Rows are put in order within an eighth of the memory, and a row of two floats more is held twice.
	const least = 1 << 20 // of extsort.Records
	if got, want := held["nf.csv0"]-held["random:20"], int64(least+8*2); got != want {
		t.Errorf("of little memory, features in any order take %d bytes, want %d", got, want)
	}
	if got, want := held["nf.csv1073741824"]-held["random:21073741824"], int64(1<<30/8+8*2); got != want {
		t.Errorf("of a gigabyte, features in any order take %d bytes, want %d", got, want)
	}
}

// TestManyNames has more nodes than a word of bits: rows of labels and of features are for one node each.
func TestManyNames(t *testing.T) {
	const n = 200
	dir := t.TempDir()
	var edges, features, labels strings.Builder
	for v := range n {
		fmt.Fprintf(&edges, "n%d,n%d\n", v, (v+1)%n)
		fmt.Fprintf(&features, "n%d,%d\n", n-1-v, n-1-v)
		fmt.Fprintf(&labels, "n%d,%d\n", v, v%2)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	importertest.Save(t, in("e.csv"), []byte(edges.String()))
	for _, again := range []int{-1, 63, 64, 127} {
		twice := ""
		if again >= 0 {
			twice = fmt.Sprintf("n%d,0\n", again)
		}
		row := fmt.Sprintf("n%d,%d\n", again, again%2)
		importertest.Save(t, in("l.csv"), []byte(strings.Replace(labels.String(), row, row+twice, 1)))
		importertest.Save(t, in("f.csv"), []byte(features.String()))
		o := importer.Options{Reading: importer.Reading{Edges: in("e.csv"), FeatureFile: in("f.csv"), LabelFile: in("l.csv"), NodeIDs: "edges"}, Split: &importer.Split{Parts: "50/25/25"}}
		out := in(fmt.Sprintf("D%d", again))
		_, err := importer.Import(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard)
		if again >= 0 {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), fmt.Sprintf("l.csv: row %d: an earlier row has the same id", again+1)) {
				t.Errorf("node %d has two rows of labels: %v", again, err)
			}
			importertest.Save(t, in("f.csv"), []byte(strings.Replace(features.String(), "n0,0\n", twice, 1)))
			o.LabelFile = "random:2"
			if _, err := importer.Import(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "f.csv: row 199: an earlier row has the same id") {
				t.Errorf("node %d has two rows of features: %v", again, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := datasettest.Verified(t, out).Labels()
		if err != nil {
			t.Fatal(err)
		}
		for v, c := range got {
			if int(c) != v%2 {
				t.Errorf("node %d has the class %d", v, c)
			}
		}
	}
}

// TestNamedFails fails each operation on the files of a source of nodes with names while it is opened
// and read, and on its scratch files. The error is returned, and no file stays open.
func TestNamedFails(t *testing.T) {
	dir, boom, enough := t.TempDir(), errors.New("boom"), errors.New("enough")
	importertest.Tree{"e.csv": []byte("a,bb\nbb,ccc\n"), "f.csv": []byte("ccc,3,4\na,1,2\nbb,5,6\n"), "s0.csv": []byte("a\n"), "s1.csv": []byte("bb\n"), "s2.csv": []byte("ccc\n")}.Write(t, dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	read := func(fsys vfs.FS) (err error) {
		o := importer.Reading{Edges: in("e.csv"), FeatureFile: in("f.csv"), LabelFile: "random:2", SplitFiles: []string{in("s0.csv"), in("s1.csv"), in("s2.csv")}, NodeIDs: "edges", Scratch: in("scratch")}
		s, err := raw.Format.Open(fsys, nil, &o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.(io.Closer).Close()) }()
		if err := s.Edges(t.Context(), func([]int64, []int64) error { return nil }); err != nil {
			return err
		}
		if err := s.Edges(t.Context(), func([]int64, []int64) error { return enough }); !errors.Is(err, enough) {
			return errors.Join(err, errors.New("edges that are not taken"))
		}
		rows, err := s.Features(0)
		if err != nil {
			return err
		}
		return errors.Join(rows.Next(make([]float32, 6)), rows.Close())
	}
	for fail := range importertest.Failures(t, datasettest.FS, boom) {
		err := read(fail)
		if !fail.Fired() && (err != nil || fail.N < 20) {
			t.Errorf("%d operations: %v", fail.N, err)
		}
		if fail.Fired() && !errors.Is(err, boom) {
			t.Errorf("%v: %v", fail, err)
		}
	}
}

// TestPackedFails fails each opening of packed lists of edges, which are read to count them.
func TestPackedFails(t *testing.T) {
	at, boom := files(t), errors.New("boom")
	for name, f := range map[string]importer.Format{"e.txt.gz": raw.SNAP, "g.graph-txt.gz": raw.WebGraph} {
		for fail := range importertest.Failures(t, datasettest.FS, boom, vfs.OpOpen) {
			_, err := f.Open(fail, []string{at(name)}, &importer.Reading{FeatureFile: "random:2", LabelFile: "random:2"})
			if fail.Fired() && !errors.Is(err, boom) {
				t.Errorf("%s: %v: %v", name, fail, err)
			}
		}
	}
}
