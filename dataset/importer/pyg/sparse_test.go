package pyg_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/pyg"
)

// TestSparse compares graphs in all the forms of testdata/sparse.py with the graph that it made them of.
func TestSparse(t *testing.T) {
	for name, notes := range map[string]string{
		"adj_csr": "", "adj_coo": "", "adj_csc": "data of edges is not imported: values of adj_t", "x_csr": "", "x_coo": "",
		"split_idx": "its sets of nodes are split_idx.train, split_idx.valid, split_idx.test",
		"idx":       "its sets of nodes are train_idx, valid_idx, test_idx",
		"library":   "", "library_csr": "data of edges is not imported: values of adj_t",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".pt")
			out, res := importertest.Imported(t, pyg.Format, path, importer.Reading{})
			importertest.SameNodes(t, out, filepath.Join("testdata", "sparse.txt"))
			s, err := pyg.Format.Open(datasettest.FS, []string{path}, &importer.Reading{})
			if err != nil {
				t.Fatal(err)
			}
			if sh := s.Shape(); sh.Edges != res.Edges || strings.Join(sh.Notes, "; ") != strings.TrimSuffix(path+": "+notes, path+": ") {
				t.Errorf("%d edges instead of %d; %q", sh.Edges, res.Edges, sh.Notes)
			}
		})
	}
	out, _ := importertest.Imported(t, pyg.Format, "testdata/bytes.pt", importer.Reading{SplitIndex: 1})
	importertest.SameNodes(t, out, "testdata/sparse.txt")
	for name, says := range map[string]string{
		"x_csc.pt":      "x: the entries of the sparse matrix are not in the order of rows: save it in compressed rows, SciPy's .tocsr() or torch's .to_sparse_csr()",
		"x_unsorted.pt": "x: the entries of the sparse matrix are not in the order of rows",
		"x.pt":          "it does not contain a graph of PyTorch Geometric, but torch._utils._rebuild_tensor_v2",
		"tensors.pt":    "its graph has no edge_index; it has feat, label, edges",
	} {
		refused(t, filepath.Join("testdata", name), says)
	}
}

// sparse is the pickle of a sparse tensor of torch.
func sparse(layout, parts string, sizes ...int) string {
	size := "("
	for _, n := range sizes {
		size += "K" + string(rune(n))
	}
	return "ctorch._utils\n_rebuild_sparse_tensor\n(ctorch.serialization\n_get_layout\nX" + string(rune(len(layout))) + "\x00\x00\x00" + layout + "\x85R(" + parts + size + "tttR"
}

// TestSparseRefuses changes the sparse features, or the edges, of a graph of four nodes.
func TestSparseRefuses(t *testing.T) {
	ints := func(shape []int, v ...int64) string { return ndarray(t, "i8", false, v, shape...) }
	floats := func(v ...float32) string { return ndarray(t, "f4", false, v, len(v)) }
	vector := func(v ...int64) string { return ints([]int{len(v)}, v...) }
	good := map[string]string{"x": sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3)+vector(1, 0, 1)+floats(5, 6, 7), 4, 2), "edge_index": ints([]int{2, 1}, 1, 2), "y": vector(0, 1, 0, 1), "train_mask": vector(1, 1, 0, 0)}
	dense := ndarray(t, "f4", false, make([]float32, 8), 4, 2)
	for says, change := range map[string][2]string{
		"": {"x", good["x"]},
		"x's indptr: its shape is (4,) instead of (5,)":                              {"x", sparse("torch.sparse_csr", vector(0, 1, 1, 3)+vector(1, 0, 1)+floats(5, 6, 7), 4, 2)},
		"x's indptr: offset 4 follows offset 2":                                      {"x", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 4)+vector(1, 0, 1)+floats(5, 6, 7), 4, 2)},
		"x: column 2 is out of range: there are 2 columns":                           {"x", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3)+vector(1, 0, 2)+floats(5, 6, 7), 4, 2)},
		"x's data: its shape is (2,), but the matrix has 3 entries":                  {"x", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3)+vector(1, 0, 1)+floats(5, 6), 4, 2)},
		"a sparse tensor has the sizes [4 2 2]: only matrices can be read":           {"x", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3)+vector(1, 0, 1)+floats(5, 6, 7), 4, 2, 2)},
		"x: rows have 0 elements instead of 1 to 16777216":                           {"x", sparse("torch.sparse_csr", vector(0, 0, 0, 0, 0)+vector()+floats(), 4, 0)},
		"a sparse tensor has the layout \"torch.sparse_bsr\": only sparse_coo":       {"x", sparse("torch.sparse_bsr", vector()+vector()+floats(), 4, 2)},
		"a sparse tensor has an unknown form":                                        {"x", sparse("torch.sparse_csr", vector()+vector(), 4, 2)},
		"x: row 4 is out of range: there are 4 rows":                                 {"x", sparse("torch.sparse_coo", ints([]int{2, 2}, 3, 4, 0, 0)+floats(1, 2), 4, 2)},
		"the indices of a sparse matrix must be integers of shape (2, n), not int64": {"x", sparse("torch.sparse_coo", ints([]int{3, 1}, 3, 4, 0)+floats(1), 4, 2)},
		"there are labels of 4 nodes instead of 5":                                   {"x", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3, 3)+vector(1, 0, 1)+floats(5, 6, 7), 5, 2)},
		"adj_t: the adjacency matrix is 4 × 5, not square with at least 1 node":      {"adj_t", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3)+vector(1, 0, 1)+floats(1, 1, 1), 4, 5)},
		"x: there are features of 4 nodes, but the graph has 5 nodes":                {"adj_t", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3, 3)+vector(1, 0, 1)+floats(1, 1, 1), 5, 5)},
		"adj_t: the edge from 4 to 2 is out of range: the graph has 4 nodes":         {"adj_t", sparse("torch.sparse_csr", vector(0, 1, 1, 2, 3)+vector(1, 4, 1)+floats(1, 1, 1), 4, 4)},
		"g.pt: a sparse tensor has the layout \"torch.sparse_bsc\"":                  {"adj_t", sparse("torch.sparse_bsc", vector()+vector()+floats(), 4, 4)},
		"adj_t is no sparse tensor":                                                  {"adj_t", dense},
		"train_mask: node 3 has the value 2: a mask has only 0 and 1":                {"train_mask", vector(1, 1, 0, 2)},
	} {
		attributes := map[string]string{"x": good["x"], "edge_index": good["edge_index"], "y": good["y"], "train_mask": good["train_mask"], change[0]: change[1]}
		if change[0] == "adj_t" {
			attributes["edge_index"] = ""
		}
		if path := saved(t, attributes); says != "" {
			refused(t, path, says)
		} else {
			out, _ := importertest.Imported(t, pyg.Format, path, importer.Reading{})
			if got := strings.Split(importertest.Nodes(t, out), "\n"); !slices.Equal(got, []string{"0 |  | 0 5 | 0 | train", "1 |  | 0 0 | 1 | train", "2 | 1 | 6 0 | 0 | -", "3 |  | 0 7 | 1 | -", ""}) {
				t.Errorf("%q", got)
			}
		}
	}
}
