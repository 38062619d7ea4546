package all_test

import (
	"errors"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

func TestImportCompressed(t *testing.T) {
	dir := t.TempDir()
	largeBolt().Write(t, dir)
	o := boltOptions(dir)
	raw, ref := filepath.Join(dir, "raw"), filepath.Join(dir, "ref")
	imported := func(out string) {
		t.Helper()
		if _, err := importAs(t.Context(), datasettest.FS, out, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
	}
	imported(raw)
	o.Compress = true
	imported(ref)
	datasettest.SameFeatures(t, raw, ref)
	o.Workers, o.Memory = 5, 1<<30
	out := filepath.Join(dir, "out")
	imported(out)
	datasettest.Same(t, ref, out)
	o.Memory = 33 << 20
	if _, err := importAs(t.Context(), datasettest.FS, filepath.Join(dir, "none"), o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("33 MiB of memory: %v", err)
	}
}
