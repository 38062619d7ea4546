package all_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/gnnbenchmark"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/internal/stage/stagetest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// messages keeps what a stage logs.
type messages struct {
	progress.Reporter
	lines []string
}

func (m *messages) Logf(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

// contents compares a dataset's files with what they should be.
func contents(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	datasettest.Verified(t, dir)
	f := stagetest.Files(t, dir)
	for name, b := range want {
		if !bytes.Equal([]byte(f[name]), b) {
			t.Errorf("%s is % x, want % x", name, f[name], b)
		}
	}
}

// options are those of an import, with the format.
type options struct {
	Format string
	importer.Options
}

func importAs(ctx context.Context, fsys vfs.FS, out string, o options, rep progress.Reporter) (dataset.Result, error) {
	return all.Import(ctx, fsys, out, o.Format, o.Options, rep)
}

func benchmarkOptions(dir string) options {
	return options{gnnbenchmark.Name, importer.Options{Sources: []string{filepath.Join(dir, "g.npz")}}}
}

func boltOptions(dir string) options {
	return options{graphbolt.Name, importer.Options{Sources: []string{dir}}}
}

func TestImportGNNBenchmark(t *testing.T) {
	dir := t.TempDir()
	benchmarkTree().Write(t, dir)
	out := filepath.Join(dir, "D")
	log := &messages{Reporter: progress.Discard}
	o := benchmarkOptions(dir)
	res, err := importAs(t.Context(), datasettest.FS, out, o, log)
	if err != nil {
		t.Fatal(err)
	}
	if res.Edges != 6 || res.Classes != 3 || res.Unlabelled != 1 || res.State != "new" {
		t.Errorf("result %+v", res)
	}
	contents(t, out, map[string][]byte{
		"indptr.bin":   binio.Bytes([]int64{0, 2, 3, 4, 5, 6}),
		"indices.bin":  binio.Bytes([]uint32{1, 2, 0, 0, 4, 3}),
		"features.bin": binio.Bytes([]float32{6, 0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0}),
		"labels.bin":   binio.Bytes([]int32{0, 2, 1, -1, 0}),
		"train.bin":    binio.Bytes([]uint32{0, 4}),
		"valid.bin":    binio.Bytes([]uint32{2}),
		"test.bin":     binio.Bytes([]uint32{1}),
	})
	if want := "left out 1 nodes without a label from the train set"; len(log.lines) != 1 || log.lines[0] != want {
		t.Errorf("logged %q, want %q", log.lines, want)
	}

	o.Binarize, o.RowNormalize, o.DType = true, true, dtype.BFloat16
	out = filepath.Join(dir, "E")
	if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	const half, one = 0x3F00, 0x3F80
	contents(t, out, map[string][]byte{
		"features.bin": binio.Bytes([]uint16{half, 0, half, 0, one, 0, 0, 0, 0, 0, one, 0, one, 0, 0}),
	})
}

// TestFindInside: a directory with a graph of gnn-benchmark is no source, but its file is named.
func TestFindInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "raw"), 0o777); err != nil {
		t.Fatal(err)
	}
	benchmarkTree().Write(t, filepath.Join(dir, "raw"))
	file := filepath.Join(dir, "raw", "g.npz")
	for _, source := range []string{dir, filepath.Dir(file)} {
		if _, _, err := all.Find(datasettest.FS, all.Auto, []string{source}); err == nil || !strings.HasSuffix(err.Error(), ", or import its file "+file) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestImportWithoutSplit draws the split that public gnn-benchmark files lack.
func TestImportWithoutSplit(t *testing.T) {
	dir := t.TempDir()
	tr := benchmarkTree()
	maps.DeleteFunc(tr, func(n string, _ []byte) bool { return strings.HasPrefix(n, "g_split") })
	tr.Write(t, dir)
	o := benchmarkOptions(dir)
	o.Split = &importer.Split{Parts: "50/25/25", Seed: 1}
	out := filepath.Join(dir, "D")
	res, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard)
	if err != nil || res.Train != 2 || res.Valid != 1 || res.Test != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	datasettest.Verified(t, out)
	o.Split = &importer.Split{Parts: "50/25/25", Seed: 2}
	if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--seed was 1, now 2") {
		t.Errorf("another seed: %v", err)
	}
	tr = benchmarkTree()
	tr.Write(t, dir)
	if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "has splits of its own") {
		t.Errorf("a split of its own: %v", err)
	}
}

func TestImportDense(t *testing.T) {
	dir := t.TempDir()
	tr := benchmarkTree()
	for _, key := range []string{"data", "indptr", "indices", "shape"} {
		delete(tr, "g.npz/attr_"+key)
	}
	tr["g.npz/attr_matrix"] = npyFile("(5, 2)", []uint16{0x3C00, 0, 0xC000, 0x3800, 0, 0, 1, 2, 3, 0x7BFF}) // float16
	tr.Write(t, dir)
	out := filepath.Join(dir, "D")
	if _, err := importAs(t.Context(), datasettest.FS, out, benchmarkOptions(dir), progress.Discard); err != nil {
		t.Fatal(err)
	}
	if d := datasettest.Verified(t, out); d.Facts().DType != dtype.Float16 {
		t.Errorf("float16 features became %s", d.Facts().DType)
	}
	contents(t, out, map[string][]byte{"features.bin": binio.Bytes([]uint16{0x3C00, 0, 0xC000, 0x3800, 0, 0, 1, 2, 3, 0x7BFF})})
}

func TestImportGraphBolt(t *testing.T) {
	want := map[string][]byte{
		"indptr.bin":   binio.Bytes([]int64{0, 3, 4, 5, 5}),
		"indices.bin":  binio.Bytes([]uint32{1, 1, 3, 0, 2}),
		"features.bin": binio.Bytes([]float32{1, 2, 3, 4, -5, 6, 0, 8}),
		"labels.bin":   binio.Bytes([]int32{2, 2, 1, 0}),
		"train.bin":    binio.Bytes([]uint32{0, 2}),
		"valid.bin":    binio.Bytes([]uint32{3}),
		"test.bin":     binio.Bytes([]uint32{1}),
	}
	csv := func(tr tree) {
		tr["metadata.yaml"] = bytes.Replace(tr["metadata.yaml"], []byte("{format: numpy, path: edges.npy}"), []byte("{format: csv, path: edges.csv}"), 1)
	}
	for name, change := range map[string]func(tree){
		"numpy":   func(tree) {},
		"fortran": func(tr tree) { tr["edges.npy"] = npyOrder("(2, 5)", true, []int32{3, 0, 0, 1, 1, 0, 1, 0, 2, 2}) },
		"csv":     func(tr tree) { csv(tr); tr["edges.csv"] = []byte("3,0\n0,1\n1,0\n1,0\n2,2\n") },
		"csv, loosely": func(tr tree) {
			csv(tr)
			tr["edges.csv"] = []byte("3, 0\r\n\r\n 0,1\r\n1,0\n1 ,0\n2,2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tr := boltTree()
			change(tr)
			tr.Write(t, dir)
			out := filepath.Join(dir, "D")
			res, err := importAs(t.Context(), datasettest.FS, out, boltOptions(dir), progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if res.Classes != 3 || res.Edges != 5 {
				t.Errorf("result %+v", res)
			}
			contents(t, out, want)
		})
	}
	dir := t.TempDir()
	boltTree().Write(t, dir)
	o := boltOptions(filepath.Join(dir, "metadata.yaml"))
	o.Symmetrize = true
	out := filepath.Join(dir, "D")
	if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	contents(t, out, map[string][]byte{
		"indptr.bin":  binio.Bytes([]int64{0, 2, 3, 3, 4}),
		"indices.bin": binio.Bytes([]uint32{1, 3, 0, 0}),
	})
}

// TestImportAgain checks that lineage follows the source's content, not its
// place.
func TestImportAgain(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	boltTree().Write(t, dir)
	boltTree().Write(t, other)
	out := filepath.Join(dir, "D")
	first, err := importAs(t.Context(), datasettest.FS, out, boltOptions(dir), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again, err := importAs(t.Context(), datasettest.FS, out, boltOptions(other), progress.Discard)
	if err != nil || again.State != "done" || again.Fingerprint != first.Fingerprint {
		t.Errorf("from a copy: %+v, %v", again, err)
	}
	tr := boltTree()
	tr["valid_labels.csv"] = []byte("1")
	tr.Write(t, other)
	if _, err := importAs(t.Context(), datasettest.FS, out, boltOptions(other), progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "the content of the source was ") {
		t.Errorf("from another source: %v", err)
	}
}

// TestImportRefuses changes one thing of a good source at a time.
func TestImportRefuses(t *testing.T) {
	nan := float32(math.NaN())
	replace := func(name, old, new string) func(tree) {
		return func(tr tree) {
			if !bytes.Contains(tr[name], []byte(old)) {
				panic(old)
			}
			tr[name] = bytes.Replace(tr[name], []byte(old), []byte(new), 1)
		}
	}
	set := func(name string, content []byte) func(tree) { return func(tr tree) { tr[name] = content } }
	cut := func(name string) func(tree) {
		return func(tr tree) { tr[name] = tr[name][:len(tr[name])-1] }
	}
	for _, c := range []struct {
		what   string
		tree   tree
		change func(tree)
		says   []string
	}{
		{"no split file", benchmarkTree(), func(tr tree) {
			maps.DeleteFunc(tr, func(n string, _ []byte) bool { return strings.HasPrefix(n, "g_split") })
		}, []string{"g.npz has no splits", "--split 60/20/20"}},
		{"an array missing", benchmarkTree(), set("g.npz/attr_indices", nil), []string{"g.npz", "attr_indices"}},
		{"labels missing", benchmarkTree(), set("g.npz/labels", nil), []string{"g.npz", "labels"}},
		{"not an archive", benchmarkTree(), func(tr tree) {
			maps.DeleteFunc(tr, func(n string, _ []byte) bool { return strings.HasPrefix(n, "g.npz") })
			tr["g.npz"] = []byte("hello")
		}, []string{"g.npz", "archive"}},
		{"a truncated array", benchmarkTree(), cut("g.npz/attr_data"), []string{"g.npz: attr_data", "truncated"}},
		{"truncated labels", benchmarkTree(), cut("g.npz/labels"), []string{"g.npz: labels", "truncated"}},
		{"labels of halves", benchmarkTree(), set("g.npz/labels", vector([]float32{0, 1, 0.5, 0, 1})), []string{"g.npz: labels", "node 2 has the label 0.5: labels are whole numbers"}},
		{"labels of floats, too few", benchmarkTree(), set("g.npz/labels", vector([]float32{0, 1, 2, 0})), []string{"g.npz: labels", "there are labels of 4 nodes instead of 5"}},
		{"too few labels", benchmarkTree(), set("g.npz/labels", vector([]int64{0, 1, 2})), []string{"g.npz: labels", "of 3 nodes"}},
		{"a label below -1", benchmarkTree(), set("g.npz/labels", vector([]int64{0, 1, -2, 0, 1})), []string{"labels", "node 2", "-2"}},
		{"an edge out of range", benchmarkTree(), set("g.npz/adj_indices", vector([]int32{1, 2, 0, 5, 3, 3})), []string{"g.npz: adj_indices", "from 5 to 2"}},
		{"a negative edge", benchmarkTree(), set("g.npz/adj_indices", vector([]int32{1, 2, 0, -1, 3, 3})), []string{"g.npz: adj_indices", "-1"}},
		{"a descending indptr", benchmarkTree(), set("g.npz/adj_indptr", vector([]int32{0, 3, 2, 4, 4, 6})), []string{"adj_indptr", "offset 2 follows offset 3, which is wrong for 6 entries"}},
		{"a short indptr", benchmarkTree(), set("g.npz/adj_indptr", vector([]int32{0, 3, 6})), []string{"adj_indptr", "(3,)"}},
		{"an indptr that ends early", benchmarkTree(), set("g.npz/adj_indptr", vector([]int32{0, 2, 3, 4, 4, 5})), []string{"adj_indptr", "offset 5"}},
		{"an adjacency that is not square", benchmarkTree(), set("g.npz/adj_shape", vector([]int64{5, 4})), []string{"adj_shape", "5 × 4"}},
		{"features of other nodes", benchmarkTree(), set("g.npz/attr_shape", vector([]int64{6, 3})), []string{"attr_indptr", "(6,) instead of (7,)"}},
		{"no features", benchmarkTree(), set("g.npz/attr_shape", vector([]int64{5, 0})), []string{"g.npz", "rows have 0 elements instead of 1 to 16777216"}},
		{"a feature column out of range", benchmarkTree(), set("g.npz/attr_indices", vector([]int32{2, 0, 3, 1, 1, 0})), []string{"attr_shape", "column 3"}},
		{"NaN", benchmarkTree(), set("g.npz/attr_data", vector([]float32{2, 6, nan, 0.5, 0.5, 3})), []string{"g.npz", "feature 1 of node 1", "NaN"}},
		{"infinity", benchmarkTree(), set("g.npz/attr_data", vector([]float64{2, 6, 1, 0.5, 1e39, 3})), []string{"g.npz", "feature 1 of node 3", "+Inf"}},
		{"more nodes than ids", benchmarkTree(), set("g.npz/adj_shape", vector([]int64{1<<32 + 1, 1<<32 + 1})), []string{"g.npz", "4294967297", "32-bit"}},
		{"overlapping splits", benchmarkTree(), set("g_split.npz/test", vector([]int64{1, 4})), []string{"g_split.npz: test", "in the train set and in the test set", "node 4"}},
		{"a node twice in a split", benchmarkTree(), set("g_split.npz/test", vector([]int64{1, 1})), []string{"g_split.npz: test", "twice"}},
		{"a split node out of range", benchmarkTree(), set("g_split.npz/test", vector([]int64{5})), []string{"g_split.npz: test", "the test set has node 5, but there are only 5 nodes"}},
		{"an empty training set", benchmarkTree(), set("g_split.npz/train", vector([]int64{})), []string{"g.npz", "train set is empty"}},
		{"an unlabelled training set", benchmarkTree(), set("g_split.npz/train", vector([]int64{3})), []string{"g.npz", "train set is empty"}},

		{"no metadata", boltTree(), set("metadata.yaml", nil), []string{"metadata.yaml", "missing"}},
		{"not YAML", boltTree(), set("metadata.yaml", []byte("graph: [1, 2\nb: }")), []string{"metadata.yaml"}},
		{"another document", boltTree(), set("metadata.yaml", []byte("hello: world\n")), []string{"metadata.yaml", "graph"}},
		{"several node types", boltTree(), replace("metadata.yaml", "    - num: 4\n", "    - {type: a, num: 4}\n    - {type: b, num: 4}\n"), []string{"metadata.yaml", "2 node types"}},
		{"no nodes", boltTree(), replace("metadata.yaml", "num: 4", "num: 0"), []string{"metadata.yaml", "0 nodes"}},
		{"too many nodes", boltTree(), replace("metadata.yaml", "num: 4", "num: 5000000000"), []string{"metadata.yaml", "32-bit"}},
		{"a format of the edges", boltTree(), replace("metadata.yaml", "numpy, path: edges", "parquet, path: edges"), []string{"metadata.yaml", "edges", "parquet"}},
		{"features of HDF5", boltTree(), replace("metadata.yaml", "name: feat, format: numpy", "name: feat, format: hdf5"), []string{"metadata.yaml", "features", "hdf5"}},
		{"features that are no file of torch", boltTree(), replace("metadata.yaml", "name: feat, format: numpy", "name: feat, format: torch"), []string{"feat.npy", "not an archive of torch.save"}},
		{"features that are missing", boltTree(), replace("metadata.yaml", "name: feat,", "name: x,"), []string{"nosuch.npy", "missing"}},
		{"features twice", boltTree(), replace("metadata.yaml", "name: year,", "name: feat,"), []string{"metadata.yaml", "feat, feat"}},
		{"a path outside", boltTree(), replace("metadata.yaml", "path: edges.npy", "path: ../edges.npy"), []string{"metadata.yaml", "../edges.npy"}},
		{"too many classes", boltTree(), replace("metadata.yaml", "num_classes: 3", "num_classes: 3000000000"), []string{"metadata.yaml", "num_classes is 3000000000"}},
		{"no tasks", boltTree(), replace("metadata.yaml", "tasks:", "chores:"), []string{"metadata.yaml", "tasks"}},
		{"a set without labels", boltTree(), replace("metadata.yaml", "{name: labels, format: csv", "{name: lables, format: csv"), []string{"metadata.yaml", "valid set", "labels"}},
		{"missing edges", boltTree(), set("edges.npy", nil), []string{"edges.npy", "missing"}},
		{"missing labels", boltTree(), set("test_labels.npy", nil), []string{"test_labels.npy", "missing"}},
		{"truncated edges", boltTree(), cut("edges.npy"), []string{"edges.npy", "truncated"}},
		{"edges with a tail", boltTree(), set("edges.npy", npyFile("(2, 1)", make([]int64, 3))), []string{"edges.npy", "bytes, but a header and an array of int64 of shape (2, 1) have"}},
		{"edges of shape [E, 2]", boltTree(), set("edges.npy", npyFile("(5, 2)", make([]int64, 10))), []string{"edges.npy", "(5, 2)", "(2, E)"}},
		{"edges of floats", boltTree(), set("edges.npy", npyFile("(2, 5)", make([]float32, 10))), []string{"edges.npy", "float32"}},
		{"an edge out of range (numpy)", boltTree(), set("edges.npy", npyFile("(2, 1)", []int64{4, 0})), []string{"edges.npy", "from 4 to 0"}},
		{"truncated features", boltTree(), cut("feat.npy"), []string{"feat.npy", "truncated"}},
		{"features of other nodes (numpy)", boltTree(), set("feat.npy", npyFile("(3, 2)", make([]float32, 6))), []string{"feat.npy", "features of 3 nodes"}},
		{"features by columns", boltTree(), set("feat.npy", npyOrder("(4, 2)", true, make([]float32, 8))), []string{"feat.npy", "fortran_order"}},
		{"NaN (numpy)", boltTree(), set("feat.npy", npyFile("(4, 2)", []float32{1, 2, 3, 4, 5, nan, 7, 8})), []string{"feat.npy", "feature 1 of node 2"}},
		{"a label out of range", boltTree(), set("train_labels.npy", vector([]int64{1, 3})), []string{"train_labels.npy", "label 3", "3 classes"}},
		{"seeds without labels", boltTree(), set("train_labels.npy", vector([]int64{1})), []string{"train.npy", "train_labels.npy", "have different lengths"}},
		{"overlapping splits (csv)", boltTree(), set("valid.csv", []byte("2\n")), []string{"valid.csv", "in the train set and in the valid set"}},
		{"words in a csv", boltTree(), set("valid.csv", []byte("three\n")), []string{"valid.csv", "line 1", "three"}},
		{"two columns in a csv", boltTree(), set("valid.csv", []byte("1,2\n")), []string{"valid.csv", "line 1"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			c.change(c.tree)
			c.tree.Write(t, dir)
			o := boltOptions(dir)
			if _, ok := c.tree["metadata.yaml"]; !ok {
				o = benchmarkOptions(dir)
			}
			out := filepath.Join(dir, "D")
			_, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard)
			if !errors.Is(err, fault.ErrInput) {
				t.Fatalf("%v; want bad input", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than one line", err)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something passes for a dataset")
			}
		})
	}
}

func TestImportOptions(t *testing.T) {
	dir := t.TempDir()
	boltTree().Write(t, dir)
	out := filepath.Join(dir, "D")
	for what, c := range map[string]struct {
		change func(*options)
		kind   error
	}{
		`--format "xml"`:                     {func(o *options) { o.Format = "xml" }, fault.ErrUsage},
		"--dtype int8":                       {func(o *options) { o.DType = dtype.Int8 }, fault.ErrUsage},
		"unpack it":                          {func(o *options) { o.Sources = []string{"x.tar.gz"} }, fault.ErrInput},
		"nosuch":                             {func(o *options) { o.Sources = []string{filepath.Join(dir, "nosuch")} }, fault.ErrInput},
		"negative":                           {func(o *options) { o.RowNormalize = true }, fault.ErrInput},
		"--memory":                           {func(o *options) { o.Memory = 1 << 20 }, fault.ErrBudget},
		"import: needs a source, or --edges": {func(o *options) { o.Sources = nil }, fault.ErrUsage},
		"is a file NAME.npz with the arrays adj_*, attr_* and labels": {func(o *options) { o.Format = gnnbenchmark.Name }, fault.ErrInput},
	} {
		o := boltOptions(dir)
		c.change(&o)
		_, err := importAs(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	o := boltOptions(dir)
	for _, c := range []struct {
		to     dtype.Type
		beyond float32
		use    string
	}{
		{dtype.Float16, 65520, "bfloat16 or --dtype float32"},
		{dtype.BFloat16, -math.MaxFloat32, "float32"},
	} {
		tr := boltTree()
		tr["feat.npy"] = npyFile("(4,)", []float32{1, 2, 3, c.beyond})
		tr.Write(t, dir)
		o.DType = c.to
		if _, err := importAs(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), o, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.HasSuffix(err.Error(), ": give --dtype "+c.use) {
			t.Errorf("a value beyond %s: %v", c.to, err)
		}
	}
	o.DType = ""
	if _, err := importAs(t.Context(), datasettest.FreeSpace{FS: datasettest.FS, Bytes: 10}, out, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("no room: %v", err)
	}
	if res, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil || res.Dim != 1 {
		t.Errorf("features of one dimension: %+v, %v", res, err)
	}
}

// TestImportNotices damages an archive's compressed bytes: its own checksums
// tell.
func TestImportNotices(t *testing.T) {
	t.Run("sparse", func(t *testing.T) { importNotices(t, benchmarkTree()) })
	dense := benchmarkTree()
	for _, n := range []string{"data", "indices", "indptr", "shape"} {
		delete(dense, "g.npz/attr_"+n)
	}
	dense["g.npz/attr_matrix"] = npyFile("(5, 1)", []float32{1, 2, 3, 4, 5})
	t.Run("dense", func(t *testing.T) { importNotices(t, dense) })
}

func importNotices(t *testing.T, tr tree) {
	dir := vfstest.TempDir(t)
	tr.Write(t, dir)
	name := filepath.Join(dir, "g.npz")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ref := filepath.Join(dir, "ref")
	if _, err := importAs(t.Context(), datasettest.FS, ref, benchmarkOptions(dir), progress.Discard); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(good); i += 5 {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		save(t, name, bad)
		out := filepath.Join(dir, fmt.Sprint(i))
		_, err := importAs(t.Context(), datasettest.FS, out, benchmarkOptions(dir), progress.Discard)
		if err != nil {
			if !errors.Is(err, fault.ErrInput) {
				t.Errorf("byte %d: %v", i, err)
			}
			continue
		}
		// Not everything in an archive matters: names of unused members, dates,
		// adj_data. What was read must be right.
		a, b := stagetest.Files(t, ref), stagetest.Files(t, out)
		for n, content := range a {
			if n != "meta.json" && b[n] != content {
				t.Errorf("byte %d: %s differs unnoticed", i, n)
			}
		}
	}
}

// TestImportBombs reads metadata that stand for gigabytes.
func TestImportBombs(t *testing.T) {
	good := string(boltTree()["metadata.yaml"])
	for name, c := range map[string]struct{ text, says string }{
		"brackets":   {good + "more: " + strings.Repeat("[", 40_000), "nested more than 64 deep"},
		"long":       {good + strings.Repeat("# and so on\n", 10_000), "is larger than 64.0 KiB"},
		"merge keys": {good + "a: &a\n  <<: *a\n", "merge keys"},
		"laughs":     {"a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n" + good, "more than 100000 values"},
	} {
		dir := vfstest.TempDir(t)
		tr := boltTree()
		tr["metadata.yaml"] = []byte(c.text)
		tr.Write(t, dir)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "D"), boltOptions(dir), progress.Discard)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "metadata.yaml") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: %d MiB were allocated", name, n>>20)
		}
	}
}

// TestImportMoreThanShape has archives whose members go on behind what their shapes call
// for: nothing checked what came before.
func TestImportMoreThanShape(t *testing.T) {
	for _, name := range []string{"g.npz/labels", "g.npz/attr_data", "g.npz/attr_indices", "g.npz/attr_indptr", "g.npz/adj_indices", "g.npz/adj_indptr", "g.npz/adj_shape", "g_split.npz/train"} {
		dir := vfstest.TempDir(t)
		tr := benchmarkTree()
		tr[name] = append(bytes.Clone(tr[name]), 0)
		tr.Write(t, dir)
		_, key, _ := strings.Cut(name, "/")
		_, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "D"), benchmarkOptions(dir), progress.Discard)
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), key+": it has more bytes than its shape") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// largeBolt is a source of several blocks of everything.
func largeBolt() tree {
	const nodes, edges, dim = 3000, 40_000, 150
	src := rng.New(77)
	ends := make([]int32, 2*edges)
	for i := range ends {
		ends[i] = int32(src.Float64() * src.Float64() * nodes)
	}
	feat := make([]float32, nodes*dim)
	for i := range feat {
		feat[i] = float32(src.Float64())
	}
	tr := boltTree()
	tr["metadata.yaml"] = bytes.Replace(tr["metadata.yaml"], []byte("num: 4"), []byte(fmt.Sprint("num: ", nodes)), 1)
	tr["edges.npy"] = npyFile(fmt.Sprintf("(2, %d)", edges), ends)
	tr["feat.npy"] = npyFile(fmt.Sprintf("(%d, %d)", nodes, dim), feat)
	return tr
}

func TestImportTwice(t *testing.T) {
	dir := t.TempDir()
	largeBolt().Write(t, dir)
	ref := filepath.Join(dir, "ref")
	o := boltOptions(dir)
	o.Symmetrize = true
	if _, err := importAs(t.Context(), datasettest.FS, ref, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	datasettest.Verified(t, ref)
	for i, use := range []dataset.Resources{{Workers: 1}, {Workers: 2, Memory: 8 << 30}, {Workers: 7, Memory: 256 << 20}, {Workers: 3, Memory: 40 << 20}} {
		o.Resources = use
		out := filepath.Join(dir, fmt.Sprint(i))
		if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		datasettest.Same(t, ref, out)
	}
}

// TestImportFailures fails every operation of both formats in turn.
func TestImportFailures(t *testing.T) {
	dir := t.TempDir()
	benchmarkTree().Write(t, dir)
	boltTree().Write(t, dir)
	for _, c := range []struct {
		o     options
		after []bool
	}{
		{boltOptions(dir), []bool{false, true}},
		{benchmarkOptions(dir), []bool{true}}, // writes the same way
	} {
		t.Run(c.o.Format, func(t *testing.T) {
			datasettest.EveryFailure(t, c.after, func(fsys vfs.FS, out string) error {
				_, err := importAs(t.Context(), fsys, out, c.o, progress.Discard)
				return err
			})
		})
	}
}

func TestImportCancel(t *testing.T) {
	dir := t.TempDir()
	largeBolt().Write(t, dir)
	ref, out := filepath.Join(dir, "ref"), filepath.Join(dir, "out")
	if _, err := importAs(t.Context(), datasettest.FS, ref, boltOptions(dir), progress.Discard); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 20; n += 2 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := importAs(ctx, vfs.Inject(datasettest.FS, &datasettest.CancelAt{N: n, Cancel: cancel}), out, boltOptions(dir), progress.Discard)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at write %d: %v", n, err)
		}
	}
	if _, err := importAs(t.Context(), datasettest.FS, out, boltOptions(dir), progress.Discard); err != nil {
		t.Fatal(err)
	}
	datasettest.Same(t, ref, out)
}

// TestImportSymmetric checks the properties of a symmetrised graph.
func TestImportSymmetric(t *testing.T) {
	memory := vfstest.TempDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(4, 40).Draw(rt, "nodes")
		ends := rapid.SliceOfN(rapid.Int32Range(0, int32(nodes-1)), 2, 100).Draw(rt, "ends")
		ends = ends[:len(ends)&^1]
		dir, err := os.MkdirTemp(memory, "")
		if err != nil {
			rt.Fatal(err)
		}
		tr := boltTree()
		tr["metadata.yaml"] = bytes.Replace(tr["metadata.yaml"], []byte("num: 4"), []byte(fmt.Sprint("num: ", nodes)), 1)
		tr["edges.npy"] = npyFile(fmt.Sprintf("(2, %d)", len(ends)/2), ends)
		tr["feat.npy"] = npyFile(fmt.Sprintf("(%d,)", nodes), make([]float32, nodes))
		tr.Write(t, dir)
		o := boltOptions(dir)
		o.Symmetrize = true
		out := filepath.Join(dir, "D")
		if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil {
			rt.Fatal(err)
		}
		want := map[[2]uint32]bool{}
		for i := range len(ends) / 2 {
			a, b := uint32(ends[i]), uint32(ends[len(ends)/2+i])
			if a != b {
				want[[2]uint32{a, b}], want[[2]uint32{b, a}] = true, true
			}
		}
		top, err := datasettest.Verified(t, out).Topology(t.Context(), progress.Discard, 1)
		if err != nil {
			rt.Fatal(err)
		}
		defer top.Close()
		got := map[[2]uint32]bool{}
		for v := range uint32(nodes) {
			for _, u := range top.Neighbors(v) {
				got[[2]uint32{u, v}] = true
			}
		}
		if d := cmp.Diff(want, got); d != "" || len(top.Indices) != len(want) {
			rt.Error(d)
		}
	})
}

func TestImportFlippedBytes(t *testing.T) {
	dir := vfstest.TempDir(t)
	benchmarkTree().Write(t, dir)
	boltTree().Write(t, dir)
	for _, o := range []options{boltOptions(dir), benchmarkOptions(dir)} {
		datasettest.FlippedBytes(t, func(fsys vfs.FS, out string, force bool) error {
			o.Force = force
			_, err := importAs(t.Context(), fsys, out, o, progress.Discard)
			return err
		})
	}
}
