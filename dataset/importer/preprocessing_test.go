package importer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// A dataset says how it was preprocessed, in terms that tell whether two were alike: whichever
// options came to it.
func TestPreprocessing(t *testing.T) {
	source := importer.Format{Name: "circulant", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) {
		return circulant{20, 2}, nil
	}}
	plain := dataset.Preprocessing{DType: dtype.Float32, SelfLoops: "keep"}
	for name, c := range map[string]struct {
		options importer.Options
		want    dataset.Preprocessing
		differs []string // from plain
	}{
		"nothing":     {importer.Options{}, plain, nil},
		"features":    {importer.Options{DType: dtype.BFloat16, Binarize: true, RowNormalize: true}, dataset.Preprocessing{DType: dtype.BFloat16, Binarize: true, RowNormalize: true, SelfLoops: "keep"}, []string{"dtype", "binarize", "row-normalize"}},
		"symmetrized": {importer.Options{Symmetrize: true}, dataset.Preprocessing{DType: dtype.Float32, Reverse: true, Dedupe: true, SelfLoops: "drop"}, []string{"reverse-edges", "dedupe", "self-loops"}},
		"by parts": {importer.Options{Reading: importer.Reading{Reverse: importer.ReverseYes}, Dedupe: true, SelfLoops: importer.LoopsDrop},
			dataset.Preprocessing{DType: dtype.Float32, Reverse: true, Dedupe: true, SelfLoops: "drop"}, []string{"reverse-edges", "dedupe", "self-loops"}},
		"loops": {importer.Options{Symmetrize: true, SelfLoops: importer.LoopsAdd}, dataset.Preprocessing{DType: dtype.Float32, Reverse: true, Dedupe: true, SelfLoops: "add"}, []string{"reverse-edges", "dedupe", "self-loops"}},
	} {
		out := t.TempDir() + "/d"
		c.options.Sources = []string{"circulant"}
		if _, err := importer.Import(t.Context(), datasettest.FS, out, source, c.options, progress.Discard); err != nil {
			t.Fatal(name, err)
		}
		d, err := dataset.Open(vfs.OS, out)
		if err != nil {
			t.Fatal(name, err)
		}
		p, err := d.Preprocessing()
		if diff := cmp.Diff(c.want, p); err != nil || diff != "" {
			t.Error(name, err, diff)
		}
		var names []string
		for _, d := range p.Differences(&plain) {
			names = append(names, d.Name)
		}
		if diff := cmp.Diff(c.differs, names); diff != "" || p.Check() != nil {
			t.Error(name, p.Check(), diff)
		}
	}
	d := datasettest.Create(t, t.TempDir(), datasettest.Tiny(t))
	if p, err := d.Preprocessing(); err != nil || p != plain {
		t.Errorf("one that was not imported: %+v, %v", p, err)
	}
	if d := (&dataset.Preprocessing{Fill: "mean"}).Differences(&dataset.Preprocessing{}); len(d) != 1 || d[0].String() != "fill: mean, not no" {
		t.Errorf("%v", d)
	}
	if d := (&dataset.Preprocessing{Feature: "feat"}).Differences(&dataset.Preprocessing{}); len(d) != 1 || d[0].String() != "feature: feat, not the format's default" {
		t.Errorf("%v", d)
	}
}
