package dataset_test

import (
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

func TestGenerateFlippedBytes(t *testing.T) {
	for _, compress := range []bool{false, true} {
		datasettest.FlippedBytes(t, func(fsys vfs.FS, out string, force bool) error {
			o := dataset.GenerateOptions{Nodes: 60, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 8, Compress: compress, MultiLabel: compress}
			o.Force = force
			_, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
			return err
		})
	}
}
