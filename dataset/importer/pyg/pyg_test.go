package pyg_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/pyg"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// TestFixtures compares what is imported with what PyTorch Geometric loads from its files.
func TestFixtures(t *testing.T) {
	for name, edges := range map[string]int64{"data": 60, "tuple": 60, "object": 60, "many": 60, "arrays": 60, "cached": 60, "builtins": 60, "builtins3": 60, "builtins4": 60} {
		t.Run(name, func(t *testing.T) {
			out, res := importertest.Imported(t, pyg.Format, filepath.Join("testdata", name+".pt"), importer.Reading{})
			if res.Edges != edges || res.Nodes != 20 || res.Dim != 4 || (res.DType == dtype.Float16) != (name == "many") {
				t.Errorf("%+v", res)
			}
			golden := name
			if name == "object" || name == "cached" || strings.HasPrefix(name, "builtins") { // the graph of tuple
				golden = "tuple"
			}
			importertest.SameNodes(t, out, filepath.Join("testdata", golden+".txt"))
		})
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "processed"), 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, "has no processed/data.pt and no data.pt: name the file")
	if err := os.Mkdir(filepath.Join(dir, "raw"), 0o777); err != nil {
		t.Fatal(err)
	}
	pickles := filepath.Join(dir, "raw", "ind.cora.x")
	importertest.Save(t, pickles, nil)
	refused(t, dir, "import the processed/data.pt that it writes")
	refused(t, filepath.Join(dir, "raw"), "Planetoid's pickles")
	if pyg.Format.Detect(datasettest.FS, []string{dir}) != "it has Planetoid's files" {
		t.Error("Planetoid's files are not found")
	}
	content, err := os.ReadFile(filepath.Join("testdata", "data.pt"))
	if err != nil {
		t.Fatal(err)
	}
	importertest.Save(t, filepath.Join(dir, "processed", "data.pt"), content)
	importertest.Imported(t, pyg.Format, dir, importer.Reading{})
	if pyg.Format.Detect(datasettest.FS, []string{dir}) == "" || pyg.Format.Detect(datasettest.FS, []string{t.TempDir()}) != "" {
		t.Error("a data set's directory is not found, or an empty one is")
	}
}

func TestRefuses(t *testing.T) {
	for name, says := range map[string]string{
		"hetero.pt":        "its graph has several types (HeteroData): give --typed to keep them, or make a graph of one type (Data)",
		"hetero-object.pt": "its graph has several types (HeteroData)",
		"two.pt":           "several graphs",
		"none.pt":          "none.pt is missing",
		"make.py":          "not an archive of torch.save",
		"../../internal/torchfile/testdata/one-2.2.1.pt":     "it does not contain a graph of PyTorch Geometric",
		"../../internal/torchfile/testdata/tensors-2.2.1.pt": "its graph has no edge_index; it has int64, int32",
	} {
		refused(t, filepath.Join("testdata", name), says)
	}
}

func refused(t *testing.T, source, says string) {
	t.Helper()
	importertest.Refused(t, pyg.Format, source, importer.Reading{}, says)
}

// ndarray is the pickle of an array of NumPy, of the given elements.
func ndarray(t *testing.T, dtype string, fortran bool, elements any, shape ...int) string {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, elements)
	if err != nil {
		t.Fatal(err)
	}
	dims, order := "(", "\x89"
	for _, d := range shape {
		dims += "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(d)))
	}
	if fortran {
		order = "\x88"
	}
	return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + dims + "tcnumpy\ndtype\nU\x02" + dtype +
		"\x89\x88\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb" + order + "B" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(b)))) + string(b) + "tb"
}

// saved writes a dictionary of attributes, those that are empty left out.
func saved(t *testing.T, attributes map[string]string) string {
	t.Helper()
	pickle := "\x80\x02}("
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if v := attributes[key]; v != "" {
			pickle += "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(key)))) + key + v
		}
	}
	name := filepath.Join(t.TempDir(), "g.pt")
	importertest.Save(t, name, importertest.Torch(t, pickle+"u."))
	return name
}

// TestAttributes changes one attribute of a graph of four nodes at a time.
func TestAttributes(t *testing.T) {
	ints := func(shape ...int) string {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return ndarray(t, "i8", false, make([]int64, n), shape...)
	}
	floats := func(fortran bool, shape ...int) string {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return ndarray(t, "f4", fortran, make([]float32, n), shape...)
	}
	mask := func(columns int, nodes ...int) string {
		b := make([]bool, 4*columns)
		for _, v := range nodes {
			b[v*columns] = true
		}
		if columns == 1 {
			return ndarray(t, "b1", false, b, 4)
		}
		return ndarray(t, "b1", false, b, 4, columns)
	}
	nan := float32(math.NaN())
	nanBytes := string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(nan)))
	const columns = "columns, each a division into sets: column 0, counted from 0, is used (--split-index)"
	good := map[string]string{"x": floats(false, 4, 2), "edge_index": ints(2, 3), "y": ints(4), "train_mask": mask(1, 0), "val_mask": mask(1, 1), "test_mask": mask(1, 2, 3)}
	for _, c := range []struct {
		key, value string
		says       string // what is wrong, or "" and
		note       string
	}{
		{"", "", "", ""},
		{"x", floats(false, 4), "", ""},
		{"x", floats(false, 0, 2), "x: the graph has 0 nodes; at least 1 is needed", ""},
		{"x", floats(false, 4, 0), "x: its shape is (4, 0)", ""},
		{"x", floats(false, 4, 1), "", ""},
		{"x", floats(false, 4, 2, 1), "x: its shape is (4, 2, 1)", ""},
		{"x", floats(true, 4, 2), "x: its elements are in column-major order", ""},
		{"x", "", "its graph has no x; it has edge_index, test_mask, train_mask, val_mask, y", ""},
		{"edge_index", ints(3, 2), "edges must be integers of shape (2, E), not int64 of shape (3, 2)", ""},
		{"edge_index", ints(2), "edges must be integers of shape (2, E), not int64 of shape (2,)", ""},
		{"edge_index", floats(false, 2, 3), "not float32 of shape (2, 3)", ""},
		{"edge_index", ints(2, 0), "", ""},
		{"edge_attr", floats(false, 3, 2), "", "g.pt: data of edges is not imported: edge_attr"},
		{"edge_weight", "N", "", ""},
		{"valid_mask", mask(1, 1), "", "g.pt: not read: valid_mask (a split is train_mask, val_mask, test_mask)"},
		{"train_idx", ints(1), "", "g.pt: not read: train_idx (a split is train_mask, val_mask, test_mask)"},
		{"train_time", ints(4), "", ""},
		{"y", ints(4, 1), "", ""},
		{"y", ndarray(t, "f4", false, []float32{0, nan, 1, nan}, 4), "", ""},
		{"y", ndarray(t, "f8", false, []float64{0, 0.5, 1, 2}, 4, 1), "y: node 1 has the label 0.5: labels are whole numbers", ""},
		{"y", ndarray(t, "b1", false, make([]bool, 4), 4), "", ""},
		{"y", ints(3), "y: there are labels of 3 nodes instead of 4", ""},
		{"y", ints(4, 1, 1), "y: its shape is (4, 1, 1) instead of a matrix or a vector", ""},
		{"y", ints(), "y: its shape is () instead of a matrix or a vector", ""},
		{"y", ints(4, 0), "y", ""},
		{"train_mask", "", "val_mask is a set of nodes, but there is no training set", ""},
		{"val_mask", "", "", ""},
		{"val_mask", mask(2, 1), "", "val_mask has 2 " + columns},
		{"val_mask", ndarray(t, "b1", false, make([]bool, 4), 4, 1), "", ""},
		{"val_mask", ndarray(t, "b1", false, make([]bool, 3), 3), "val_mask: the mask has 3 rows, but the graph has 4 nodes", ""},
		{"val_mask", ndarray(t, "b1", false, make([]bool, 4), 4, 1, 1), "val_mask: its shape is (4, 1, 1) instead of a matrix or a vector", ""},
		{"val_mask", ndarray(t, "b1", false, []bool{true}), "val_mask: its shape is () instead of a matrix or a vector", ""},
		{"val_mask", ndarray(t, "b1", false, []bool{}, 4, 0), "val_mask: its shape is (4, 0)", ""},
		{"val_mask", ndarray(t, "b1", true, make([]bool, 8), 4, 2), "val_mask: its elements are in column-major order", ""},
		{"val_mask", mask(1<<14, 1), "", "val_mask has 16384 " + columns},
		{"val_mask", mask(1<<14+1, 1), "val_mask: it has 16385 columns, each a division into sets, more than 16384", ""},
		{"val_mask", mask(1, 0), "val_mask: node 0 is in the train set and in the valid set", ""},
	} {
		attributes := maps.Clone(good)
		if c.key != "" {
			attributes[c.key] = c.value
		}
		files := importertest.NewFiles(datasettest.FS)
		o := importer.Options{Sources: []string{saved(t, attributes)}}
		p, err := importer.MakePlan(t.Context(), files, filepath.Join(t.TempDir(), "D"), pyg.Format, o, progress.Discard)
		if left := files.StillOpen(); err != nil || len(left) > 0 {
			t.Fatalf("%s: %v; %q are open", c.key, err, left)
		}
		if found := strings.Join(p.Problems, "; "); c.says == "" && found != "" || !strings.Contains(found, c.says) || strings.Contains(found, "\n") {
			t.Errorf("%s: %q, want %q", c.key, found, c.says)
		}
		if notes := strings.Join(p.Notes, "; "); c.says == "" && (c.note == "" && notes != "" || !strings.HasSuffix(notes, c.note)) {
			t.Errorf("%s: %q is noted, want %q", c.key, notes, c.note)
		}
		if missing := map[bool]int64{true: 2}[strings.Contains(c.value, nanBytes)]; c.says == "" && p.Unlabelled != missing {
			t.Errorf("%s: %d nodes without a label, want %d", c.key, p.Unlabelled, missing)
		}
		if c.says == "" && c.key != "edge_index" && p.Edges != 3 {
			t.Errorf("%s: %d edges", c.key, p.Edges)
		}
	}
	// Without masks and labels.
	o := importer.Reading{For: importer.ForPredict}
	s, err := pyg.Format.Open(datasettest.FS, []string{saved(t, map[string]string{"x": good["x"], "edge_index": good["edge_index"]})}, &o)
	if err != nil || s.Shape().Nodes != 4 {
		t.Error(s, err)
	}
	unsplit := map[string]string{"x": good["x"], "edge_index": good["edge_index"], "y": good["y"]}
	if s, err = pyg.Format.Open(datasettest.FS, []string{saved(t, unsplit)}, &importer.Reading{}); err != nil || !s.Shape().NoSplit {
		t.Error(s, err)
	}
	list := filepath.Join(t.TempDir(), "list.pt")
	importertest.Save(t, list, importertest.Torch(t, "\x80\x02](NNe."))
	refused(t, list, "it contains a list of 2 values, not a graph of PyTorch Geometric: save one graph by itself")
	importertest.Save(t, list, importertest.Torch(t, "\x80\x02](K\x07e."))
	refused(t, list, "list.pt: it does not contain a graph of PyTorch Geometric")
	unsplit["train_idx"] = ints(1)
	refused(t, saved(t, unsplit), "g.pt has no splits: give --split, like --split 60/20/20, to draw them; not read: train_idx (a split is train_mask, val_mask, test_mask)")
}

// TestDetect looks at names alone.
func TestDetect(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.pt", "a.txt"} {
		importertest.Save(t, filepath.Join(dir, name), nil)
	}
	for _, name := range []string{"ind.cora.y", "x.x", "cora.x"} {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		importertest.Save(t, filepath.Join(sub, name), nil) // none of Planetoid's
	}
	for name, want := range map[string]string{"a.pt": "it is a file of torch, a.pt", "a.txt": "", "b.pt": "", "ind.cora.y": "", "x.x": "", "cora.x": ""} {
		if got := pyg.Format.Detect(datasettest.FS, []string{filepath.Join(dir, name)}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestFilesGo reads a file that is not there any more.
func TestFilesGo(t *testing.T) {
	content, err := os.ReadFile("testdata/data.pt")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "g.pt")
	importertest.Save(t, name, content)
	s, err := pyg.Format.Open(datasettest.FS, []string{name}, &importer.Reading{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	_, errRows := s.Features(0)
	for _, err := range []error{errRows, s.Edges(t.Context(), func(_, _ []int64) error { return nil }), s.Labels(t.Context(), new(importer.Labelling))} {
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "g.pt is missing") {
			t.Error(err)
		}
	}
}
