package ogb_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/ogb"
	"diskgnn/internal/fault"
)

func packed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// changed copies a fixture and replaces files of it, or removes those without content.
func changed(t *testing.T, fixture string, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../testdata/ogb", fixture))); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			importertest.Save(t, path, content)
		}
	}
	return dir
}

func opened(dir string) (importer.Source, error) {
	return ogb.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
}

// TestManyEdges has types of edges of which there are as many as a number can say.
func TestManyEdges(t *testing.T) {
	many := packed("9223372036854775807\n")
	for types := 1; types <= 3; types++ {
		files := map[string][]byte{}
		for _, name := range []string{"author___writes___paper", "paper___cites___paper", "paper___in___venue"}[:types] {
			files[fmt.Sprintf("raw/relations/%s/num-edge-list.csv.gz", name)] = many
		}
		s, err := opened(changed(t, "hetero", files))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Shape().Edges; n != importer.MaxEdges+1 {
			t.Errorf("%d types: %d edges", types, n)
		}
	}
}

// TestTypesAreWrong has a graph whose types are wrong: nothing is said of the split, whose place is not
// known.
func TestTypesAreWrong(t *testing.T) {
	for fixture, file := range map[string]string{"hetero": "raw/num-node-dict.csv.gz", "hetero-binary": "raw/num_nodes_dict.npz"} {
		_, err := opened(changed(t, fixture, map[string][]byte{file: []byte("x")}))
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), filepath.Base(file)) || strings.Contains(err.Error(), "problems") {
			t.Errorf("%s: %v", fixture, err)
		}
	}
}

// npz is an archive of the members.
func npz(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	dir, tree := t.TempDir(), importertest.Tree{}
	for key, content := range members {
		tree["a.npz/"+key] = content
	}
	tree.Write(t, dir)
	b, err := os.ReadFile(filepath.Join(dir, "a.npz"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOpenRefuses changes a file of a good set; what is wrong is seen when it is opened.
func TestOpenRefuses(t *testing.T) {
	pairs := importertest.NPY("(2, 3)", make([]int64, 6))
	ones := func(n int) []byte { return importertest.Vector(make([]float32, n)) }
	for _, c := range []struct {
		set, file string
		content   []byte
		says      string
	}{
		{"hetero", "raw/nodetype-has-label.csv.gz", packed("paper,author,venue\nTrue,false,TRUE\n"), "the node types paper and venue both have labels, but only one may"},
		{"hetero", "raw/nodetype-has-label.csv.gz", packed("paper,author,venue\nTrue,False\n"), "names no node type with labels"},
		{"hetero", "raw/nodetype-has-label.csv.gz", packed("paper\nTrue\nTrue\n"), "names no node type with labels"},
		{"hetero", "raw/nodetype-has-label.csv.gz", packed("books\nTrue\n"), `labels are of the node type "books", which does not exist`},
		{"hetero", "raw/nodetype-has-label.csv.gz", packed(strings.Repeat("paper\n", 20_000))[:40], "nodetype-has-label.csv.gz: cannot be unpacked"},
		{"hetero", "raw/nodetype-has-label.csv.gz", packed(strings.Repeat("paper\n", 10_001)), "has more than 10000 lines"},
		{"hetero", "raw/nodetype-has-label.csv.gz", packed(strings.Repeat("paper\n", 10_000)), "names no node type with labels"},
		{"hetero", "raw/num-node-dict.csv.gz", packed("author,paper,venue\n6,9\n"), "must have two lines of equal length: node types, and their numbers of nodes"},
		{"hetero", "raw/num-node-dict.csv.gz", packed("author,paper,venue\n"), "must have two lines of equal length: node types, and their numbers of nodes"},
		{"hetero", "raw/num-node-dict.csv.gz", packed("author,paper,venue\n6,9,3\n6,9,3\n"), "must have two lines of equal length: node types, and their numbers of nodes"},
		{"hetero", "raw/num-node-dict.csv.gz", packed("author,paper,venue\n6,9,many\n"), `"many" is not the number of nodes of the type venue`},
		{"hetero", "raw/num-node-dict.csv.gz", packed("author,paper,venue\n6,-9,3\n"), "the node type \"paper\" is listed twice, or with an impossible number of nodes, -9"},
		{"hetero", "raw/triplet-type-list.csv.gz", packed("paper,cites\n"), `"paper,cites" is not a head, a relation and a tail`},
		{"hetero", "raw/triplet-type-list.csv.gz", packed("paper,cites,paper,too\n"), `"paper,cites,paper,too" is not a head, a relation and a tail`},
		{"hetero", "raw/triplet-type-list.csv.gz", nil, "has neither meta.pt nor a directory raw with edge.csv.gz, data.npz, triplet-type-list.csv.gz or edge_index_dict.npz: unpack the archive, and name the directory that has raw and split, or meta.pt"}, // it is the layout's sign
		{"arxiv", "raw/num-node-list.csv.gz", packed("0\n"), "the graph has 0 nodes; at least 1 is needed"},
		{"arxiv", "raw/num-node-list.csv.gz", packed("12\n11\n"), "num-node-list.csv.gz must have one number, since there is one graph"},
		{"arxiv", "raw/node-feat.csv.gz", nil, "has neither node features nor edge features"},
		{"binary", "raw/node-label.npz", npz(t, map[string][]byte{"node_label": ones(18)}), "node-label.npz: node_label: there are labels of 18 nodes instead of 19"},
		{"binary", "raw/data.npz", npz(t, map[string][]byte{"num_nodes_list": importertest.Vector([]int64{19}), "num_edges_list": importertest.Vector([]int64{4}), "edge_index": pairs, "node_feat": ones(19)}), "num_edges_list says 4 edges, but edge_index has 3"},
		{"binary", "raw/data.npz", npz(t, map[string][]byte{"num_nodes_list": importertest.Vector([]int64{19, 1}), "num_edges_list": importertest.Vector([]int64{3}), "edge_index": pairs, "node_feat": ones(19)}), "num_nodes_list"},
		{"binary", "raw/data.npz", npz(t, map[string][]byte{"num_nodes_list": importertest.Vector([]int64{-19}), "num_edges_list": importertest.Vector([]int64{3}), "edge_index": pairs, "node_feat": ones(19)}), "the graph has -19 nodes; at least 1 is needed"},
		{"binary", "raw/data.npz", npz(t, map[string][]byte{"num_nodes_list": importertest.Vector([]int64{19}), "num_edges_list": importertest.Vector([]int64{3}), "edge_index": pairs, "node_feat": ones(18)}), "node_feat has features of 18 nodes, but there are 19 nodes"},
		{"binary", "raw/data.npz", npz(t, map[string][]byte{"num_nodes_list": importertest.Vector([]int64{19}), "num_edges_list": importertest.Vector([]int64{3}), "edge_index": pairs}), "has neither node features nor edge features"},
		{"binary", "raw/data.npz", npz(t, map[string][]byte{"num_nodes_list": importertest.Vector([]int64{19}), "num_edges_list": importertest.Vector([]int64{3}), "edge_index": importertest.NPY("(3, 2)", make([]int64, 6)), "node_feat": ones(19)}), "edges must be integers of shape (2, E), not int64 of shape (3, 2)"},
		{"hetero-binary", "raw/edge_index_dict.npz", npz(t, map[string][]byte{"paper___cites___book": pairs}), "the edge type paper___cites___book is between node types of which at least one does not exist"},
		{"hetero-binary", "raw/edge_index_dict.npz", npz(t, map[string][]byte{"paper___cites___paper": importertest.Vector([]int64{1, 2})}), "edges must be integers of shape (2, E), not int64 of shape (2,)"},
		{"hetero-binary", "raw/node-label.npz", npz(t, map[string][]byte{"paper": ones(9), "author": ones(6)}), "has labels of 2 node types (author, paper) instead of one"},
		{"hetero-binary", "raw/node-label.npz", npz(t, map[string][]byte{"book": ones(9)}), `labels are of the node type "book", which does not exist`},
		{"hetero-binary", "raw/node-label.npz", npz(t, map[string][]byte{"paper": ones(8)}), "there are labels of 8 nodes instead of 9"},
		{"hetero-binary", "raw/num_nodes_dict.npz", npz(t, map[string][]byte{"author": importertest.Vector([]int64{6}), "paper": importertest.Vector([]int64{9, 9}), "venue": importertest.Vector([]int64{3})}), "paper"},
		{"mag240m_kddcup2021", "meta.pt", importertest.Torch(t, "\x80\x02}(X\x0b\x00\x00\x00num_classesK\x00u."), "num_classes is 0 instead of 1 to"},
		{"mag240m_kddcup2021", "meta.pt", importertest.Torch(t, "\x80\x02}(X\x0b\x00\x00\x00num_classesJ\x01\x00\x00\x01u."), "num_classes is 16777217 instead of 1 to"},
		{"mag240m_kddcup2021", "meta.pt", importertest.Torch(t, "\x80\x02}(X\x0b\x00\x00\x00num_classesJ\x00\x00\x00\x01u."), "0 node types have a node_label.npy ("},
	} {
		_, err := opened(changed(t, c.set, map[string][]byte{c.file: c.content}))
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s of %s: %v, want %q", c.file, c.set, err, c.says)
		}
	}
}

// TestSplits picks one of several splits.
func TestSplits(t *testing.T) {
	dir := changed(t, "arxiv", map[string][]byte{"split/.hidden": []byte("x")})
	for _, c := range []struct {
		splits string // directories
		task   string
		files  string // whose files are read
		says   string
	}{
		{"time", "", "time", ""},
		{"time", "time", "time", ""},
		{"time", "year", "", `split has no split "year"; it has time`},
		{"random time", "", "", "split has several splits (random, time): choose one with --task"},
		{"random time", "random", "random", ""},
		{"random time", "year", "", `split has no split "year"; it has random, time`},
		{"", "", "", "split is empty"},
		{"-", "", "", "split is missing"},
	} {
		if err := os.Rename(filepath.Join(dir, "split"), filepath.Join(dir, "splits")); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(strings.Fields(c.splits), ".hidden") {
			if c.splits == "-" {
				break
			}
			if err := os.CopyFS(filepath.Join(dir, "split", name), os.DirFS(filepath.Join(dir, "splits", "time"))); err != nil {
				t.Fatal(err)
			}
		}
		s, err := ogb.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{Task: c.task})
		switch {
		case c.says != "":
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, --task %q: %v, want %q", c.splits, c.task, err, c.says)
			}
		case err != nil:
			t.Errorf("%q, --task %q: %v", c.splits, c.task, err)
		default:
			if got := s.Shape().Reading["task"]; got != c.task {
				t.Errorf("%q, --task %q: recorded is %q", c.splits, c.task, got)
			}
			if want := filepath.Join(dir, "split", c.files, "train.csv.gz"); !slices.Contains(s.Files(), want) {
				t.Errorf("%q, --task %q: %q, want %s", c.splits, c.task, s.Files(), want)
			}
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "split")), os.Rename(filepath.Join(dir, "splits"), filepath.Join(dir, "split"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMeans gives nodes the means of the features of edges: of the incoming ones, or of all.
func TestMeans(t *testing.T) {
	files := map[string][]byte{
		"raw/num-node-list.csv.gz": packed("4\n"), "raw/num-edge-list.csv.gz": packed("4\n"), "raw/edge.csv.gz": packed("0,1\n2,1\n1,0\n2,2\n"),
		"raw/edge-feat.csv.gz": packed("2,10\n4,20\n1,0\n3,5\n"), "raw/node-label.csv.gz": packed("0\n0\n0\n0\n"),
	}
	dir := changed(t, "ogbn_proteins", files)
	rows := func(o importer.Reading) ([]float32, error) {
		s, err := ogb.Format.Open(datasettest.FS, []string{dir}, &o)
		if err != nil {
			t.Fatal(err)
		}
		if held := s.Shape().Held; held != 4*(2*4+4) { // two sums and a count of each node
			t.Errorf("it holds %d", held)
		}
		r, err := s.Features(0)
		if err != nil {
			return nil, err
		}
		values := make([]float32, 8)
		return values, r.Next(values)
	}
	for reverse, want := range map[string][]float32{
		importer.ReverseNo:  {1, 0, 3, 15, 3, 5, 0, 0},
		importer.ReverseYes: {1.5, 5, 7.0 / 3, 10, 10.0 / 3, 10, 0, 0}, // an edge from a node to itself counts twice
	} {
		if got, err := rows(importer.Reading{Reverse: reverse}); err != nil || !slices.Equal(got, want) {
			t.Errorf("reverses %s: %v, %v, want %v", reverse, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"2,10\n4,20\n1,0\n":                "edge-feat.csv.gz: truncated: it ends before the row of the last edge",
		"2,10\n4,20\n1,0\n3,5\n3,5\n":      "edge-feat.csv.gz",
		"2,10\n4,20\n1,0\n3,5\n3,5\n7,7\n": "edge-feat.csv.gz",
	} {
		importertest.Save(t, filepath.Join(dir, "raw", "edge-feat.csv.gz"), packed(text))
		if got, err := rows(importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
