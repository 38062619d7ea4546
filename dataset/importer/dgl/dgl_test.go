package dgl_test

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
)

// TestFiles imports the files of testdata, which all have the graph of graph.txt.
func TestFiles(t *testing.T) {
	for name, want := range map[string]struct {
		how   importer.Reading
		dtype dtype.Type
		notes string
	}{
		"coo":         {},
		"csr":         {},
		"csc":         {},
		"forms":       {},
		"int32":       {},
		"named":       {},
		"homogeneous": {},
		"old":         {},
		"weighted":    {notes: "weighted.bin: data of edges is not imported: a, w"},
		"float16":     {dtype: dtype.Float16},
		"bfloat16":    {dtype: dtype.BFloat16},
		"float64":     {},
		"ogb":         {notes: "ogb.bin: labels of the whole graph are not imported: glabel"},
		"columns":     {how: importer.Reading{SplitIndex: 1}, notes: "train_mask has 3 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".bin")
			dir, res := importertest.Imported(t, dgl.Format, path, want.how)
			d, err := dataset.Open(datasettest.FS, dir)
			if err != nil {
				t.Fatal(err)
			}
			importertest.Same(t, d, "testdata/graph.txt")
			if got := d.Facts().DType; got != cmp.Or(want.dtype, dtype.Float32) {
				t.Errorf("features of %v, want %v", got, want.dtype)
			}
			if got := strings.Join(res.Notes, "\n"); (got == "") != (want.notes == "") || !strings.Contains(got, want.notes) {
				t.Errorf("notes %q, want %q", got, want.notes)
			}
			if sign := dgl.Format.Detect(datasettest.FS, []string{path}); sign == "" {
				t.Errorf("it is not recognised")
			}
		})
	}
}

// TestTypes reads features of all types of elements.
func TestTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.bin")
	for _, values := range []any{
		[]int8{1, 0, 2}, []int16{1, 0, 2}, []int32{1, 0, 2}, []int64{1, 0, 2}, []uint8{1, 0, 2}, []uint32{1, 0, 2}, []uint64{1, 0, 2},
		[]float32{1, 0, 2}, []float64{1, 0, 2}, []uint16{0x3f80, 0, 0x4000}, // bfloat16
	} {
		f := tiny("coo")
		f.graphs[0].data[0][0] = datum{name: "feat", values: values}
		checkFeatures(t, path, f, []float32{1, 0, 2})
	}
	for odd, values := range map[[4]byte][]uint16{{1, 16, 1, 0}: {1, 0, 2}, {2, 16, 1, 0}: {0x3c00, 0, 0x4000}} {
		f := tiny("coo")
		f.graphs[0].data[0][0] = datum{name: "feat", values: values, odd: &odd}
		checkFeatures(t, path, f, []float32{1, 0, 2})
	}
}

func checkFeatures(t *testing.T, path string, f written, want []float32) {
	t.Helper()
	s, err := opened(t, path, f.bytes())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Features(0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(want))
	if err := errors.Join(rows.Next(got), rows.Close()); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v: %v, %v; want %v", f.graphs[0].data[0][0], got, err, want)
	}
}
