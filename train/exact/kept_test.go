package exact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/model"
)

// tiled is a world of three steps, the first of them without edges, in tiles of few rows, with all states on
// disk.
func tiled(t *testing.T, dir string) (w *world, room int64) {
	groups(t, 8)
	raw := datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 3}.Raw()
	w = newWorldOf(t, dir, raw, model.Model{Kind: model.SAGE, Dims: []int{5, 6, 3}, InputProjection: 4})
	return w, w.tight(t, 0)
}

// After a loss of power at any operation, the next process makes the same prediction.
func TestPower(t *testing.T) {
	w, room := tiled(t, vfstest.TempDir(t))
	vfstest.SweepPower(t, vfstest.PowerCommand{
		Before: func(root string) error { return os.CopyFS(root, os.DirFS(w.dir)) },
		Run: func(fsys vfs.FS, root string) error {
			o := PredictOptions{Options: w.options(), Out: filepath.Join(root, "out.npy"), Force: true}
			o.Run, o.Dataset = filepath.Join(root, "run"), filepath.Join(root, "dataset")
			_, err := predict(context.Background(), fsys, o, progress.Discard, parts{stack: all.Open, room: room})
			return err
		},
		Made: func(root string) (map[string][]byte, error) {
			b, err := os.ReadFile(filepath.Join(root, "out.npy"))
			return map[string][]byte{"out.npy": b}, err
		},
	})
}

// interrupted interrupts a prediction when it has noted states for the n-th time.
func (w *world) interrupted(t *testing.T, o PredictOptions, room int64, n int) {
	t.Helper()
	interruptedWith(t, o, parts{stack: all.Open, room: room}, n)
}

func interruptedWith(t *testing.T, o PredictOptions, with parts, n int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	fsys := vfs.Inject(disk, watch(func(op vfs.Op, name string) error {
		if op == vfs.OpRename && strings.HasPrefix(filepath.Base(name), keptFile) {
			if n--; n == 0 {
				cancel(errors.New("interrupt signal received"))
			}
		}
		return nil
	}))
	_, err := predict(ctx, fsys, o, progress.Discard, with)
	if !errors.Is(err, fault.ErrInterrupted) {
		t.Fatal(err)
	}
}

// States that were changed, or cut off, or that belong to other work, are computed again.
func TestKeptStatesAreChecked(t *testing.T) {
	w, room := tiled(t, vfstest.TempDir(t))
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
	want, whole := w.predict(t, o, room)
	left := filepath.Join(t.TempDir(), "left")
	w.interrupted(t, o, room, 4)
	check(t, os.CopyFS(left, os.DirFS(w.path("run.scratch"))))
	again := func(what string, o PredictOptions, room int64) Prediction {
		t.Helper()
		check(t, os.RemoveAll(w.path("run.scratch")))
		check(t, os.CopyFS(w.path("run.scratch"), os.DirFS(left)))
		got, p := w.predict(t, o, room)
		if o.StateDType == "" && !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
		return p
	}
	// The projection and three tiles of 8 rows of layer 0 are there; 5 tiles are left, the last one of 4 rows.
	p := again("as it was", o, room)
	if l, all := p.Layers[0], whole.Layers[0]; p.BytesRead >= whole.BytesRead || all.Ranges != 8 || l.Ranges != 5 || l.Sources != 5*60 || l.BytesWritten != (60-3*8)*6*4 || all.BytesWritten != 60*(4+6)*4 {
		t.Errorf("%d bytes were read, %d by a process that begins; %+v, %+v", p.BytesRead, whole.BytesRead, l, all)
	}
	if p := again("with other memory", o, w.tight(t, 0.1)); p.BytesRead >= whole.BytesRead {
		t.Errorf("%d bytes were read, %d by a process that begins", p.BytesRead, whole.BytesRead)
	}
	if p := again("with memory for all", o, 1<<30); p.BytesRead != int64(len(w.raw.Features)) {
		t.Errorf("with memory for all %d bytes were read", p.BytesRead)
	}
	half := o
	half.StateDType = StateBF16
	again("other states", half, room)
	names, err := os.ReadDir(left)
	check(t, err)
	changed := 0
	for _, e := range names {
		name := filepath.Join(left, e.Name())
		b, err := os.ReadFile(name)
		check(t, err)
		step := 1
		if e.Name() != keptFile {
			step = 97
		}
		for i := 0; i < len(b); i += step {
			other := slices.Clone(b)
			other[i] ^= 4
			check(t, os.WriteFile(name, other, 0o666))
			again("a byte of "+e.Name(), o, room)
			changed++
			if i%7 == 0 {
				check(t, os.WriteFile(name, b[:i], 0o666))
				again("the end of "+e.Name(), o, room)
			}
		}
		check(t, os.WriteFile(name, b, 0o666))
	}
	if changed < 150 {
		t.Errorf("%d bytes were changed", changed)
	}
}
