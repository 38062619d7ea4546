package export

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
)

// TestHeader compares what files begin with.
func TestHeader(t *testing.T) {
	for _, c := range []struct {
		descr string
		shape []int64
		want  string
	}{
		{"<i8", []int64{7}, "\x93NUMPY\x01\x00\x76\x00{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }"},
		{"|u1", []int64{20, 11}, "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (20, 11), }"},
	} {
		want := c.want + strings.Repeat(" ", 127-len(c.want)) + "\n"
		if got := header(c.descr, c.shape); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestArrayOfOtherSize writes fewer elements than the header says, and more.
func TestArrayOfOtherSize(t *testing.T) {
	e := &exporting{ctx: t.Context(), fs: datasettest.FS, dir: t.TempDir(), buf: bufio.NewWriter(nil)}
	for elements, says := range map[int]string{
		2: "", 1: "write " + filepath.Join(e.dir, "x.npy") + ": 8 bytes of elements instead of 16", 3: ": 24 bytes of elements instead of 16",
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
