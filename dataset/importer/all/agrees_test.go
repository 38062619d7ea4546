package all_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/all"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// TestAgrees compares what is refused ahead of an import with what the import refuses.
func TestAgrees(t *testing.T) {
	dir := vfstest.TempDir(t)
	out := filepath.Join(dir, "D")
	of := func(change func(o *importer.Options)) importer.Options {
		o := importer.Options{Sources: []string{filepath.Join(fixtures, "igb", "tiny")}}
		change(&o)
		return o
	}
	same := of(func(*importer.Options) {})
	agrees := func(o importer.Options) error { return all.Agrees(t.Context(), datasettest.FS, out, all.Auto, o) }
	imports := func(o importer.Options) error {
		_, err := all.Import(t.Context(), datasettest.FS, out, all.Auto, o, progress.Discard)
		return err
	}
	if err := agrees(same); err != nil {
		t.Error("nothing is there:", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Error("something was made:", names, err)
	}
	if err := imports(same); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    importer.Options
		kind error
	}{
		"the same":          {same, nil},
		"binarized":         {of(func(o *importer.Options) { o.Binarize = true }), fault.ErrExists},
		"another split":     {of(func(o *importer.Options) { o.Split = &importer.Split{Parts: "50/25/25"} }), fault.ErrExists},
		"compressed":        {of(func(o *importer.Options) { o.Compress = true }), fault.ErrExists},
		"no source":         {of(func(o *importer.Options) { o.Sources = []string{filepath.Join(dir, "gone")} }), fault.ErrInput},
		"no such task":      {of(func(o *importer.Options) { o.Task = "2983" }), fault.ErrInput},
		"no such type":      {of(func(o *importer.Options) { o.DType = "int8" }), fault.ErrUsage},
		"binarized, forced": {of(func(o *importer.Options) { o.Binarize, o.Force = true, true }), nil},
	} {
		err := agrees(c.o)
		if (err == nil) != (c.kind == nil) || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			continue
		}
		if late := imports(c.o); late == nil || late.Error() != err.Error() && late.Error() != "import: "+err.Error() {
			t.Errorf("%s: agrees says %v, the import %v", name, err, late)
		}
	}
	// A content that changed is found by reading it, which the import does.
	other := of(func(o *importer.Options) { o.Sources = []string{filepath.Join(fixtures, "igb", "large")} })
	if err := agrees(other); err != nil {
		t.Error("another content:", err)
	}
	// What another command made is no import.
	generated := filepath.Join(dir, "G")
	if _, err := dataset.Generate(t.Context(), datasettest.FS, generated, dataset.GenerateOptions{Nodes: 100, Dim: 4, Classes: 2}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if err := all.Agrees(t.Context(), datasettest.FS, generated, all.Auto, same); !errors.Is(err, fault.ErrExists) {
		t.Error("a generated graph:", err)
	}
}
