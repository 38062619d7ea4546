package rowfile

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// TestWriters puts bytes at scattered places of a file, longer and shorter than blocks
// and pages, and fails a write.
func TestWriters(t *testing.T) {
	fsys := vfs.Unsynced(vfs.OS)
	boom := errors.New("boom")
	for _, fails := range []bool{false, true} {
		in := &vfs.FailAt{N: 1, Err: boom, Match: func(op vfs.Op, name string) bool { return fails && op == vfs.OpWrite && filepath.Base(name) == "f" }}
		dir, _, err := stage.Begin(vfs.Inject(fsys, in), filepath.Join(t.TempDir(), "D"), stage.Spec{}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		want := make([]byte, 5<<20)
		set := NewSet(dir, 0)
		defer set.Close()
		out, err := set.Create("f", int64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriters(1)
		if err != nil {
			t.Fatal(err)
		}
		s := w.Stream()
		for _, span := range [][2]int{{0, 3}, {3, 5000}, {8192, 8193}, {10_000, 3 << 20}, {3<<20 + 1, 3<<20 + 70_000}, {4 << 20, 5 << 20}} {
			for i := span[0]; i < span[1]; i++ {
				want[i] = byte(i%255) + 1
			}
			if err = s.Seek(t.Context(), out, int64(span[0])); err == nil {
				err = s.Write(t.Context(), want[span[0]:span[1]])
			}
			if err != nil {
				break
			}
		}
		s.Flush()
		if err := errors.Join(err, w.Drain()); fails != errors.Is(err, boom) {
			t.Errorf("a write fails (%t): %v", fails, err)
		}
		w.Close()
		if got, err := vfs.ReadFile(fsys, dir.File("f")); err != nil || !fails && !bytes.Equal(got, want) {
			t.Error("the file is not what was written", err)
		}
	}
}
