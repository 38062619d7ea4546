package raw_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// TestNamesOfColumns imports one graph, 0→1, 0→2, 3→0, from tables whose columns are named: edges in
// either order, features and labels with and without a column that counts the rows.
func TestNamesOfColumns(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"e.csv": "0,1\n0,2\n3,0\n", "forward.csv": "source,target\n0,1\n0,2\n3,0\n", "backward.csv": "target,source\n1,0\n2,0\n0,3\n",
		"backward.tsv": "dst_id src_id\n1 0\n2 0\n0 3\n", "odd.csv": "a,b\n0,1\n0,2\n3,0\n",
		"f.csv": "x,y\n.5,1\n1.5,2\n2.5,3\n3.5,4\n", "counted.csv": "node_id,x,y\n0,.5,1\n1,1.5,2\n2,2.5,3\n3,3.5,4\n", "pandas.csv": ",x,y\n0,.5,1\n1,1.5,2\n2,2.5,3\n3,3.5,4\n",
		"l.csv": "0\n1\n0\n1\n", "counted-l.csv": "id,label\n0,0\n1,1\n2,0\n3,1\n",
		"s0.csv": "0\n1\n", "s1.csv": "node_id\n2\n", "s2.csv": "3\n",
	} {
		importertest.Save(t, at(name), []byte(text))
	}
	made := func(edges, features, labels, ids string) (graph string, plan importer.Plan) {
		t.Helper()
		o := importer.Options{Reading: reading(at, edges, features, labels, "s0.csv", "s1.csv", "s2.csv")}
		o.NodeIDs = ids
		out := filepath.Join(vfstest.TempDir(t), "D")
		plan, err := importer.MakePlan(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard)
		if err == nil {
			_, err = importer.Import(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard)
		}
		if err != nil {
			t.Fatalf("%s, %s, %s: %v", edges, features, labels, err)
		}
		d := datasettest.Verified(t, out)
		topology, err := d.Topology(t.Context(), progress.Discard, 1)
		if err != nil {
			t.Fatal(err)
		}
		graph = fmt.Sprint(topology.Indptr, topology.Indices)
		if err := topology.Close(); err != nil {
			t.Fatal(err)
		}
		return graph + importertest.Nodes(t, out), plan
	}
	want, plan := made("e.csv", "f.csv", "l.csv", "")
	if !strings.HasPrefix(want, "[0 1 2 3 3] [3 0 0]") || len(plan.Notes) != 0 {
		t.Fatalf("%s, %q", want, plan.Notes)
	}
	for _, c := range []struct {
		edges, features, labels string
		says                    []string
	}{
		{"forward.csv", "f.csv", "l.csv", nil},
		{"backward.csv", "f.csv", "l.csv", nil},
		{"backward.tsv", "f.csv", "l.csv", nil},
		{"odd.csv", "f.csv", "l.csv", []string{`odd.csv: its columns "a" and "b" are read as source and destination`}},
		{"e.csv", "counted.csv", "l.csv", []string{`counted.csv: its column "node_id" has the numbers of the rows, and is left out of the features`}},
		{"e.csv", "pandas.csv", "counted-l.csv", []string{`pandas.csv: its column ""`, `counted-l.csv: its column "id" has the numbers of the rows, and is left out of the labels`}},
	} {
		got, plan := made(c.edges, c.features, c.labels, "")
		notes := strings.Join(plan.Notes, "; ")
		if got != want || slices.ContainsFunc(c.says, func(s string) bool { return !strings.Contains(notes, s) }) || len(plan.Notes) != len(c.says) {
			t.Errorf("%s, %s, %s: %s, want %s; notes %q", c.edges, c.features, c.labels, got, want, plan.Notes)
		}
	}

	// Of nodes with names, too: they are numbered by their first appearance, sources first.
	want, _ = made("e.csv", "random:2", "random:2", raw.ByEdges)
	for _, edges := range []string{"forward.csv", "backward.csv", "backward.tsv"} {
		if got, _ := made(edges, "random:2", "random:2", raw.ByEdges); got != want {
			t.Errorf("%s with names: %s, want %s", edges, got, want)
		}
	}
	if got, plan := made("odd.csv", "random:2", "random:2", raw.ByEdges); got == want || len(plan.Notes) > 0 {
		t.Errorf("nodes called a and b: %s, %q", got, plan.Notes)
	}

	// SNAP's lists name their columns in a comment.
	for name, text := range map[string]string{"snap.txt": "# Nodes: 4 Edges: 3\n# FromNodeId\tToNodeId\n0\t1\n0 2\n3 0\n", "back.txt": "# ToNodeId FromNodeId\n1 0\n2 0\n0 3\n"} {
		importertest.Save(t, at(name), []byte(text))
		s, err := opened(reading(at, name, "random:2", "random:2"))
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		if err := s.Edges(t.Context(), func(dst, src []int64) error {
			for i := range dst {
				got = append(got, src[i], dst[i])
			}
			return nil
		}); err != nil || !slices.Equal(got, []int64{0, 1, 0, 2, 3, 0}) || len(s.Shape().Notes) != 1 || (s.Shape().Reading["edge_columns"] != "") != (name == "back.txt") {
			t.Errorf("%s: %v, %+v, %v", name, got, s.Shape(), err)
		}
	}

	// A dataset that was read otherwise has other content parameters.
	for edges, reversed := range map[string]string{"forward.csv": "", "backward.csv": "destination,source"} {
		for _, ids := range []string{"", raw.ByEdges} {
			o := reading(at, edges, "random:2", "random:2")
			o.NodeIDs, o.Scratch = ids, filepath.Join(vfstest.TempDir(t), "scratch")
			s, err := raw.Format.Open(datasettest.FS, nil, &o)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Shape().Reading["edge_columns"]; got != reversed {
				t.Errorf("%s: edge_columns is %q", edges, got)
			}
			if err := s.(interface{ Close() error }).Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for features, counted := range map[string]string{"f.csv": "", "counted.csv": "yes"} {
		o := reading(at, "e.csv", features, "counted-l.csv")
		s, err := raw.Format.Open(datasettest.FS, nil, &o)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Shape().Reading; r["counted_features"] != counted || r["counted_labels"] != "yes" {
			t.Errorf("%s: %v", features, r)
		}
	}
}

// TestColumnsRefused: tables whose columns contradict each other, or are ids, by what is said of them.
func TestColumnsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"e.csv": "0,1\n0,2\n3,0\n", "both.csv": "to,target\n1,0\n", "weighted.csv": "src,dst,weight\n0,1,2\n", "half.csv": "dst,other\n1,0\n",
		"f.csv": "1\n2\n3\n4\n", "last.csv": "x,node_id\n1,0\n2,1\n3,2\n4,3\n", "only.csv": "node_id\n0\n1\n2\n3\n", "shuffled.csv": "id,x\n0,1\n2,3\n1,2\n3,4\n", "l.csv": "0\n1\n0\n1\n",
	} {
		importertest.Save(t, at(name), []byte(text))
	}
	for _, c := range []struct{ edges, features, labels, says string }{
		{"both.csv", "f.csv", "l.csv", `both.csv: its columns are "to" and "target"`},
		{"half.csv", "f.csv", "l.csv", `half.csv: its columns are "dst" and "other"`},
		{"e.csv", "last.csv", "l.csv", `last.csv: the name of column 2, "node_id", says that it has ids, which are not features or labels: remove it, or rename it if it has no ids`},
		{"e.csv", "only.csv", "l.csv", `only.csv: the name of column 1, "node_id", says that it has ids, which are not features or labels: remove it, or rename it if it has no ids`},
		{"e.csv", "f.csv", "only.csv", `only.csv: the name of column 1, "node_id", says that it has ids, which are not features or labels: remove it, or rename it if it has no ids`},
		{"e.csv", "shuffled.csv", "l.csv", `shuffled.csv: row 1: the column "id" is 2 instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges`},
		{"e.csv", "f.csv", "shuffled.csv", `shuffled.csv: row 1: the column "id" is 2 instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges`},
	} {
		o := importer.Options{Reading: reading(at, c.edges, c.features, c.labels), Split: &importer.Split{Parts: "60/20/20"}}
		p, err := importer.MakePlan(t.Context(), datasettest.FS, at("D"), raw.Format, o, progress.Discard)
		if found := strings.Join(p.Problems, "; "); err != nil || !strings.Contains(found, c.says) {
			t.Errorf("%s, %s, %s: %q, want %q; %v", c.edges, c.features, c.labels, found, c.says, err)
		}
	}
}
