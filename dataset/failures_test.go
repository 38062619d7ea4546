package dataset_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestFailuresAreTheirOwn fails the making of every file in turn: what is said is that failure, and
// not that the file was closed after it.
func TestFailuresAreTheirOwn(t *testing.T) {
	dir := vfstest.TempDir(t)
	for n := 0; ; n++ {
		in := &vfs.FailAt{N: n, After: true, Err: syscall.ENOSPC, Match: func(op vfs.Op, _ string) bool { return op == vfs.OpWrite || op == vfs.OpSync }}
		out := filepath.Join(dir, "D")
		_, err := dataset.Generate(t.Context(), vfs.Inject(datasettest.FS, in), out, dataset.GenerateOptions{Nodes: 100, Dim: 4, Classes: 2}, progress.Discard)
		if !in.Fired() {
			if n < 10 {
				t.Errorf("%d writes", n)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "already closed") {
			t.Errorf("write %d: %v", n, err)
		}
	}
}
