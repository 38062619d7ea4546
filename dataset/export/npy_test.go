package export

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
)

// TestArrayOfOtherSize writes fewer elements than the header says, and more.
func TestArrayOfOtherSize(t *testing.T) {
	e := &exporting{ctx: t.Context(), fs: datasettest.FS, dir: t.TempDir(), buf: bufio.NewWriter(nil)}
	for elements, says := range map[int]string{
		2: "", 1: "write " + filepath.Join(e.dir, "x.npy") + ": it has 8 bytes of elements instead of 16", 3: ": it has 24 bytes of elements instead of 16",
	} {
		err := e.array("x.npy", "<i8", []int64{2}, func(w *file) error { return w.append(make([]byte, 8*elements)) })
		if says == "" && err != nil || says != "" && (err == nil || !strings.HasSuffix(err.Error(), says)) {
			t.Errorf("%d elements: %v; want %q", elements, err, says)
		}
	}
	if st, err := os.Stat(filepath.Join(e.dir, "x.npy")); err != nil || e.written != 128+16 {
		t.Errorf("%v, %v: %d bytes were written", st, err, e.written)
	}
}
