package dataset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// TestResumeRows interrupts the writing of features behind a checkpoint and
// checks where the next run goes on: behind it, or at the start when the file is
// not what it was.
func TestResumeRows(t *testing.T) {
	const nodes, dim = 5000, 100 // 2 MB in blocks of 2621 rows
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		harm func(file string) error
		from int64 // the first row of the second run
	}{
		"intact": {func(string) error { return nil }, 2621},
		"longer": {func(file string) error {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.Write([]byte("what the interrupted run wrote behind its checkpoint"))
			return errors.Join(err, f.Close())
		}, 2621},
		"shorter": {func(file string) error { return os.Truncate(file, 2621*dim*4-1) }, 0},
		"changed": {func(file string) error {
			b, err := os.ReadFile(file)
			if err == nil {
				b[77] ^= 1
				err = os.WriteFile(file, b, 0o666)
			}
			return err
		}, 0},
		"gone": {os.Remove, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "D")
			run := func(stopAt int64) (first int64, err error) {
				w, _, err := begin(vfs.OS, out, "test", false)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { err = errors.Join(err, w.close()) }()
				w.checkpoint = 1
				w.state.Facts = Facts{Nodes: nodes, Dim: dim, DType: dtype.Float32}
				first = -1
				err = w.writeFeatures(t.Context(), progress.Discard, 2, func(_ context.Context, lo, hi int64, values []float32) error {
					if first < 0 {
						first = lo
					}
					if lo >= stopAt {
						return stop
					}
					for i := range values {
						values[i] = float32(lo*dim + int64(i))
					}
					return nil
				})
				return first, err
			}
			// The error may win the race against the first block's checkpoint.
			for range 100 {
				if _, err := run(2621); !errors.Is(err, stop) {
					t.Fatal(err)
				}
				var j journal
				if d, _, err := stage.Begin(vfs.OS, out, stage.Spec{Format: Format, Params: "test"}, false); err != nil {
					t.Fatal(err)
				} else if _, err := d.Progress(&j); err != nil || d.Close() != nil {
					t.Fatal(err)
				}
				if j.Rows == 2621 {
					break
				}
			}
			file := filepath.Join(out+".partial", FeaturesFile)
			if err := c.harm(file); err != nil {
				t.Fatal(err)
			}
			first, err := run(nodes)
			if err != nil || first != c.from {
				t.Errorf("resumed at row %d, %v; want %d", first, err, c.from)
			}
			b, err := os.ReadFile(file)
			if err != nil || len(b) != nodes*dim*4 {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			for i, x := range binio.View[float32](b) {
				if x != float32(i) {
					t.Fatalf("value %d is %g", i, x)
				}
			}
		})
	}
}
