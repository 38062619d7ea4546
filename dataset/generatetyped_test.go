package dataset_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

func generateTyped(t *testing.T, fsys vfs.FS, out string, o dataset.GenerateOptions) error {
	t.Helper()
	_, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
	return err
}

// TestGenerateTyped checks the types, the rows and the labels of a generated graph, and that its bytes do not depend
// on the number of workers.
func TestGenerateTyped(t *testing.T) {
	o := dataset.GenerateOptions{Nodes: 40_000, AvgDegree: 10, Dim: 4, Classes: 4, Seed: 3, Types: 3, Featureless: 1}
	dir := filepath.Join(vfstest.TempDir(t), "D")
	if err := generateTyped(t, datasettest.FS, dir, o); err != nil {
		t.Fatal(err)
	}
	d := datasettest.Verified(t, dir)
	f := d.Facts()
	var triples []string
	for r := range f.Types.Relations {
		triples = append(triples, f.Types.Triple(r))
	}
	want := []string{"type0:to:type0", "type1:to:type0", "type0:to:type1", "type2:to:type1", "type1:to:type2"}
	if !slices.Equal(triples, want) || f.Rows() != 2*20_000+2*10_000+10_000 || f.FeatureRows() != 30_001 || f.Unlabelled != 20_000 {
		t.Errorf("relations %q, %d rows, %d with features, %d nodes unlabelled", triples, f.Rows(), f.FeatureRows(), f.Unlabelled)
	}
	if edges := float64(f.Edges); edges < 0.99*400_000 || edges > 1.01*400_000 {
		t.Errorf("%d edges", f.Edges)
	}
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	inside, edges := 0, 0
	labels, err := d.Labels()
	if err != nil {
		t.Fatal(err)
	}
	for row := range f.Rows() {
		list := top.Neighbors(uint32(row))
		v, r := f.Types.RowOf(row)
		if len(slices.Compact(slices.Clone(list))) < len(list) || slices.Contains(list, v) {
			t.Fatalf("row %d has the sources %v", row, list)
		}
		if r != 0 {
			continue
		}
		for _, u := range list {
			if edges++; labels[u] == labels[v] {
				inside++
			}
		}
	}
	if share := float64(inside) / float64(edges); share < 0.5 {
		t.Errorf("%.2f of the edges lead to a node of the same class", share)
	}
	if err := top.Close(); err != nil {
		t.Error(err)
	}
	again := filepath.Join(vfstest.TempDir(t), "D")
	o.Workers = 3
	if err := generateTyped(t, datasettest.FS, again, o); err != nil {
		t.Fatal(err)
	}
	e, err := dataset.OpenAny(datasettest.FS, again)
	if err != nil || e.Fingerprint() != d.Fingerprint() {
		t.Errorf("other bytes with three workers: %v", err)
	}
	if o.Seed++; generateTyped(t, datasettest.FS, again, o) == nil {
		t.Error("another seed is the same dataset")
	}
}

func TestGenerateTypedRefuses(t *testing.T) {
	for want, o := range map[string]dataset.GenerateOptions{
		"--types 9":       {Types: 9},
		"--types -1":      {Types: -1},
		"--types 3: ":     {Types: 3, Nodes: 100},
		"--featureless 2": {Types: 2, Featureless: 2},
		"--featureless 1": {Featureless: 1},
		"--multi-label":   {Types: 2, MultiLabel: true},
		"--fill max":      {Types: 2, Featureless: 1, Fill: "max"},
		"--fill mean: ":   {Types: 2, Fill: dataset.FillMean},
	} {
		if err := generateTyped(t, datasettest.FS, filepath.Join(t.TempDir(), "D"), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestGenerateFilled gives the second and the third of three types features: each row is the mean of the in-neighbours' rows of
// the type before it. The rest is as without --fill.
func TestGenerateFilled(t *testing.T) {
	const dim = 256
	o := dataset.GenerateOptions{Nodes: 20_000, AvgDegree: 6, Dim: dim, Classes: 4, Seed: 3, Types: 3, Featureless: 2}
	dir := vfstest.TempDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := generateTyped(t, datasettest.FS, at("plain"), o); err != nil {
		t.Fatal(err)
	}
	o.Fill = dataset.FillMean
	for name, use := range map[string]dataset.Resources{"little": {Memory: 52 << 20, Workers: 1}, "much": {Memory: 1 << 30, Workers: 3}} {
		o.Resources = use
		res, err := dataset.Generate(t.Context(), datasettest.FS, at(name), o, progress.Discard)
		if err != nil || len(res.Fill) != 2 || (res.Fill[0].Passes > 1) != (name == "little") || res.Fill[1].Passes < 1 {
			t.Fatalf("%s: %+v, %v", name, res.Fill, err)
		}
	}
	datasettest.Same(t, at("little"), at("much"))
	d, plain := datasettest.Verified(t, at("little")), datasettest.Verified(t, at("plain"))
	values := func(d *dataset.Dataset) []float32 {
		f := d.Facts()
		raw := make([]byte, f.FeatureRows()*int64(f.RowBytes()))
		if err := d.ReadFeatures(t.Context(), 0, f.FeatureRows(), raw); err != nil {
			t.Fatal(err)
		}
		return binio.View[float32](raw)
	}
	f, got := d.Facts(), values(d)
	first := f.Types.Nodes[0].Count * dim
	if !slices.Equal(got[:first], values(plain)[:first]) {
		t.Error("the first type has other features")
	}
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for row := range f.Types.NumRows() {
		v, relation := f.Types.RowOf(row)
		if r := f.Types.Relations[relation]; r.Destination == 0 || r.Source != r.Destination-1 || row%7 > 0 {
			continue
		}
		sources := top.Neighbors(uint32(row))
		for j := range int64(dim) {
			sum := 0.0
			for _, u := range sources {
				sum += float64(got[int64(u)*dim+j])
			}
			want := float32(sum / float64(max(len(sources), 1)))
			if x := got[int64(v)*dim+j]; x != want {
				t.Fatalf("element %d of node %d is %v, want %v", j, v, x, want)
			}
		}
	}
}

// TestGenerateTypedFailures fails every operation of the file system in turn, and generates again.
func TestGenerateTypedFailures(t *testing.T) {
	o := dataset.GenerateOptions{Nodes: 400, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 8, Types: 2, Featureless: 1}
	datasettest.EveryFailure(t, []bool{true}, func(fsys vfs.FS, out string) error { return generateTyped(t, fsys, out, o) })
}

// TestTypesEqual compares types by their names, counts and relations.
func TestTypesEqual(t *testing.T) {
	a, b := citations().Types, citations().Types
	if !a.Equal(b) || a.Equal(nil) || (*graph.Types)(nil).Equal(a) || !(*graph.Types)(nil).Equal(nil) {
		t.Error("equal types")
	}
	b.Nodes[1].Count++
	if a.Equal(b) {
		t.Error("another count")
	}
	b = citations().Types
	b.Relations[0].Name = "has"
	if a.Equal(b) {
		t.Error("another relation")
	}
}
