package all_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/ogb"
	"diskgnn/internal/progress"
)

// pickled is a pickle of a dictionary of strings and what else stands for values, in pickle too.
func pickled(items ...string) string {
	s := "\x80\x02}("
	for i, item := range items {
		if i%2 == 0 {
			item = "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(item)))) + item
		}
		s += item
	}
	return s + "u."
}

// array is the pickle of an array of NumPy, of as many bytes.
func array(dtype, bytes string) string {
	return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K" + string(rune(len(bytes)/8)) + "\x85cnumpy\ndtype\nU\x02" + dtype +
		"\x89\x88\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89B" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(bytes)))) + bytes + "tb"
}

func number(n int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// ids is an array of node ids.
func ids(v ...int64) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return array("i8", string(b))
}

// TestMAG240MRefuses changes one file of a good set at a time.
func TestMAG240MRefuses(t *testing.T) {
	torch := func(items ...string) []byte { return importertest.Torch(t, pickled(items...)) }
	const cites, features, labels = "processed/paper___cites___paper/edge_index.npy", "processed/paper/node_feat.npy", "processed/paper/node_label.npy"
	counts := []string{"paper", number(13), "author", number(7), "institution", number(3)}
	sets := func(train string) []byte { return torch("train", train, "valid", ids(1), "test", ids(2)) }
	for _, c := range []struct {
		what, file string
		content    []byte // nil: no such file
		task       string
		says       []string
	}{
		{"unchanged meta.pt, fewer classes", "meta.pt", torch(append(counts, "num_classes", number(2))...), "", []string{"node_label.npy", "there are 2 classes"}},
		{"no dictionary", "meta.pt", importertest.Torch(t, "\x80\x02]."), "", []string{"meta.pt", "is not a dictionary of node types and their numbers of nodes"}},
		{"os.system", "meta.pt", importertest.Torch(t, "\x80\x02cos\nsystem\nU\x02ls\x85R."), "", []string{"meta.pt", `"os.system"`}},
		{"a type without a number", "meta.pt", torch("paper", "N"), "", []string{"meta.pt: entry 0 is not a name with a number"}},
		{"a number for a name", "meta.pt", importertest.Torch(t, "\x80\x02}(K\x01K\x02u."), "", []string{"entry 0 is not a name with a number"}},
		{"a type that leaves the directory", "meta.pt", torch("../paper", number(13)), "", []string{`"../paper" cannot be the name of a type`}},
		{"a type that is the directory", "meta.pt", torch(".", number(13)), "", []string{`"." cannot be the name of a type`}},
		{"negative papers", "meta.pt", torch("paper", number(-13)), "", []string{"\"paper\" is listed twice, or with an impossible number of nodes, -13"}},
		{"2⁶³ papers", "meta.pt", torch("paper", number(1<<63-1)), "", []string{"the node type \"paper\" is listed twice, or with an impossible number of nodes, 9223372036854775807"}},
		{"2³³ papers", "meta.pt", torch("paper", number(1<<33)), "", []string{"32-bit"}},
		{"no nodes", "meta.pt", torch("paper", number(0)), "", []string{"the graph has 0 nodes; at least 1 is needed"}},
		{"classes of a bomb", "meta.pt", torch(append(counts, "num_classes", number(1<<40))...), "", []string{"num_classes is 1099511627776 instead of 1 to 16777216"}},
		{"no such type", "meta.pt", torch("paper", number(13), "author", number(7)), "", []string{"the edge type author___affiliated_with___institution is between node types of which at least one does not exist"}},
		{"other papers", "meta.pt", torch("paper", number(12), "author", number(7), "institution", number(3)), "", []string{"node_feat.npy has features of 13 nodes, but there are 12 nodes"}},
		{"no meta.pt", "meta.pt", nil, "", []string{"is not recognised: give --format, one of"}},
		{"no sets", "split_dict.pt", nil, "", []string{"split_dict.pt is missing"}},
		{"no dictionary of sets", "split_dict.pt", importertest.Torch(t, "\x80\x02N."), "", []string{"split_dict.pt is not a dictionary of sets"}},
		{"no training set", "split_dict.pt", torch("valid", ids(1), "test", ids(2)), "", []string{`split_dict.pt has no set "train"; it has valid, test`}},
		{"no test set", "split_dict.pt", torch("train", ids(0), "valid", ids(1)), "", []string{`no set "test-whole"`}},
		{"a set of objects", "split_dict.pt", sets(array("O8", "12345678")), "", []string{"split_dict.pt: train", `type "<O8"`}},
		{"a set of floats", "split_dict.pt", sets(array("f8", "12345678")), "", []string{"split_dict.pt: train", "float64"}},
		{"a set of a number", "split_dict.pt", sets(number(1)), "", []string{"split_dict.pt: train", "it has 1 instead of a tensor"}},
		{"a paper of 2⁶⁴", "split_dict.pt", sets(array("u8", "\xff\xff\xff\xff\xff\xff\xff\xff")), "", []string{"split_dict.pt: train", "is larger than a signed integer of 64 bits"}},
		{"a negative paper", "split_dict.pt", sets(ids(-1)), "", []string{"split_dict.pt: train: the train set has node -1, but there are only 13 nodes"}},
		{"a paper beyond", "split_dict.pt", sets(ids(13)), "", []string{"split_dict.pt: train: the train set has node 13, but there are only 13 nodes"}},
		{"overlapping sets", "split_dict.pt", sets(ids(2)), "", []string{"split_dict.pt: test: node 12 is in the train set and in the test set"}},
		{"a challenge that is not there", "split_dict.pt", sets(ids(0)), "test-challenge", []string{`no set "test-challenge"; it has train, valid, test`}},
		{"edges as pairs", cites, importertest.NPY("(3, 2)", make([]int64, 6)), "", []string{"edge_index.npy", "shape (2, E), not int64 of shape (3, 2)"}},
		{"edges of floats", cites, importertest.NPY("(2, 3)", make([]float32, 6)), "", []string{"edge_index.npy", "not float32"}},
		{"an edge that leaves its type", cites, importertest.NPY("(2, 2)", []int64{0, 1, 2, 13}), "", []string{"paper___cites___paper", "from 1 to 13 is out of range: there are 13 source nodes and 13 destination nodes"}},
		{"a negative edge", cites, importertest.NPY("(2, 2)", []int64{0, -1, 2, 3}), "", []string{"the edge from -1 to 3 is out of range: there are"}},
		{"edges of a bomb", cites, headed("<i8", "(2, 1152921504606846975)"), "", []string{"edge_index.npy"}},
		{"edges that end", cites, headed("<i8", "(2, 100)"), "", []string{"edge_index.npy: truncated"}},
		{"no edges", cites, nil, "", []string{"edge_index.npy is missing"}},
		{"features by columns", features, importertest.NPYOrder("(13, 6)", true, make([]float32, 78)), "", []string{"node_feat.npy", "fortran_order"}},
		{"labels of others", labels, importertest.NPY("(12,)", make([]float32, 12)), "", []string{"node_label.npy: there are labels of 12 nodes instead of 13"}},
		{"no labels", labels, nil, "", []string{"0 node types have a node_label.npy ("}},
	} {
		dir := importertest.Edited(t, filepath.Join(fixtures, "ogb", "mag240m_kddcup2021"), importertest.Put(c.file, c.content))
		o := importer.Options{Sources: []string{dir}, Reading: importer.Reading{Task: c.task}}
		refused(t, c.what, o, c.says...)
		if p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), ogb.Format, o, progress.Discard); err != nil || len(p.Problems) > 1 {
			t.Errorf("%s: the plan finds %q, %v", c.what, p.Problems, err)
		}
	}
}
