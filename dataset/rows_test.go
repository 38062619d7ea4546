package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// TestResumeRows interrupts the writing of features behind a checkpoint and
// checks where the next run goes on: behind it, or at the start when the file is
// not what it was. Compressed, the first two blocks of rows fill one frame.
func TestResumeRows(t *testing.T) {
	t.Run("raw", func(t *testing.T) { resumeRows(t, false, 2*2621) })
	t.Run("compressed", func(t *testing.T) { resumeRows(t, true, Granule/400) })
}

func resumeRows(t *testing.T, compress bool, durable int64) {
	const nodes, dim, stopAt = 9000, 100, 2 * 2621 // 3.6 MB in blocks of 2621 rows
	stop := errors.New("stop")
	// run writes the features and returns the first row that was asked for.
	run := func(t *testing.T, out string, stopAt int64) (first int64, err error) {
		w, _, err := Begin(t.Context(), vfs.OS, out, "test", Form{Compressed: compress}, false, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { err = w.End(err) }()
		w.checkpoint, w.frames = 1, 2
		f := &w.state.Facts
		f.Nodes, f.Dim, f.DType = nodes, dim, dtype.Float32
		first = -1
		err = w.WriteFeatures(t.Context(), progress.Discard, 2, func(_ context.Context, lo, hi int64, values []float32) error {
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
		}, nil)
		return first, err
	}
	file := func(out string) string {
		return filepath.Join(out+".partial", (&Facts{Compression: CompressionName(compress)}).FeaturesFile())
	}
	ref := filepath.Join(t.TempDir(), "ref")
	if _, err := run(t, ref, nodes); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file(ref))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		harm func(file string, j *journal) error
		from int64 // the first row of the second run
	}{
		"intact": {func(string, *journal) error { return nil }, durable},
		"longer": {func(file string, _ *journal) error {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.Write([]byte("what the interrupted run wrote behind its checkpoint"))
			return errors.Join(err, f.Close())
		}, durable},
		"shorter": {func(file string, j *journal) error {
			end := j.Rows * dim * 4
			if compress {
				end = int64(j.Frames[0])
			}
			return os.Truncate(file, end-1)
		}, 0},
		"changed": {func(file string, _ *journal) error {
			b, err := os.ReadFile(file)
			if err == nil {
				b[77] ^= 1
				err = os.WriteFile(file, b, 0o666)
			}
			return err
		}, 0},
		"gone": {func(file string, _ *journal) error { return os.Remove(file) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "D")
			var j journal
			// The error may win the race against the blocks' checkpoints.
			for range 100 {
				if _, err := run(t, out, stopAt); !errors.Is(err, stop) {
					t.Fatal(err)
				}
				j = readJournal(t, out, compress)
				if j.Rows == durable {
					break
				}
			}
			if err := c.harm(file(out), &j); err != nil {
				t.Fatal(err)
			}
			first, err := run(t, out, nodes)
			if err != nil || first != c.from {
				t.Errorf("resumed at row %d, %v; want %d", first, err, c.from)
			}
			b, err := os.ReadFile(file(out))
			if err != nil || !bytes.Equal(b, want) {
				t.Fatalf("%d bytes, %v: not what a run makes that nothing interrupts", len(b), err)
			}
			if j, was := readJournal(t, out, compress), readJournal(t, ref, compress); fmt.Sprint(j) != fmt.Sprint(was) {
				t.Errorf("journal %+v, want %+v", j, was)
			}
		})
	}
}

func readJournal(t *testing.T, out string, compress bool) (j journal) {
	t.Helper()
	w, _, err := Begin(t.Context(), vfs.OS, out, "test", Form{Compressed: compress}, false, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	j = w.state
	if err := w.End(nil); err != nil {
		t.Fatal(err)
	}
	return j
}
