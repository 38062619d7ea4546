package all_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

func parquetOf[T any](t *testing.T, name string, rows []T) {
	t.Helper()
	if err := parquet.WriteFile(name, rows); err != nil {
		t.Fatal(err)
	}
}

func importNamed(t *testing.T, o importer.Options) *dataset.Dataset {
	t.Helper()
	out := filepath.Join(vfstest.TempDir(t), "D")
	if _, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files beside the dataset, %v", len(left)-1, err)
	}
	return datasettest.Verified(t, out)
}

// TestNamesByValue imports one graph whose nodes are called a, b, "c, d", 7 in every form of every
// file.
func TestNamesByValue(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	save := func(name, text string) { importertest.Save(t, at(name), []byte(text)) }
	save("ids.csv", "ID\n7\n\"c, d\"\nb\na\n")
	save("ids2.csv", "7,x\n\"c, d\",\"y\nb,\na,\"\"\n") // what follows the first column is anything
	save("edges.csv", "\"c, d\",a\na,\"c, d\"\nb,b\n7,a\n")
	save("edges-header.csv", "src,Target\n\"c, d\",a\n \"a\" , \"c, d\" \nb,b\n7,a\n")
	save("feat.csv", "70,1\n30,2\n20,3\n10,4\n")
	save("labels.csv", "0\n1\n-1\n1\n")
	save("keyed-feat.csv", "who,x,y\nb,20,3\na,10,4\n7,70,1\n\"c, d\",30,2\n")
	save("keyed-labels.csv", "\"c, d\",1\n7,0\na,1\n")
	save("train.csv", "\"c, d\"\na\n")
	save("valid.csv", "7\n")
	save("test.csv", "")
	type pair struct{ From, To string }
	type named struct {
		A string
		X float32
		Y int64
	}
	type label struct {
		A     string
		Class int32
	}
	type id struct{ A string }
	parquetOf(t, at("ids.parquet"), []id{{"7"}, {"c, d"}, {"b"}, {"a"}})
	parquetOf(t, at("edges.parquet"), []pair{{"c, d", "a"}, {"a", "c, d"}, {"b", "b"}, {"7", "a"}})
	parquetOf(t, at("keyed-feat.parquet"), []named{{"b", 20, 3}, {"a", 10, 4}, {"7", 70, 1}, {"c, d", 30, 2}})
	parquetOf(t, at("keyed-labels.parquet"), []label{{"c, d", 1}, {"7", 0}, {"a", 1}})
	parquetOf(t, at("train.parquet"), []id{{"c, d"}, {"a"}})
	save("mask.npy", string(importertest.NPY("(4,)", []bool{false, true, false, true})))

	const table = "nodes 4\nedges 4\n1 <- 3\n2 <- 2\n3 <- 0\n3 <- 1\nfeat 0: 70 1\nfeat 1: 30 2\nfeat 2: 20 3\nfeat 3: 10 4\nlabel 0: 0\nlabel 1: 1\nlabel 2: -1\nlabel 3: 1\ntrain: 1 3\nvalid: 0\ntest:\n"
	base := importer.Reading{NodeIDs: at("ids.csv"), Edges: at("edges.csv"), FeatureFile: at("feat.csv"), LabelFile: at("labels.csv"), SplitFiles: []string{at("train.csv"), at("valid.csv"), at("test.csv")}}
	for name, change := range map[string]func(*importer.Reading){
		"csv":      func(*importer.Reading) {},
		"columns":  func(r *importer.Reading) { r.NodeIDs = at("ids2.csv") },
		"a header": func(r *importer.Reading) { r.Edges = at("edges-header.csv") },
		"parquet": func(r *importer.Reading) {
			r.NodeIDs, r.Edges, r.SplitFiles[0] = at("ids.parquet"), at("edges.parquet"), at("train.parquet")
		},
		"a mask": func(r *importer.Reading) { r.SplitFiles[0] = at("mask.npy") },
	} {
		o := base
		o.SplitFiles = slices.Clone(base.SplitFiles)
		change(&o)
		d := importNamed(t, importer.Options{Reading: o})
		if got := importertest.Text(t, d); got != table {
			t.Errorf("%s: %s", name, got)
		}
		if got := datasettest.IDs(t, d); !slices.Equal(got, []string{"7", "c, d", "b", "a"}) {
			t.Errorf("%s: %q", name, got)
		}
	}

	// c, d is 0, a is 1, b is 2, 7 is 3.
	const edges = "nodes 4\nedges 4\n0 <- 1\n1 <- 0\n1 <- 3\n2 <- 2\nfeat 0: 30 2\nfeat 1: 10 4\nfeat 2: 20 3\nfeat 3: 70 1\nlabel 0: 1\nlabel 1: 1\nlabel 2: -1\nlabel 3: 0\ntrain: 0 1\nvalid: 3\ntest:\n"
	base.NodeIDs, base.FeatureFile, base.LabelFile = "edges", at("keyed-feat.csv"), at("keyed-labels.csv")
	for name, change := range map[string]func(*importer.Reading){
		"csv": func(*importer.Reading) {},
		"parquet": func(r *importer.Reading) {
			r.Edges, r.FeatureFile, r.LabelFile = at("edges.parquet"), at("keyed-feat.parquet"), at("keyed-labels.parquet")
		},
	} {
		o := base
		change(&o)
		d := importNamed(t, importer.Options{Reading: o})
		if got := importertest.Text(t, d); got != edges {
			t.Errorf("edges, %s: %s", name, got)
		}
		if got := datasettest.IDs(t, d); !slices.Equal(got, []string{"c, d", "a", "b", "7"}) {
			t.Errorf("edges, %s: %q", name, got)
		}
	}
	// Under other numbers: a has two edges, c, d and b one, 7 none.
	d := importNamed(t, importer.Options{Reading: base, Relabel: importer.RelabelDegree})
	if got := datasettest.IDs(t, d); !slices.Equal(got, []string{"a", "c, d", "b", "7"}) {
		t.Errorf("by degree: %q", got)
	}
	if got, want := importertest.Text(t, d), "0 <- 1\n0 <- 3\n1 <- 0\n2 <- 2\nfeat 0: 10 4\nfeat 1: 30 2\nfeat 2: 20 3\nfeat 3: 70 1\nlabel 0: 1\nlabel 1: 1\nlabel 2: -1\nlabel 3: 0\ntrain: 0 1\nvalid: 3\n"; !strings.Contains(got, want) {
		t.Errorf("by degree: %s", got)
	}

	// Numbers with gaps, in an array.
	save("gaps.npy", string(importertest.NPY("(3, 2)", []int64{1 << 40, 5, 5, -7, -7, 1 << 40})))
	d = importNamed(t, importer.Options{Reading: importer.Reading{NodeIDs: "edges", Edges: at("gaps.npy"), FeatureFile: "random:1", LabelFile: "random:2"}, Split: &importer.Split{Parts: "40/30/30"}})
	if got := datasettest.IDs(t, d); !slices.Equal(got, []string{"1099511627776", "5", "-7"}) {
		t.Errorf("gaps: %q", got)
	}
}

// TestNamesAreNumbers imports a graph by numbers, and by names that a table gives these numbers:
// the datasets differ by the names alone, whether these fit in memory or not.
func TestNamesAreNumbers(t *testing.T) {
	const nodes = 30_000
	dir := t.TempDir()
	one := func(line string) *strings.Builder {
		b := &strings.Builder{}
		b.WriteString(line + "\n")
		return b
	}
	var ids, edges, named, labels, train, trained strings.Builder
	src := rng.New(1)
	for v := range nodes {
		fmt.Fprintf(&ids, "node-%x\n", v*7919)
		fmt.Fprintf(&labels, "%d\n", v%3)
		u := int(src.Uint64n(nodes))
		fmt.Fprintf(&edges, "%d,%d\n", u, v)
		fmt.Fprintf(&named, "node-%x,node-%x\n", u*7919, v*7919)
		if v%5 == 0 {
			fmt.Fprintf(&train, "%d\n", v)
			fmt.Fprintf(&trained, "node-%x\n", v*7919)
		}
	}
	for name, b := range map[string]*strings.Builder{"ids.csv": &ids, "edges.csv": &edges, "named.csv": &named, "labels.csv": &labels, "train.csv": &train, "trained.csv": &trained, "1.csv": one("1"), "2.csv": one("2"), "named-1.csv": one("node-1eef"), "named-2.csv": one("node-3dde")} {
		importertest.Save(t, filepath.Join(dir, name), []byte(b.String()))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	plain := importNamed(t, importer.Options{Reading: importer.Reading{Edges: at("edges.csv"), FeatureFile: "random:2", LabelFile: at("labels.csv"), SplitFiles: []string{at("train.csv"), at("1.csv"), at("2.csv")}}})
	o := importer.Options{Reading: importer.Reading{NodeIDs: at("ids.csv"), Edges: at("named.csv"), FeatureFile: "random:2", LabelFile: at("labels.csv"), SplitFiles: []string{at("trained.csv"), at("named-1.csv"), at("named-2.csv")}}}
	d := importNamed(t, o)
	want := importertest.Text(t, plain)
	if importertest.Text(t, d) != want {
		t.Error("the graph is another")
	}
	if got := strings.Join(datasettest.IDs(t, d), "\n") + "\n"; got != ids.String() {
		t.Error("the names are others")
	}
	o.Memory, o.Workers = budget.Reserve+4<<20+1<<18, 1
	datasettest.Same(t, d.Dir(), importNamed(t, o).Dir())
}

func TestNamesRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	good := map[string]string{"ids.csv": "a\nb\nc\n", "edges.csv": "a,b\nb,c\n", "feat.csv": "1\n2\n3\n", "labels.csv": "0\n1\n0\n", "train.csv": "a\n", "valid.csv": "b\n", "test.csv": "c\n",
		"kfeat.csv": "a,1\nb,2\nc,3\n", "klabels.csv": "a,0\nb,1\nc,0\n"}
	for _, c := range []struct {
		what, file, text string
		byEdges          bool
		says             []string
	}{
		{"no edge", "edges.csv", "", true, []string{"edges.csv has no ids"}},
		{"a stranger", "edges.csv", "a,b\nb,x\ny,c\n", false, []string{`edges.csv: row 1: the id "x" is not in `, "2 ids are unknown"}},
		{"three names", "edges.csv", "a,b\nb,c,a\n", false, []string{"edges.csv: line 2", "instead of 2 names"}},
		{"one name", "edges.csv", "a,b\nb\n", false, []string{"edges.csv: line 2"}},
		{"an empty name", "edges.csv", "a,b\n,c\n", false, []string{"edges.csv: line 2"}},
		{"an open quote", "edges.csv", "a,b\n\"c,b\n", false, []string{"edges.csv: line 2"}},
		{"more after a quote", "edges.csv", "a,b\n\"c\"d,b\n", false, []string{"edges.csv: line 2"}},
		{"twice", "ids.csv", "a\nb\na\nc\nb\n", false, []string{`ids.csv: row 2: an earlier row has the same id, "a": 2 rows repeat ids`}},
		{"no UTF-8", "ids.csv", "a\nb\n\xff\n", false, []string{"ids.csv: row 2", "it is not UTF-8"}},
		{"a control character", "ids.csv", "a\nb\nx\x01y\n", false, []string{"ids.csv: row 2", "control character"}},
		{"a long name", "ids.csv", "a\nb\n" + strings.Repeat("x", 5000) + "\n", false, []string{"ids.csv: row 2", "4096 bytes"}},
		{"more features", "feat.csv", "1\n2\n3\n4\n", false, []string{"feat.csv"}},
		{"a missing file", "ids.csv", "-", false, []string{"ids.csv is missing"}},
		{"a stranger in a split", "test.csv", "d\n", false, []string{`test.csv: row 0: the id "d" is not in `}},
		{"twice in a split", "test.csv", "c\nc\n", false, []string{"test.csv: node 2 is in the test set twice"}},
		{"overlapping splits", "test.csv", "a\n", true, []string{"test.csv: node 0 is in the train set and in the test set"}},
		{"features twice", "kfeat.csv", "a,1\nb,2\na,3\n", true, []string{"kfeat.csv: row 2: an earlier row has the same id"}},
		{"a stranger's features", "kfeat.csv", "a,1\nb,2\nc,3\nd,4\n", true, []string{`kfeat.csv: row 3: the id "d" is not in the edges: 1 id is unknown`}},
		{"more rows", "feat.csv", "-feat.npy", false, []string{"ids.csv says 3 nodes, but another file says 4 nodes"}},
		{"no features", "kfeat.csv", "a\nb\nc\n", true, []string{"kfeat.csv"}},
		{"labels twice", "klabels.csv", "a,0\nb,1\nb,0\n", true, []string{"klabels.csv: row 2: an earlier row has the same id"}},
		{"half a class", "klabels.csv", "a,0.5\n", true, []string{"klabels.csv: node 0 has the label 0.5: labels are whole numbers"}},
	} {
		for name, text := range good {
			if name == c.file {
				text = c.text
			}
			if text == "-feat.npy" {
				importertest.Save(t, at("feat.npy"), importertest.NPY("(4, 1)", []float32{1, 2, 3, 4}))
			}
			if text == "-" {
				_ = os.Remove(at(name))
				continue
			}
			importertest.Save(t, at(name), []byte(text))
		}
		o := importer.Reading{NodeIDs: at("ids.csv"), Edges: at("edges.csv"), FeatureFile: at("feat.csv"), LabelFile: at("labels.csv"), SplitFiles: []string{at("train.csv"), at("valid.csv"), at("test.csv")}}
		if c.text == "-feat.npy" {
			o.FeatureFile = at("feat.npy")
		}
		if c.byEdges {
			o.NodeIDs, o.FeatureFile, o.LabelFile = "edges", at("kfeat.csv"), at("klabels.csv")
		}
		refused(t, c.what, importer.Options{Reading: o}, c.says...)
	}
}

// TestNamesFailures fails and interrupts every operation of an import by names, and goes on.
func TestNamesFailures(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"edges.csv": "a,b\nb,c\nc,a\n", "feat.csv": "c,3\na,1\nb,2\n", "labels.csv": "b,1\na,0\nc,1\n"} {
		importertest.Save(t, at(name), []byte(text))
	}
	o := importer.Options{Relabel: importer.RelabelDegree, Split: &importer.Split{Parts: "34/33/33"}, Resources: dataset.Resources{Workers: 1},
		Reading: importer.Reading{NodeIDs: "edges", Edges: at("edges.csv"), FeatureFile: at("feat.csv"), LabelFile: at("labels.csv")}}
	datasettest.EveryFailure(t, []bool{true}, func(fsys vfs.FS, out string) error {
		_, err := all.Import(t.Context(), fsys, out, all.Auto, o, progress.Discard)
		return err
	})
}
