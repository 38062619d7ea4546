package dataset_test

import (
	"path/filepath"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// flippedBytes holds a stage that makes datasets to what is said of interrupted ones.
func flippedBytes(t *testing.T, make func(fsys vfs.FS, out string, force bool) error) {
	t.Helper()
	dir := vfstest.TempDir(t)
	ref := filepath.Join(dir, "ref")
	if err := make(datasettest.FS, ref, false); err != nil {
		t.Fatal(err)
	}
	stagetest.FlippedBytes(t, datasettest.FS, dir, stagetest.Files(t, ref), 100, make)
	verified(t, ref)
}

func TestGenerateFlippedBytes(t *testing.T) {
	for _, compress := range []bool{false, true} {
		flippedBytes(t, func(fsys vfs.FS, out string, force bool) error {
			o := dataset.GenerateOptions{Nodes: 60, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 8, Compress: compress, MultiLabel: compress}
			o.Force = force
			_, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
			return err
		})
	}
}

func TestImportFlippedBytes(t *testing.T) {
	dir := vfstest.TempDir(t)
	benchmarkTree().write(t, dir)
	boltTree().write(t, dir)
	for _, o := range []dataset.ImportOptions{boltOptions(dir), benchmarkOptions(dir)} {
		flippedBytes(t, func(fsys vfs.FS, out string, force bool) error {
			o.Force = force
			_, err := dataset.Import(t.Context(), fsys, out, o, progress.Discard)
			return err
		})
	}
}
