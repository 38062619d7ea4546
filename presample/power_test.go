package presample

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// damage keeps what a sampling says of damaged files.
type damage struct {
	progress.Reporter
	lines []string
}

func (d *damage) Logf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.Contains(line, "sampling a") {
		d.lines = append(d.lines, line)
	}
}

// TestPower cuts the power under a sampling into many files, which goes on behind those that
// were finished: no loss of power damages them.
func TestPower(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 3, Seed: 3}.Raw())
	vfstest.SweepPower(t, vfstest.PowerCommand{
		Run: func(fsys vfs.FS, root string) error {
			log := &damage{Reporter: progress.Discard}
			_, err := Run(context.Background(), fsys, Options{Dataset: d.Dir(), Out: filepath.Join(root, "out"), BatchSize: 5, Fanout: []int{3, 3}, Epochs: 2,
				Workers: 1, Memory: 1 << 30, batchesPerFile: 9}, log)
			if len(log.lines) > 0 {
				return fmt.Errorf("what was finished is not taken over: %q", log.lines)
			}
			return err
		},
		Made: func(root string) (map[string][]byte, error) { return vfstest.Files(root, stage.RunFile) },
	})
}
