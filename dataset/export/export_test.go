package export_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/export"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// generated makes a dataset.
func generated(t *testing.T, o dataset.GenerateOptions) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "D")
	if _, err := dataset.Generate(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

func run(t *testing.T, dir, format string) (out string, res export.Result) {
	t.Helper()
	d, err := dataset.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(t.TempDir(), "X")
	res, err = export.Run(t.Context(), vfs.OS, d, export.Options{Format: format, Out: out}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return out, res
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var worlds = map[string]dataset.GenerateOptions{
	"float32":    {Nodes: 300, AvgDegree: 4, Dim: 7, Classes: 3, TrainRatio: 0.4},
	"compressed": {Nodes: 300, AvgDegree: 4, Dim: 7, Classes: 3, DType: dtype.Float16, Compress: true},
	"multi":      {Nodes: 20_000, AvgDegree: 2, Dim: 3, Classes: 11, MultiLabel: true, DType: dtype.BFloat16, TrainRatio: 0.9},
}

// TestRoundTrip exports trees of GraphBolt's and imports them again: all files are the same bytes,
// but for the labels of nodes in no split. The fingerprints differ, since that of an imported dataset
// covers the files that it was imported from.
func TestRoundTrip(t *testing.T) {
	for name, o := range worlds {
		t.Run(name, func(t *testing.T) {
			dir := generated(t, o)
			tree, res := run(t, dir, export.FormatGraphBolt)
			var size int64
			entries, err := os.ReadDir(tree)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				st, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				size += st.Size()
			}
			if size != res.DiskBytes {
				t.Errorf("%d bytes are there, %d were written", size, res.DiskBytes)
			}
			again := filepath.Join(t.TempDir(), "D")
			io := importer.Options{Sources: []string{tree}, DType: o.DType}
			if _, err := importer.Import(t.Context(), datasettest.FS, again, graphbolt.Format, io, progress.Discard); err != nil {
				t.Fatal(err)
			}
			d, err := dataset.Open(vfs.OS, dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"indptr.bin", "indices.bin", "train.bin", "valid.bin", "test.bin"} {
				if !bytes.Equal(read(t, dir, file), read(t, again, file)) {
					t.Errorf("%s differs", file)
				}
			}
			f := d.Facts()
			want := make([]byte, f.Nodes*int64(f.RowBytes()))
			if err := d.ReadFeatures(t.Context(), 0, f.Nodes, want); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, read(t, again, "features.bin")) {
				t.Error("the features differ")
			}
			sameLabels(t, d, again)
		})
	}
}

// sameLabels compares the classes of the nodes in splits.
func sameLabels(t *testing.T, d *dataset.Dataset, again string) {
	t.Helper()
	a, err := dataset.Open(vfs.OS, again)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := d.Labels()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := a.Labels()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range dataset.SplitNames {
		nodes, err := d.Split(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range nodes {
			if ours[v] != theirs[v] {
				t.Fatalf("node %d has the class %d, exported %d", v, theirs[v], ours[v])
			}
		}
		x, err := d.Targets(t.Context(), nodes)
		if err != nil {
			t.Fatal(err)
		}
		y, err := a.Targets(t.Context(), nodes)
		if err != nil || !bytes.Equal(x, y) {
			t.Fatalf("the %s set has other classes: %v", name, err)
		}
	}
}

// TestArrays compares arrays with the dataset's files, byte for byte behind their headers.
func TestArrays(t *testing.T) {
	dir := generated(t, worlds["float32"])
	out, _ := run(t, dir, export.FormatNPY)
	for name, c := range map[string]struct{ file, header string }{
		"indptr":   {"indptr.bin", "'<i8', 'fortran_order': False, 'shape': (301,), }"},
		"indices":  {"indices.bin", "'<u4', 'fortran_order': False, 'shape': ("},
		"features": {"features.bin", "'<f4', 'fortran_order': False, 'shape': (300, 7), }"},
		"labels":   {"labels.bin", "'<i4', 'fortran_order': False, 'shape': (300,), }"},
		"train":    {"train.bin", "'<u4', 'fortran_order': False, 'shape': (120,), }"},
		"valid":    {"valid.bin", "'<u4'"},
		"test":     {"test.bin", "'<u4'"},
	} {
		head, elements, ok := strings.Cut(string(read(t, out, name+".npy")), "\n")
		if !ok || !strings.Contains(head, c.header) || (len(head)+1)%64 != 0 || elements != string(read(t, dir, c.file)) {
			t.Errorf("%s.npy begins with %q, and is other than %s", name, head, c.file)
		}
	}
	dir = generated(t, dataset.GenerateOptions{Nodes: 1000, AvgDegree: 1, Dim: 300, Classes: 2}) // more features than a chunk
	out, _ = run(t, dir, export.FormatNPY)
	if _, elements, _ := strings.Cut(string(read(t, out, "features.npy")), "\n"); elements != string(read(t, dir, "features.bin")) {
		t.Error("features.npy is other than features.bin")
	}
	dir = generated(t, worlds["multi"])
	out, _ = run(t, dir, export.FormatNPY)
	head, elements, _ := strings.Cut(string(read(t, out, "targets.npy")), "\n")
	if !strings.Contains(head, "'|u1', 'fortran_order': False, 'shape': (20000, 11), }") {
		t.Error(head)
	}
	for _, name := range []string{"indptr", "indices", "labels", "train", "valid", "test"} {
		if _, elements, _ := strings.Cut(string(read(t, out, name+".npy")), "\n"); elements != string(read(t, dir, name+".bin")) {
			t.Errorf("%s.npy is other than %s.bin", name, name)
		}
	}
	bits := read(t, dir, "targets.bin")
	for v := range 20000 {
		for c := range 11 {
			if elements[v*11+c] != bits[v*2+c/8]>>(c%8)&1 {
				t.Fatalf("node %d, class %d", v, c)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	dir := generated(t, worlds["float32"])
	d, err := dataset.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]struct {
		o    export.Options
		kind error
	}{
		`--format "csv" is not one of graphbolt, npy`: {export.Options{Format: "csv", Out: dir + "2"}, fault.ErrUsage},
		"exists": {export.Options{Format: "npy", Out: dir}, fault.ErrExists},
	} {
		if _, err := export.Run(t.Context(), vfs.OS, d, c.o, progress.Discard); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
	raw := datasettest.Tiny(t)
	raw.Labels, raw.Classes, raw.Train, raw.Valid, raw.Test = nil, 0, nil, nil, nil
	unlabelled := datasettest.Create(t, t.TempDir(), raw)
	if _, err := export.Run(t.Context(), vfs.OS, unlabelled, export.Options{Format: "npy", Out: dir + "2"}, progress.Discard); !errors.Is(err, fault.ErrInput) {
		t.Errorf("without labels: %v", err)
	}
	// A wrong byte of any file is found, and nothing passes for what was exported.
	for _, name := range []string{"indptr.bin", "indices.bin", "features.bin", "labels.bin", "train.bin"} {
		bad := filepath.Join(t.TempDir(), "D")
		if err := os.CopyFS(bad, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		b := read(t, bad, name)
		b[len(b)/2] ^= 4
		importertest.Save(t, filepath.Join(bad, name), b)
		d, err := dataset.Open(vfs.OS, bad)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range export.Formats() {
			out := filepath.Join(t.TempDir(), "X")
			if _, err := export.Run(t.Context(), vfs.OS, d, export.Options{Format: format, Out: out}, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, a bit changed: %v", name, err)
			}
			if _, err := os.Stat(out); err == nil {
				t.Errorf("%s, a bit changed: something was exported", name)
			}
		}
	}
}

// TestLocked has two processes that would write one directory: the second leaves what the first has.
func TestLocked(t *testing.T) {
	d, err := dataset.Open(vfs.OS, generated(t, worlds["float32"]))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := export.Options{Format: export.FormatGraphBolt, Out: filepath.Join(dir, "X")}
	first := o.Out + ".exporting"
	lock, err := vfs.OS.Lock(first + ".lock")
	if err == nil {
		err = os.Mkdir(first, 0o777)
	}
	importertest.Save(t, filepath.Join(first, "left.npy"), nil) // if the other is killed
	if err != nil {
		t.Fatal(err)
	}
	if _, err := export.Run(t.Context(), vfs.OS, d, o, progress.Discard); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("beside another: %v", err)
	}
	if _, err := os.Stat(first); err != nil {
		t.Error(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Run(t.Context(), vfs.OS, d, o, progress.Discard); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are there, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, "left.npy")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the other left is exported: %v", err)
	}
}

// TestGraphBoltLoads has GraphBolt load a tree, with the Python that the environment variable DGL
// names, and compares what it has with the dataset.
func TestGraphBoltLoads(t *testing.T) {
	python := os.Getenv("DGL")
	if python == "" {
		t.Skip("DGL names no Python with DGL 2")
	}
	for _, name := range []string{"float32", "multi"} {
		dir := generated(t, worlds[name])
		tree, _ := run(t, dir, export.FormatGraphBolt)
		// As testdata/make.py of dataset/importer/graphbolt writes it.
		cmd := exec.Command(python, "-c", `
import sys
import torch
import dgl.graphbolt as gb
dataset = gb.OnDiskDataset(sys.argv[1]).load()
graph, task = dataset.graph, dataset.tasks[0]
features = dataset.feature.read("node", None, "feat")
label, part = {}, {}
for name in ("train", "validation", "test"):
    seeds, labels = getattr(task, name + "_set")[:]
    for v, y in zip(seeds.tolist(), labels.tolist()):
        label[v], part[v] = y, name
with open(sys.argv[2], "w") as f:
    for v in range(graph.total_num_nodes):
        begin, end = graph.csc_indptr[v:v + 2].tolist()
        y = label.get(v, -1)
        print(v, " ".join(map(str, sorted(graph.indices[begin:end].tolist()))),
              " ".join(format(x, ".9g") for x in features[v].tolist()),
              " ".join(map(str, y)) if isinstance(y, list) else y, part.get(v, "-"), sep=" | ", file=f)
`, tree, tree+".txt")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		want := strings.ReplaceAll(string(read(t, filepath.Dir(tree), "X.txt")), "| validation\n", "| valid\n")
		// The dataset, without the labels that a tree has no place for.
		var got strings.Builder
		for line := range strings.Lines(importertest.Nodes(t, dir)) {
			if f := strings.Split(line, " | "); f[4] == "-\n" {
				f[3] = "-1"
				line = strings.Join(f, " | ")
			}
			got.WriteString(line)
		}
		if got.String() != want {
			t.Errorf("%s: GraphBolt loads something else:\n%.1000s, want\n%.1000s", name, want, got.String())
		}
	}
}

// TestOriginalIDs exports the ids that nodes had.
func TestOriginalIDs(t *testing.T) {
	numbers, names := datasettest.Tiny(t), datasettest.Tiny(t)
	numbers.NodeIDs = []int64{7, 1, 0, 6, 2, 5, 3, 4}
	names.Names = []string{"a", "bb", "ü", "d", "e", "f", "g", "h"}
	for _, format := range export.Formats() {
		out, _ := run(t, datasettest.Create(t, t.TempDir(), numbers).Dir(), format)
		if want := importertest.NPY("8", numbers.NodeIDs); !bytes.HasSuffix(read(t, out, "node_ids.npy"), want[len(want)-64:]) {
			t.Errorf("%s: node_ids.npy", format)
		}
		out, _ = run(t, datasettest.Create(t, t.TempDir(), names).Dir(), format)
		if got := read(t, out, "names.npy"); !bytes.HasSuffix(got, []byte("\nabbüdefgh")) {
			t.Errorf("%s: names.npy %q", format, got)
		}
		if got := read(t, out, "name_offsets.npy"); !bytes.HasSuffix(got, binio.Bytes([]int64{0, 1, 3, 5, 6, 7, 8, 9, 10})) {
			t.Errorf("%s: name_offsets.npy %q", format, got)
		}
	}
}

// TestClassNames: the names of classes lie beside the arrays.
func TestClassNames(t *testing.T) {
	raw := datasettest.Tiny(t)
	raw.ClassNames = []string{"ant", "bee"}
	dir := datasettest.Create(t, t.TempDir(), raw).Dir()
	plain := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t)).Dir()
	for _, format := range export.Formats() {
		out, res := run(t, dir, format)
		if text := string(read(t, out, "class_names.txt")); text != "ant\nbee\n" {
			t.Errorf("%s: %q", format, text)
		}
		without, other := run(t, plain, format)
		if _, err := os.Stat(filepath.Join(without, "class_names.txt")); err == nil || res.DiskBytes != other.DiskBytes+8 {
			t.Errorf("%s: %v, %d bytes and %d", format, err, res.DiskBytes, other.DiskBytes)
		}
	}
}
