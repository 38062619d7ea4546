package dgl_test

import (
	"cmp"
	"path/filepath"
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
