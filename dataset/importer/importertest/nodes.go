package importertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// SameNodes compares a dataset with a golden file in the form of Nodes. The golden may call the split
// valid by a library's name, val or validation.
func SameNodes(t testing.TB, dir, golden string) {
	t.Helper()
	if got, want := Nodes(t, dir), GoldenNodes(t, golden); got != want {
		t.Errorf("imported\n%s, want that of %s\n%s", got, golden, want)
	}
}

// GoldenNodes returns the text of such a golden.
func GoldenNodes(t testing.TB, golden string) string {
	t.Helper()
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("| val\n", "| valid\n", "| validation\n", "| valid\n").Replace(string(want))
}

// Nodes describes a dataset in text, a line per node: the node, its in-neighbours in ascending order,
// its features, its class or, of any number of classes, a one or zero for each, and the split that it
// is in, or -. Scripts that make fixtures write the graph that a format's own library loads in this
// form. The dataset's sums are checked first.
func Nodes(t testing.TB, dir string) string {
	t.Helper()
	d, err := dataset.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(t.Context(), progress.Discard, 1); err != nil {
		t.Fatal(err)
	}
	f := d.Facts()
	split := map[uint32]string{}
	for _, name := range dataset.SplitNames {
		for _, v := range binio.View[uint32](read(t, dir, dataset.SplitFile(name))) {
			split[v] = name
		}
	}
	indptr, indices := binio.View[int64](read(t, dir, dataset.IndptrFile)), binio.View[uint32](read(t, dir, dataset.IndicesFile))
	features := make([]float32, f.Nodes*int64(f.Dim))
	dtype.Convert(binio.Bytes(features), dtype.Float32, read(t, dir, dataset.FeaturesFile), f.DType)
	labels := binio.View[int32](read(t, dir, dataset.LabelsFile))
	var targets []byte
	if f.LabelKind != "class" {
		targets = read(t, dir, dataset.TargetsFile)
	}
	var b strings.Builder
	for v := range f.Nodes {
		var near, row, class []string
		for _, u := range indices[indptr[v]:indptr[v+1]] {
			near = append(near, strconv.FormatUint(uint64(u), 10))
		}
		for _, x := range features[v*int64(f.Dim):][:f.Dim] {
			row = append(row, strconv.FormatFloat(float64(x), 'g', 9, 64))
		}
		class = []string{strconv.Itoa(int(labels[v]))}
		if n := int64(graph.TargetBytes(f.Classes)); targets != nil && labels[v] != graph.Unlabelled {
			class = nil
			for c := range f.Classes {
				class = append(class, strconv.Itoa(int(targets[v*n:][c/8]>>(c%8)&1)))
			}
		}
		part, ok := split[uint32(v)]
		if !ok {
			part = "-"
		}
		fmt.Fprintf(&b, "%d | %s | %s | %s | %s\n", v, strings.Join(near, " "), strings.Join(row, " "), strings.Join(class, " "), part)
	}
	return b.String()
}

func read(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
