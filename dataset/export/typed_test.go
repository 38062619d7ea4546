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
	"diskgnn/dataset/importer/pyg"
	"diskgnn/graph"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

var typedWorlds = map[string]dataset.GenerateOptions{
	"three types":     {Nodes: 400, AvgDegree: 4, Dim: 7, Classes: 3, TrainRatio: 0.4, Types: 3},
	"without, packed": {Nodes: 400, AvgDegree: 4, Dim: 7, Classes: 3, TrainRatio: 0.4, Types: 4, Featureless: 2, DType: dtype.Float16, Compress: true},
}

func runAny(t *testing.T, dir, format string) (out string) {
	t.Helper()
	d, err := dataset.OpenAny(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(t.TempDir(), "X")
	if _, err := export.Run(t.Context(), vfs.OS, d, export.Options{Format: format, Out: out}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

// sameTyped imports an export with its types, and compares all but the labels, which GraphBolt's form does not
// have of nodes in no split.
func sameTyped(t *testing.T, f importer.Format, source, dir string, o dataset.GenerateOptions, files ...string) {
	t.Helper()
	again := filepath.Join(t.TempDir(), "D")
	io := importer.Options{Sources: []string{source}, DType: o.DType, Reading: importer.Reading{Typed: true}}
	if _, err := importer.Import(t.Context(), datasettest.FS, again, f, io, progress.Discard); err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{"indptr.bin", "indices.bin", "train.bin", "valid.bin", "test.bin"}, files...) {
		if !bytes.Equal(read(t, dir, file), read(t, again, file)) {
			t.Errorf("%s differs", file)
		}
	}
	d, err := dataset.OpenAny(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := dataset.OpenAny(vfs.OS, again)
	if err != nil {
		t.Fatal(err)
	}
	fd, fe := d.Facts(), e.Facts()
	want, got := make([]byte, fd.FeatureRows()*int64(fd.RowBytes())), make([]byte, fe.FeatureRows()*int64(fe.RowBytes()))
	if err := errors.Join(d.ReadFeatures(t.Context(), 0, fd.FeatureRows(), want), e.ReadFeatures(t.Context(), 0, fe.FeatureRows(), got)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || !fd.Types.Equal(fe.Types) || fd.LabelledType != fe.LabelledType {
		t.Errorf("the features or the types differ: %+v, %+v", fd, fe)
	}
	ids, err := d.Split(dataset.Train)
	if err != nil {
		t.Fatal(err)
	}
	ld, err := d.Labels()
	if err != nil {
		t.Fatal(err)
	}
	le, err := e.Labels()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range ids {
		if ld[v] != le[v] {
			t.Errorf("node %d has the label %d, want %d", v, le[v], ld[v])
		}
	}
}

// TestTypedRoundTrip exports typed graphs as trees of GraphBolt's and imports them again.
func TestTypedRoundTrip(t *testing.T) {
	for name, o := range typedWorlds {
		t.Run(name, func(t *testing.T) {
			dir := generated(t, o)
			sameTyped(t, graphbolt.Format, runAny(t, dir, export.FormatGraphBolt), dir, o)
		})
	}
}

// TestPyG loads exports with PyTorch Geometric, saves them, and imports the files.
func TestPyG(t *testing.T) {
	python := os.Getenv("PYG")
	if python == "" {
		t.Skip("PYG names no Python with PyTorch Geometric")
	}
	for name, o := range typedWorlds {
		dir := generated(t, o)
		tree := runAny(t, dir, export.FormatPyG)
		saved := filepath.Join(t.TempDir(), "g.pt")
		if out, err := exec.Command(python, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import load, torch; d = load.load(); d.validate(); torch.save(d, sys.argv[2])", tree, saved).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		sameTyped(t, pyg.Format, saved, dir, o, "labels.bin")
	}
	o := worlds["float32"]
	dir := generated(t, o)
	saved, again := filepath.Join(t.TempDir(), "g.pt"), filepath.Join(t.TempDir(), "D")
	if out, err := exec.Command(python, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import load, torch; torch.save(load.load(), sys.argv[2])", runAny(t, dir, export.FormatPyG), saved).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := importer.Import(t.Context(), datasettest.FS, again, pyg.Format, importer.Options{Sources: []string{saved}}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"indptr.bin", "indices.bin", "features.bin", "labels.bin", "train.bin", "valid.bin", "test.bin"} {
		if !bytes.Equal(read(t, dir, file), read(t, again, file)) {
			t.Errorf("one type: %s differs", file)
		}
	}
}

// TestTypedArrays reads an export for PyTorch Geometric by its files, of a graph of three papers, an author and
// a city, which no edge leads to.
func TestTypedArrays(t *testing.T) {
	types := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "author", Count: 1, Features: true}, {Name: "paper", Count: 3, Features: true}, {Name: "city", Count: 2}},
		Relations: []graph.Relation{{Source: 1, Name: "by", Destination: 0}, {Source: 1, Name: "cites", Destination: 1}, {Source: 2, Name: "at", Destination: 1}},
	}
	raw := dataset.Raw{
		// author: by; paper 0, 1, 2: cites, at.
		Indptr: []int64{0, 2, 3, 3, 3, 5, 5, 5}, Indices: []uint32{1, 3, 2, 4, 5},
		Types: types, LabelledType: 1, DType: dtype.Float32, Dim: 1, Features: make([]byte, 5*4),
		Labels: []int32{-1, 0, 1, -1, -1, -1}, Classes: 2, Train: []uint32{1}, Valid: []uint32{2}, Test: []uint32{},
	}
	dir := filepath.Join(t.TempDir(), "D")
	if err := dataset.Create(datasettest.FS, dir, raw); err != nil {
		t.Fatal(err)
	}
	out := runAny(t, dir, export.FormatPyG)
	for name, want := range map[string][]byte{
		"edges0.npy":     importertest.NPY("(2, 2)", []int64{0, 2, 0, 0}),
		"edges1.npy":     importertest.NPY("(2, 1)", []int64{1, 0}),
		"edges2.npy":     importertest.NPY("(2, 2)", []int64{0, 1, 1, 1}),
		"y.npy":          importertest.Vector([]int64{0, 1, -1}),
		"train_mask.npy": importertest.Vector([]bool{true, false, false}),
		"val_mask.npy":   importertest.Vector([]bool{false, true, false}),
		"test_mask.npy":  importertest.Vector([]bool{false, false, false}),
		"feat1.npy":      importertest.NPY("(3, 1)", make([]float32, 3)),
	} {
		got := read(t, out, name)
		if n := dataBytes(want); !bytes.Equal(got[max(len(got)-n, 0):], want[len(want)-n:]) {
			t.Errorf("%s: %v, want the last %d bytes of %v", name, got, n, want)
		}
	}
	raw.Types.Relations[1].Name = "a:b"
	colon := filepath.Join(t.TempDir(), "D")
	if err := dataset.Create(datasettest.FS, colon, raw); err != nil {
		t.Fatal(err)
	}
	d, err := dataset.OpenAny(vfs.OS, colon)
	if err != nil {
		t.Fatal(err)
	}
	_, err = export.Run(t.Context(), vfs.OS, d, export.Options{Format: export.FormatGraphBolt, Out: filepath.Join(t.TempDir(), "X")}, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), `the name "a:b" has a colon`) {
		t.Error(err)
	}
	if text := string(read(t, out, "graph.json")); !strings.Contains(text, `"name": "city"`) || strings.Contains(text, "feat2.npy") {
		t.Errorf("%s", text)
	}
}

// dataBytes returns the bytes of the elements of a file of importertest.NPY.
func dataBytes(npy []byte) int { return len(npy) - 10 - int(npy[8]) - int(npy[9])<<8 }

func TestTypedRefused(t *testing.T) {
	dir := generated(t, typedWorlds["three types"])
	d, err := dataset.OpenAny(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = export.Run(t.Context(), vfs.OS, d, export.Options{Format: export.FormatNPY, Out: filepath.Join(t.TempDir(), "X")}, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "give --format graphbolt or pyg") {
		t.Error(err)
	}
}
