package presample

import (
	"context"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/powertest"
)

// TestPower cuts the power under a sampling into many files, which goes on behind those that
// were finished.
func TestPower(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 3, Seed: 3}.Raw())
	powertest.Sweep(t, powertest.Command{
		Run: func(fsys vfs.FS, root string) error {
			_, err := Run(context.Background(), fsys, Options{Dataset: d.Dir(), Out: filepath.Join(root, "out"), BatchSize: 5, Fanout: []int{3, 3}, Epochs: 2,
				Workers: 1, Memory: 1 << 30, batchesPerFile: 9}, progress.Discard)
			return err
		},
		Made: func(root string) (map[string][]byte, error) { return powertest.Files(root, stage.RunFile) },
	})
}
