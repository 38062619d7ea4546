package offgs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/offgs"
)

// TestFixtures compares what is imported with what torch, NumPy and DGL load.
func TestFixtures(t *testing.T) {
	for name, dtype := range map[string]string{"bolt": "float16", "dgl": "float32"} {
		t.Run(name, func(t *testing.T) {
			source := filepath.Join("testdata", name)
			if sign := offgs.Format.Detect(datasettest.FS, []string{source}); sign == "" {
				t.Error("not found to be of the format")
			}
			out, res := importertest.Imported(t, offgs.Format, source, importer.Reading{})
			if res.Nodes != 20 || res.Edges != 60 || res.Dim != 3 || string(res.DType) != dtype || res.Classes != 4 {
				t.Errorf("%+v", res)
			}
			importertest.SameNodes(t, out, source+".txt")
		})
	}
}

func torch(t *testing.T, pickle string) []byte { return importertest.Torch(t, pickle) }

// TestRefuses changes one thing of a good directory at a time. Each is refused in one line, and
// nothing is written beside --out.
func TestRefuses(t *testing.T) {
	put, say := importertest.Put, importertest.Replace
	floats := func(n int, x float32) []byte {
		return importertest.NPY(fmt.Sprintf("(%d,)", n), slices.Repeat([]float32{x}, n))
	}
	for what, c := range map[string]struct {
		of   string
		edit importertest.Edit
		says string
	}{
		"no conf.json":             {"bolt", put("conf.json", nil), "conf.json is missing"},
		"no JSON":                  {"bolt", put("conf.json", []byte("{")), "conf.json: unexpected end"},
		"a long conf.json":         {"bolt", put("conf.json", bytes.Repeat([]byte(" "), 1<<20+1)), "conf.json"},
		"several types":            {"bolt", say("conf.json", `"num_nodes": 20`, `"num_nodes": {"paper": 20}`), "conf.json: the graph has several types: this version reads graphs of one type"},
		"no nodes":                 {"bolt", say("conf.json", `"num_nodes": 20`, `"num_nodes": 0`), "num_nodes is 0"},
		"negative nodes":           {"bolt", say("conf.json", `"num_nodes": 20`, `"num_nodes": -20`), "num_nodes is -20"},
		"2⁶⁴ nodes":                {"bolt", say("conf.json", `"num_nodes": 20`, `"num_nodes": 18446744073709551616`), "num_nodes is 18446744073709551616"},
		"2³³ nodes":                {"bolt", say("conf.json", `"num_nodes": 20`, `"num_nodes": 8589934592`), "32-bit"},
		"a text of nodes":          {"bolt", say("conf.json", `"num_nodes": 20`, `"num_nodes": "20"`), `num_nodes is "20"`},
		"other nodes":              {"bolt", say("conf.json", `20`, `21`), "graph.pth: the graph has 20 nodes, but conf.json says 21"},
		"features of others":       {"bolt", say("conf.json", `[20, 3]`, `[21, 3]`), "features_shape is [21 3], which is wrong for 20 nodes"},
		"features of a bomb":       {"bolt", say("conf.json", `[20, 3]`, `[20, 4611686018427387904]`), "features_shape"},
		"negative features":        {"bolt", say("conf.json", `[20, 3]`, `[20, -3]`), "features_shape"},
		"features of three":        {"bolt", say("conf.json", `[20, 3]`, `[20, 3, 1]`), "features_shape"},
		"wider features":           {"bolt", say("conf.json", `[20, 3]`, `[20, 4]`), "features.bin has 120 bytes, but an array of float16 of shape (20, 4) has 160"},
		"another type":             {"bolt", say("conf.json", "torch.float16", "torch.float32"), "features.bin has 120 bytes"},
		"an unknown type":          {"bolt", say("conf.json", "torch.float16", "torch.qint8"), `features_dtype: its elements have the unknown type "<qint8"`},
		"a type that is a program": {"bolt", say("conf.json", "torch.float16", "__import__('os')"), "features_dtype"},
		"no classes":               {"bolt", say("conf.json", `"num_classes": 4`, `"num_classes": 0`), "num_classes is 0"},
		"fewer classes":            {"bolt", say("conf.json", `"num_classes": 4`, `"num_classes": 2`), "labels.pth: node "},
		"a negative offset":        {"dgl", say("conf.json", `"label_offset": 5`, `"label_offset": -5`), "label_offset is -5"},
		"an offset beyond":         {"dgl", say("conf.json", `"label_offset": 5`, `"label_offset": 20`), "label_offset is 20"},
		"a later offset":           {"dgl", say("conf.json", `"label_offset": 5`, `"label_offset": 6`), "labels have the shape (15, 1), but there are 14 nodes from label_offset on"},
		"no features":              {"bolt", put("features.bin", nil), "features.bin is missing"},
		"features that end":        {"bolt", put("features.bin", make([]byte, 119)), "features.bin has 119 bytes"},
		"features with a header":   {"dgl", put("features.npy", importertest.NPY("(20, 4)", make([]float32, 80))), "features.npy: its shape is (20, 4); conf.json says [20 3], and it must be row-major"},
		"features by columns":      {"dgl", put("features.npy", importertest.NPYOrder("(20, 3)", true, make([]float32, 60))), "features.npy: its shape is (20, 3); conf.json says [20 3], and it must be row-major"},
		"features in a row":        {"dgl", put("features.npy", importertest.Vector(make([]float32, 60))), "features.npy: its shape is (60,); conf.json says"},
		"features of other nodes":  {"dgl", put("features.npy", importertest.NPY("(19, 3)", make([]float32, 57))), "features.npy: its shape is (19, 3); conf.json says"},
		"features in a pickle":     {"dgl", put("features.npy", []byte("\x93NUMPY\x01\x00")), "features.npy"},
		"the widest features":      {"bolt", say("conf.json", `[20, 3]`, `[20, 16777216]`), "features.bin has 120 bytes"},
		"too wide features":        {"bolt", say("conf.json", `[20, 3]`, `[20, 16777217]`), "features_shape is [20 16777217]"},
		"too many classes":         {"dgl", say("conf.json", `"num_classes": 4`, `"num_classes": 16777217`), "num_classes is 16777217"},
		"a cube of labels":         {"dgl", put("labels.npy", importertest.NPY("(15, 1, 1)", make([]float32, 15))), "labels.npy: its shape is (15, 1, 1)"},
		"NaN":                      {"dgl", put("features.npy", importertest.NPY("(20, 3)", slices.Repeat([]float32{float32(math.NaN())}, 60))), "features.npy"},
		"no labels":                {"bolt", put("labels.pth", nil), "labels.pth is missing"},
		"a class too many":         {"dgl", put("labels.npy", floats(15, 4)), "labels.npy: node 5 has the label 4, but there are 4 classes, counted from 0, or -1 for none"},
		"half a class":             {"dgl", put("labels.npy", floats(15, 0.5)), "labels.npy: node 5 has the label 0.5: labels are whole numbers"},
		"labels of many columns":   {"dgl", put("labels.npy", importertest.NPY("(15, 2)", make([]float32, 30))), "labels have the shape (15, 2), but there are"},
		"no sets":                  {"bolt", put("split_idx.pth", nil), "split_idx.pth is missing"},
		"sets that are no sets":    {"bolt", put("split_idx.pth", torch(t, "\x80\x02].")), "split_idx.pth: it is not a dictionary of sets"},
		"no training set":          {"bolt", put("split_idx.pth", torch(t, "\x80\x02}.")), "split_idx.pth: train: it has None instead of a tensor"},
		"os.system":                {"bolt", put("split_idx.pth", torch(t, "\x80\x02cos\nsystem\nU\x02ls\x85R.")), `it uses "os.system", which is not one of the supported classes of tensors, arrays and graphs; nothing was run`},
		"no graph":                 {"bolt", put("graph.pth", nil), "graph.pth is missing"},
		"a graph of nothing":       {"bolt", put("graph.pth", torch(t, "\x80\x02}.")), "graph.pth: it does not contain a FusedCSCSamplingGraph"},
		"a DGLGraph of nothing":    {"dgl", put("graph.pth", torch(t, "\x80\x02cdgl.heterograph\nDGLGraph\n)\x81.")), "graph.pth: it does not contain a DGLGraph"},
		"a DGLGraph of two types":  {"dgl", put("graph.pth", torch(t, "\x80\x02cdgl.heterograph\nDGLGraph\n)\x81}(U\x07_ntypes](U\x01aU\x01beU\x07_etypes](U\x01aeub.")), "its DGLGraph has several types: this version reads graphs of one type"},
		"a DGLGraph of columns":    {"dgl", put("graph.pth", torch(t, listed("](NNNe"))), `its DGLGraph has 3 tensors instead of 2, sources and destinations: save graph.formats("coo")`},
		"a DGLGraph of no tensors": {"dgl", put("graph.pth", torch(t, listed("](NNe"))), "graph.pth: source: it has None instead of a tensor"},
	} {
		t.Run(what, func(t *testing.T) {
			importertest.Refused(t, offgs.Format, importertest.Edited(t, filepath.Join("testdata", c.of), c.edit), importer.Reading{}, c.says)
		})
	}
}

// listed is the pickle of a DGLGraph of one type with the given list of tensors.
func listed(tensors string) string {
	made := func(class, state string) string {
		return "cdgl._ffi.object\n_new_object\ncdgl.heterograph_index\n" + class + "\n\x85R" + state + "b"
	}
	states := made("HeteroPickleStates", "(K\x02N"+tensors+"t")
	return "\x80\x02cdgl.heterograph\nDGLGraph\n)\x81}(U\x06_graph" + made("HeteroGraphIndex", states) + "U\x07_ntypes](U\x02_NeU\x07_etypes](U\x02_Eeub."
}

// TestNone reads the label 404 as none where there are fewer classes, and as a class otherwise.
func TestNone(t *testing.T) {
	for classes, want := range map[int]int64{4: 7, 404: 7, 405: 6} {
		dir := importertest.Edited(t, filepath.Join("testdata", "dgl"), importertest.Replace("conf.json", `"num_classes": 4,`, fmt.Sprintf(`"num_classes": %d,`, classes)))
		if _, res := importertest.Imported(t, offgs.Format, dir, importer.Reading{}); res.Unlabelled != want {
			t.Errorf("of %d classes %d nodes are unlabelled, want %d", classes, res.Unlabelled, want)
		}
	}
}

// TestHeads imports features with a header, and a conf.json of the most bytes and classes that it may have.
func TestHeads(t *testing.T) {
	dir := importertest.Edited(t, filepath.Join("testdata", "dgl"),
		importertest.Put("features.npy", importertest.NPY("(20, 3)", slices.Repeat([]float32{1, 2, 3}, 20))),
		importertest.Replace("conf.json", `"num_classes": 4,`, `"num_classes": 16777216,`))
	conf, err := os.ReadFile(filepath.Join(dir, "conf.json"))
	if err != nil {
		t.Fatal(err)
	}
	importertest.Put("conf.json", append(conf, bytes.Repeat([]byte(" "), 1<<20-len(conf))...))(t, dir)
	s, err := offgs.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
	if err != nil || s.Shape().Classes != 1<<24 {
		t.Fatal(s, err)
	}
	rows, err := s.Features(18)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 6)
	if err := errors.Join(rows.Next(got), rows.Close()); err != nil || !slices.Equal(got, []float32{1, 2, 3, 1, 2, 3}) {
		t.Error(got, err)
	}
}
