package graphbolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// metadata is that of a graph of four nodes, with the lists of features and tasks.
func metadata(features, tasks string) []byte {
	return []byte("graph: {nodes: [{num: 4}], edges: [{format: csv, path: e.csv}]}\nfeature_data:\n" + features + "tasks:\n" + tasks)
}

// small has files of a graph of four nodes: seeds and labels of sets, and pairs of nodes.
func small(t *testing.T, meta []byte, more importertest.Tree) string {
	t.Helper()
	dir := t.TempDir()
	tree := importertest.Tree{
		"metadata.yaml": meta, "e.csv": []byte("0,1\n1,2\n"),
		"half.npy": importertest.Vector([]uint16{0, 0, 0, 0}), "two.npy": importertest.NPY("(4, 2)", make([]float32, 8)), "half2.npy": importertest.NPY("(4, 1)", make([]uint16, 4)),
		"s.npy": importertest.Vector([]int64{0, 3}), "l.npy": importertest.Vector([]int64{1, 0}), "column.npy": importertest.NPY("(2, 1)", []int64{0, 3}),
		"pairs.npy": importertest.NPY("(2, 2)", []int64{0, 1, 1, 2}), "s.csv": []byte("1\n2\n"), "l.csv": []byte("0\n1\n"),
		"many.npy": importertest.NPY("(2, 2)", []float32{1, 0, 0, 1}), "three.npy": importertest.NPY("(2, 3)", make([]float32, 6)), "l3.npy": importertest.NPY("(3, 2)", make([]float32, 6)),
	}
	for name, content := range more {
		tree[name] = content
	}
	tree.Write(t, dir)
	return dir
}

func numpy(name, path string) string {
	return fmt.Sprintf("  - {domain: node, name: %s, format: numpy, path: %s}\n", name, path)
}

// set is a set of a task, with seeds and perhaps labels.
func set(key, seeds, labels string) string {
	form := func(path string) string {
		if strings.HasSuffix(path, ".csv") {
			return "csv"
		}
		return "numpy"
	}
	s := fmt.Sprintf("    %s: [{data: [{name: seeds, format: %s, path: %s}", key, form(seeds), seeds)
	if labels != "" {
		s += fmt.Sprintf(", {name: labels, format: %s, path: %s}", form(labels), labels)
	}
	return s + "]}]\n"
}

func task(name string, sets ...string) string {
	return "  - name: " + name + "\n" + strings.Join(sets, "")
}

// TestTypes looks at the type and width of features side by side.
func TestTypes(t *testing.T) {
	features := numpy("half", "half.npy") + numpy("two", "two.npy") + numpy("half2", "half2.npy") + "  - {domain: edge, name: e, format: numpy, path: none.npy}\n"
	dir := small(t, metadata(features, task("a", set("train_set", "s.npy", "l.npy"))), nil)
	for _, c := range []struct {
		names string
		dim   int
		t     dtype.Type
	}{{"half", 1, dtype.Float16}, {"half,half2", 2, dtype.Float16}, {"half,two", 3, dtype.Float32}, {"two,half", 3, dtype.Float32}, {"two", 2, dtype.Float32}, {"", 4, dtype.Float32}} {
		var o importer.Reading
		if c.names != "" {
			o.Features = strings.Split(c.names, ",")
		}
		s, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &o)
		if err != nil {
			t.Fatal(err)
		}
		if sh := s.Shape(); sh.Dim != c.dim || sh.DType != c.t {
			t.Errorf("%s: %d of %s, want %d of %s", c.names, sh.Dim, sh.DType, c.dim, c.t)
		}
		if n := s.CountEdges(map[string]int64{filepath.Join(dir, "e.csv"): 2, filepath.Join(dir, "s.csv"): 2}); n != 2 {
			t.Errorf("%d edges", n)
		}
	}
}

// TestTasks picks the first of several tasks whose seeds are nodes that have labels.
func TestTasks(t *testing.T) {
	const nodes = "nodes"
	good := task(nodes, set("train_set", "s.npy", "l.npy"))
	for _, c := range []struct{ what, tasks, want string }{
		{"pairs with labels", task("pairs", set("train_set", "pairs.npy", "l.npy")) + good, nodes},
		{"no labels", task("plain", set("train_set", "s.npy", "")) + good, nodes},
		{"no seeds", "  - {name: x, train_set: [{data: [{name: labels, format: numpy, path: l.npy}]}]}\n" + good, nodes},
		{"no training set", task("late", set("test_set", "s.npy", "l.npy")) + good, nodes},
		{"a column", task("column", set("train_set", "column.npy", "l.npy")) + good, ""}, // of nodes; the first needs no choice
		{"text", task("text", set("train_set", "s.csv", "l.csv")) + good, ""},
		{"seed_nodes", strings.Replace(task("old", set("train_set", "s.npy", "l.npy")), "seeds", "seed_nodes", 1) + good, ""},
		{"the first", good + task("pairs", set("train_set", "pairs.npy", "l.npy")), ""},
	} {
		dir := small(t, metadata(numpy("feat", "two.npy"), c.tasks), nil)
		s, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		sh := s.Shape()
		if got := sh.Reading["task"]; got != c.want {
			t.Errorf("%s: the task %q, want %q", c.what, got, c.want)
		}
		if c.want != "" && (len(sh.Notes) != 1 || sh.Notes[0] != "the task is nodes, the first of 2 tasks that classifies nodes: choose another with --task") {
			t.Errorf("%s: %q", c.what, sh.Notes)
		}
		if s, err = graphbolt.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{Task: nodes}); err != nil || len(s.Shape().Notes) > 0 {
			t.Errorf("%s, named: %v", c.what, err)
		}
	}
}

// TestTasksOfLabelFeature picks a task whose labels are a feature of the nodes.
func TestTasksOfLabelFeature(t *testing.T) {
	tasks := task("pairs", set("train_set", "pairs.npy", "")) + task("nodes", set("train_set", "s.npy", ""))
	for _, c := range []struct{ shape, says string }{{"(4,)", ""}, {"(4, 1)", ""}, {"(4, 1, 1)", "l4.npy: its shape is (4, 1, 1)"}} {
		dir := small(t, metadata(numpy("feat", "two.npy")+numpy("label", "l4.npy"), tasks), importertest.Tree{"l4.npy": importertest.NPY(c.shape, make([]int64, 4))})
		s, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
		switch {
		case c.says != "":
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.shape, err)
			}
		case err != nil || s.Shape().Reading["task"] != "nodes" || s.Shape().Multi:
			t.Errorf("%s: %v, %v", c.shape, s, err)
		}
	}
}

// TestTaskOutside has a task whose seeds are outside the tree: they are not looked at.
func TestTaskOutside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "pairs.npy")
	importertest.Save(t, outside, importertest.NPY("(2, 2)", []int64{0, 1, 1, 2}))
	dir := small(t, metadata(numpy("feat", "two.npy"), task("pairs", set("train_set", outside, "l.npy"))+task("nodes", set("train_set", "s.npy", "l.npy"))), nil)
	if _, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "is not inside the directory") {
		t.Error(err)
	}
}

// TestOpenRefuses has one thing wrong at a time that is seen when a tree is opened.
func TestOpenRefuses(t *testing.T) {
	feat, good := numpy("feat", "two.npy"), task("t", set("train_set", "s.npy", "l.npy"))
	classes := func(n string, labels string) string {
		return "  - name: t\n    num_classes: " + n + "\n" + set("train_set", "s.npy", labels)
	}
	array := func(shape string, n int) importertest.Tree {
		return importertest.Tree{"two.npy": importertest.NPY(shape, make([]float32, n))}
	}
	for _, c := range []struct {
		meta []byte
		more importertest.Tree
		says string // "": nothing is wrong
	}{
		{metadata(feat, good), nil, ""},
		{metadata(feat, classes("0", "l.npy")), nil, "num_classes is 0"},
		{metadata(feat, classes("-1", "l.npy")), nil, "num_classes is -1"},
		{metadata(feat, classes("1", "l.npy")), nil, ""},
		{metadata(feat, classes("2147483647", "l.npy")), nil, ""},
		{metadata(feat, classes("2147483648", "l.npy")), nil, "num_classes is 2147483648"},
		{metadata(feat, classes("2", "many.npy")), nil, ""},
		{metadata(feat, classes("3", "many.npy")), nil, "num_classes is 3, but the labels have 2 columns"},
		{metadata(feat, "  []\n"), nil, "it has no tasks"},
		{metadata(feat, task("a", set("train_set", "pairs.npy", "l.npy"))+task("b", set("train_set", "s.npy", ""))), nil, "none of its tasks (a, b) classifies nodes"},
		{metadata(feat, task("t", set("test_set", "s.npy", "l.npy"))), nil, "the train set is empty"},
		{metadata(feat, task("t", set("train_set", "s.npy", "l.npy"), set("validation_set", "s.csv", ""))), nil, "the valid set has no seeds or no labels"},
		{metadata(feat, task("t", strings.Replace(set("train_set", "s.npy", "l.npy"), "numpy, path: l.npy", "hdf5, path: l.npy", 1))), nil, `train set: unknown format "hdf5"`},
		{metadata(feat, task("t", strings.Replace(set("train_set", "s.npy", "l.npy"), "numpy, path: s.npy", "hdf5, path: s.npy", 1))), nil, `train set: unknown format "hdf5"`},
		{metadata(feat, good), array("(4, 0)", 0), "its shape is (4, 0), but a row has 1 to"},
		{metadata(feat, good), array("(4, 2, 1)", 8), "its shape is (4, 2, 1) instead of a matrix or a vector"},
		{metadata(feat, good), array("()", 1), "its shape is () instead of a matrix or a vector"},
		{metadata(feat, good), array("(5, 2)", 10), "there are features of 5 nodes, but the graph has 4 nodes"},
		{metadata("  - {domain: edge, name: feat, format: numpy, path: two.npy}\n", good), nil, "it has no feature_data with the domain node"},
		{metadata(numpy("label", "two.npy")+numpy("y", "two.npy"), good), nil, "all its node features (label, y) have names of labels: choose features with --feature"},
		{metadata(numpy("y", "two.npy"), good), nil, ""}, // the only one
		{[]byte("graph: {nodes: [], edges: [{format: csv, path: e.csv}]}\n"), nil, "its graph has no nodes or no edges"},
		{[]byte("graph: {nodes: [{num: 4}], edges: []}\n"), nil, "its graph has no nodes or no edges"},
		{[]byte("graph: {nodes: [{num: 4}], edges: [{format: csv, path: e.csv}, {format: csv, path: e.csv}]}\n"), nil, "1 node types and 2 edge types"},
		{[]byte("graph: {nodes: [{num: 0}], edges: [{format: csv, path: e.csv}]}\n"), nil, "the graph has 0 nodes; at least 1 is needed"},
		{[]byte(strings.Replace(string(metadata(feat, good)), "num: 4", "num: 1", 1)), array("(1, 2)", 2), ""},
	} {
		s, err := graphbolt.Format.Open(datasettest.FS, []string{small(t, c.meta, c.more)}, &importer.Reading{})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.meta, err)
		case c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, %v, want %q", c.meta, s, err, c.says)
		}
	}
	for _, suffix := range []string{".tar.gz", ".tgz", ".tar", ".zip"} {
		if _, err := graphbolt.Format.Open(datasettest.FS, []string{"x" + suffix}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "x"+suffix+" is an archive: unpack it") {
			t.Errorf("%s: %v", suffix, err)
		}
	}
	dir := small(t, metadata(feat, good), nil)
	if err := os.Rename(filepath.Join(dir, "metadata.yaml"), filepath.Join(dir, "other.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "metadata.yaml is missing") {
		t.Error(err)
	}
	other := []string{filepath.Join(dir, "other.yaml")}
	if sign := graphbolt.Format.Detect(datasettest.FS, other); sign != "" {
		t.Errorf("of another name: %q", sign)
	}
	if _, err := graphbolt.Format.Open(datasettest.FS, other, &importer.Reading{}); err != nil {
		t.Errorf("of another name: %v", err)
	}
}

// TestWidest has as many features as there may be, in one table or two, and one more.
func TestWidest(t *testing.T) {
	meta := metadata(numpy("a", "a.npy")+numpy("b", "b.npy"), task("t", set("train_set", "s.npy", "l.npy")))
	meta = []byte(strings.Replace(string(meta), "num: 4", "num: 1", 1))
	for _, c := range []struct {
		a, b int64
		says string
	}{
		{dataset.MaxDim - 1, 1, ""},
		{dataset.MaxDim, 1, "b.npy: feature rows have 16777217 elements"},
		{dataset.MaxDim, 0, ""}, // a alone
		{dataset.MaxDim + 1, 0, "a.npy: its shape is (1, 16777217), but a row has 1 to 16777216 elements"},
	} {
		dir := small(t, meta, importertest.Tree{"a.npy": importertest.NPY(fmt.Sprintf("(1, %d)", c.a), []uint16{}), "b.npy": importertest.NPY("(1, 1)", []uint16{0})})
		name := filepath.Join(dir, "a.npy")
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, st.Size()+2*c.a); err != nil {
			t.Fatal(err)
		}
		o := importer.Reading{Features: []string{"a", "b"}}
		if c.b == 0 {
			o.Features = o.Features[:1]
		}
		s, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &o)
		switch {
		case c.says != "":
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d and %d: %v", c.a, c.b, err)
			}
		case err != nil:
			t.Error(err)
		case s.Shape().Dim != dataset.MaxDim:
			t.Errorf("%d and %d: %d", c.a, c.b, s.Shape().Dim)
		}
	}
}

// TestSets has labels of any number of classes, and one thing wrong with them at a time that is seen when
// they are read.
func TestSets(t *testing.T) {
	good := set("train_set", "s.npy", "many.npy")
	for _, c := range []struct{ sets, says string }{
		{good, ""},
		{good + set("test_set", "s.csv", "many.npy"), ""},
		{good + set("test_set", "s.csv", "l.csv"), "l.csv: other labels are arrays with 2 columns; this file must be one too"},
		{good + set("test_set", "s.csv", "l.npy"), "l.npy: its rows have 1 elements, but other labels have 2 columns"},
		{good + set("test_set", "s.csv", "three.npy"), "three.npy: its rows have 3 elements, but other labels have 2 columns"},
		{good + set("test_set", "s.csv", "l3.npy"), "s.csv and "},
		{good + set("test_set", "pairs.npy", "many.npy"), "pairs.npy"},
		{good + set("test_set", "column.npy", "many.npy"), "column.npy: node 0 is in the train set and in the test set"},
		{set("train_set", "pairs.npy", "l.npy"), "pairs.npy"},
		{set("train_set", "s.npy", "pairs.npy"), "pairs.npy: "},
		{set("train_set", "column.npy", "column.npy"), ""}, // of one class
	} {
		dir := small(t, metadata(numpy("feat", "two.npy"), task("t", c.sets)), nil)
		p, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), graphbolt.Format, importer.Options{Sources: []string{dir}}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Join(p.Problems, "; "); c.says == "" && found != "" || !strings.Contains(found, c.says) {
			t.Errorf("%s: %q, want %q", c.sets, found, c.says)
		}
	}
}

// TestFilesGo reads edges and features of files that are not there any more.
func TestFilesGo(t *testing.T) {
	meta := []byte(strings.Replace(string(metadata(numpy("a", "half.npy")+numpy("b", "two.npy"), task("t", set("train_set", "s.npy", "l.npy")))), "{format: csv, path: e.csv}", "{format: numpy, path: pairs.npy}", 1))
	for _, name := range []string{"pairs.npy", "half.npy", "two.npy"} {
		dir := small(t, meta, nil)
		s, err := graphbolt.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, errRows := s.Features(0)
		errEdges := s.Edges(t.Context(), func(_, _ []int64) error { return nil })
		if got := errors.Join(errRows, errEdges); !errors.Is(got, fault.ErrInput) || !strings.HasSuffix(got.Error(), name+" is missing") || strings.Contains(got.Error(), "\n") {
			t.Errorf("%s: %v", name, got)
		}
	}
}
