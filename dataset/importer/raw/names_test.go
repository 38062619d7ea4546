package raw_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// TestLengthsOfNames has nodes with names of the most bytes, in edges, features, labels and sets; one
// byte more is refused.
func TestLengthsOfNames(t *testing.T) {
	for _, c := range []struct{ first, second, says string }{
		{strings.Repeat("x", 4095), strings.Repeat("y", 4096), ""},
		{strings.Repeat("x", 4095), strings.Repeat("y", 4097), "it has more than 4096 bytes"},
	} {
		a, b := c.first, c.second
		at := saved(t, map[string]string{
			"e.csv": a + "," + b + "\n" + b + ",c\n", "f.csv": "c,3\n" + b + ",2\n" + a + ",1\n", "l.csv": b + ",1\n" + a + ",0\nc,1\n",
			"train.txt": b + "\n", "valid.txt": "c\n", "test.txt": a + "\n",
		})
		o := importer.Options{Reading: importer.Reading{
			Edges: at("e.csv"), NodeIDs: "edges", FeatureFile: at("f.csv"), LabelFile: at("l.csv"), SplitFiles: []string{at("train.txt"), at("valid.txt"), at("test.txt")},
		}}
		if c.says == "" {
			want := "nodes 3\nedges 2\n1 <- 0\n2 <- 1\nfeat 0: 1\nfeat 1: 2\nfeat 2: 3\nlabel 0: 0\nlabel 1: 1\nlabel 2: 1\ntrain: 1\nvalid: 2\ntest: 0\n" + a + " " + b + " c\n"
			if got, _ := imported(t, o); got != want {
				t.Errorf("%.400s", strings.NewReplacer(a, "X", b, "Y").Replace(got))
			}
			continue
		}
		if p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard); err != nil || !strings.Contains(strings.Join(p.Problems, "; "), c.says) {
			t.Errorf("%q, %v", p.Problems, err)
		}
	}
}

// TestEdgesByColumns reads the edges 0→1, 1→2 and 2→0 in the order of columns.
func TestEdgesByColumns(t *testing.T) {
	for shape, edges := range map[string][]int64{"(3, 2)": {0, 1, 2, 1, 2, 0}, "(2, 3)": {0, 1, 1, 2, 2, 0}} {
		at := saved(t, map[string]string{"e.npy": string(importertest.NPYOrder(shape, true, edges)), "y.csv": "0\n1\n0\n"})
		o := importer.Options{Reading: importer.Reading{Edges: at("e.npy"), FeatureFile: "random:1", LabelFile: at("y.csv"), Nodes: 3}, Split: &importer.Split{Parts: "60/20/20"}}
		if graph, _ := imported(t, o); !strings.Contains(graph, "edges 3\n0 <- 2\n1 <- 0\n2 <- 1\n") {
			t.Errorf("%s: %s", shape, graph)
		}
	}
}

// TestClassesOfColumns: the names of label columns are the names of the classes if a node has one, unless
// they are none, or two are equal.
func TestClassesOfColumns(t *testing.T) {
	const rows = "0,0,1\n1,0,0\n0,0,1\n0,0,0\n"
	at := saved(t, map[string]string{"e.csv": "0,1\n1,2\n2,3\n", "train.txt": "0\n1\n", "valid.txt": "2\n", "test.txt": "3\n", "y.csv": "ant,bee,crow\n" + rows, "plain.csv": rows})
	type row struct{ Ant, Bee, Crow int32 }
	if err := parquet.WriteFile(at("y.parquet"), []row{{0, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 0, 0}}); err != nil {
		t.Fatal(err)
	}
	type list struct {
		L []int32 `parquet:"l"`
	}
	if err := parquet.WriteFile(at("list.parquet"), []list{{[]int32{0, 0, 1}}, {[]int32{1, 0, 0}}, {[]int32{0, 0, 1}}, {[]int32{0, 0, 0}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ labels, as, want string }{
		{"y.csv", "classes", "label 0: 2\nlabel 1: 0\nlabel 2: 2\nlabel 3: -1\ntrain: 0 1\nvalid: 2\ntest:\nclasses [\"ant\" \"bee\" \"crow\"]\n"},
		{"y.parquet", "classes", "label 0: 2\nlabel 1: 0\nlabel 2: 2\nlabel 3: -1\ntrain: 0 1\nvalid: 2\ntest:\nclasses [\"Ant\" \"Bee\" \"Crow\"]\n"},
		{"plain.csv", "classes", "label 0: 2\nlabel 1: 0\nlabel 2: 2\nlabel 3: -1\ntrain: 0 1\nvalid: 2\ntest:\n"},
		{"list.parquet", "classes", "label 0: 2\nlabel 1: 0\nlabel 2: 2\nlabel 3: -1\ntrain: 0 1\nvalid: 2\ntest:\n"},
		{"y.csv", "multi", "label 0: 2\nlabel 1: 0\nlabel 2: 2\nlabel 3: \ntrain: 0 1\nvalid: 2\ntest: 3\n"},
	} {
		got, _ := imported(t, importer.Options{Reading: importer.Reading{
			Edges: at("e.csv"), FeatureFile: "random:1", LabelFile: at(c.labels), SplitFiles: []string{at("train.txt"), at("valid.txt"), at("test.txt")}, LabelsAs: c.as,
		}})
		if i := max(strings.Index(got, "label 0"), 0); got[i:] != c.want {
			t.Errorf("%s as %s: %s, want %s", c.labels, c.as, got[i:], c.want)
		}
	}
}

// TestWordsOfClassesEndEarly: a line of two fields behind many of one is found when the words of classes are
// collected.
func TestWordsOfClassesEndEarly(t *testing.T) {
	lines := slices.Repeat([]string{"red", "blue"}, 60)
	lines[100] = "red,blue"
	at := saved(t, map[string]string{"e.csv": "0,1\n", "y.csv": strings.Join(lines, "\n")})
	s, err := opened(importer.Reading{Edges: at("e.csv"), Nodes: 120, FeatureFile: "random:1", LabelFile: at("y.csv")})
	if err == nil || !strings.Contains(err.Error(), "y.csv: line 101") {
		t.Errorf("%v, %v", s, err)
	}
}

// TestRowsGo takes a row off the features once the ids of all rows were read.
func TestRowsGo(t *testing.T) {
	at := saved(t, map[string]string{"e.csv": "a,b\nb,c\n", "f.csv": "c,3\nb,2\na,1\n", "l.csv": "b,1\na,0\nc,1\n"})
	s, err := opened(importer.Reading{Edges: at("e.csv"), NodeIDs: "edges", FeatureFile: at("f.csv"), LabelFile: at("l.csv"), Scratch: at("scratch")})
	if err != nil {
		t.Fatal(err)
	}
	importertest.Save(t, at("f.csv"), []byte("c,3\nb,2\n"))
	if _, err := s.Features(0); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "f.csv: truncated") {
		t.Error(err)
	}
	if err := s.(interface{ Close() error }).Close(); err != nil {
		t.Error(err)
	}
}
