package exact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/faultio"
	"diskgnn/train/safetensors"
	"diskgnn/train/trained"
)

func smallWorld(t *testing.T) *world {
	return newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 3}.Raw(), 4, 6)
}

// gone checks that a prediction that failed left nothing, and returned its memory.
func (w *world) gone(t *testing.T, what string) {
	t.Helper()
	for _, name := range []string{"run.scratch", "out.npy", "out.npy.tmp"} {
		if _, err := os.Stat(w.path(name)); err == nil {
			t.Errorf("%s: %s is still there", what, name)
		}
	}
	if n := device.HostBytes(); n != 0 {
		t.Errorf("%s: %d bytes of host memory were not given back", what, n)
	}
}

// Whichever operation of the file system fails, the error says so, and nothing is
// left unless it could not be removed; then it is not in the way of the next.
func TestEveryWriteFails(t *testing.T) {
	w := smallWorld(t)
	room := w.tight(t, 0)
	want, _ := w.predict(t, PredictOptions{}, room)
	check(t, os.Remove(w.path("out.npy")))
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy")}
	for n := 0; ; n++ {
		var cleaning atomic.Bool
		fail := &vfs.FailAt{N: n, Err: syscall.ENOSPC}
		fsys := vfs.Inject(disk, watch(func(op vfs.Op, name string) error {
			err := fail.Before(op, name)
			if err != nil && (op == vfs.OpRemove || op == vfs.OpSyncDir) {
				cleaning.Store(true)
			}
			return err
		}))
		_, err := predict(context.Background(), fsys, o, progress.Discard, parts{stack: all.Open, room: room})
		if !fail.Fired() {
			if err != nil || n < 12 {
				t.Errorf("after %d failures: %v", n, err)
			}
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d fails: %v", n, err)
		}
		if !cleaning.Load() {
			w.gone(t, err.Error())
		}
		_ = os.Remove(w.path("out.npy"))
	}
	got, _ := w.predict(t, PredictOptions{}, room)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("value %d is %v after failures, %v before", i, got[i], want[i])
		}
	}
}

// watch is an injector made of a function.
type watch func(op vfs.Op, name string) error

func (w watch) Before(op vfs.Op, name string) error { return w(op, name) }

// Whichever read fails or brings a wrong byte, the error says which file it was.
func TestEveryReadFails(t *testing.T) {
	w := smallWorld(t)
	room := w.tight(t, 0)
	for _, c := range []struct {
		name   string
		effect faultio.Effect
		kind   error
	}{{"fails", faultio.Fail(syscall.EIO), syscall.EIO}, {"lies", faultio.Flip(3, 0x20), fault.ErrCorrupt}} {
		for n := 0; ; n++ {
			var s *faultio.Stack
			_, err := evaluate(context.Background(), disk, w.options(), progress.Discard, parts{room: room, stack: func(kind string, o iostack.Options) (iostack.Stack, string, error) {
				inner, how, err := all.Open(kind, o)
				if err == nil {
					s = faultio.Wrap(inner, faultio.On(faultio.Nth(n, faultio.Always()), c.effect))
				}
				return s, how, err
			}})
			if s.Injected() == 0 {
				if err != nil || n < 6 {
					t.Errorf("after %d reads: %v", n, err)
				}
				break
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), dataset.FeaturesFile) && !strings.Contains(err.Error(), statePrefix) {
				t.Errorf("read %d %s: %v", n, c.name, err)
			}
			if cured := strings.HasSuffix(fmt.Sprint(err), w.path("dataset")+" is damaged: make it again, by its diskgnn generate or import with --force, or from a copy"); cured != (c.name == "lies" && strings.Contains(err.Error(), dataset.FeaturesFile)) {
				t.Errorf("read %d %s: %v", n, c.name, err)
			}
			w.gone(t, err.Error())
		}
	}
}

// An interruption, whenever it comes, leaves nothing but states, from which the next process goes on to the
// same prediction.
func TestInterrupt(t *testing.T) {
	groups(t, 8)
	w := smallWorld(t)
	room := w.tight(t, 0)
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy")}
	want, whole := w.predict(t, o, room)
	check(t, os.Remove(o.Out))
	kept, least := 0, whole.BytesRead
	for n := 0; ; n++ {
		ctx, cancel := context.WithCancelCause(context.Background())
		seen := 0
		fsys := vfs.Inject(disk, watch(func(op vfs.Op, name string) error {
			if op != vfs.OpClose && op != vfs.OpRemove {
				if seen++; seen == n+1 {
					cancel(errors.New("interrupt signal received"))
				}
			}
			return nil
		}))
		_, err := predict(ctx, fsys, o, progress.Discard, parts{stack: all.Open, room: room})
		if seen <= n {
			break
		}
		if err == nil { // it came when the file was complete
			_ = os.Remove(w.path("out.npy"))
		} else if !errors.Is(err, fault.ErrInterrupted) {
			t.Errorf("at operation %d: %v", n, err)
		}
		if _, left := os.Stat(w.path("run.scratch/" + keptFile)); left == nil {
			if kept++; !strings.Contains(fmt.Sprint(err), "hidden states are kept in "+w.path("run.scratch")) {
				t.Errorf("at operation %d: states are there: %v", n, err)
			}
			got, p := w.predict(t, o, room)
			if !slices.Equal(got, want) || p.BytesRead > whole.BytesRead {
				t.Errorf("at operation %d: %d bytes read, %d without an interruption; %v, want %v", n, p.BytesRead, whole.BytesRead, got, want)
			}
			least = min(least, p.BytesRead)
			check(t, os.Remove(o.Out))
		}
		w.gone(t, "interrupted")
	}
	if kept < 10 || least > whole.BytesRead/2 {
		t.Errorf("states stayed %d times; %d bytes read at least, of %d", kept, least, whole.BytesRead)
	}
}

func TestRefusals(t *testing.T) {
	w := smallWorld(t)
	wide := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 61, AvgDegree: 4, Dim: 6, Classes: 3}.Raw(), 4)
	flat := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 20, Dim: 5}.Raw())
	check(t, os.WriteFile(w.path("there.npy"), nil, 0o666))
	check(t, os.Mkdir(w.path("folder.npy"), 0o777))
	for name, c := range map[string]struct {
		change func(o *PredictOptions)
		kind   error
		says   string
	}{
		"another width":   {func(o *PredictOptions) { o.Dataset = wide.path("dataset") }, fault.ErrInput, "takes 5 features per node, but "},
		"what is no name": {func(o *PredictOptions) { o.Accept = []string{"dtype", "width"} }, fault.ErrUsage, "--accept width is not one of dtype, "},
		"no dataset":      {func(o *PredictOptions) { o.Dataset = "" }, fault.ErrUsage, "--dataset is missing"},
		"a run as such":   {func(o *PredictOptions) { o.Dataset = w.path("run") }, fault.ErrInput, "is no finished dataset"},
		"no weights":      {func(o *PredictOptions) { o.Weights = trained.WeightsFinal }, fault.ErrInput, "has no final.safetensors"},
		"no layer":        {func(o *PredictOptions) { o.Options, o.Output = flat.options(), Embeddings }, fault.ErrUsage, "no hidden layer"},
		"output":          {func(o *PredictOptions) { o.Output = "poems" }, fault.ErrUsage, "--output poems"},
		"nodes":           {func(o *PredictOptions) { o.Nodes = "some" }, fault.ErrUsage, "--nodes some"},
		"no file":         {func(o *PredictOptions) { o.Out = "" }, fault.ErrUsage, "--out is missing"},
		"exists":          {func(o *PredictOptions) { o.Out = w.path("there.npy") }, fault.ErrExists, "--force"},
		"a directory":     {func(o *PredictOptions) { o.Out, o.Force = w.path("folder.npy"), true }, fault.ErrExists, "is not a file"},
		"no suffix":       {func(o *PredictOptions) { o.Out = w.path("out") }, fault.ErrUsage, "ends in .npy, .csv or .parquet"},
		"another suffix":  {func(o *PredictOptions) { o.Out = w.path("out.txt") }, fault.ErrUsage, "ends in .npy, .csv or .parquet"},
		"nowhere":         {func(o *PredictOptions) { o.Out = w.path("there.npy/out.npy") }, fault.ErrUsage, "is no directory"},
		"memory":          {func(o *PredictOptions) { o.Memory = 1 << 20 }, fault.ErrBudget, "the least that would do: --memory "},
		"scratch":         {func(o *PredictOptions) { o.Scratch = w.path("there.npy/states") }, fault.ErrUsage, "there.npy is no directory"},
	} {
		o := PredictOptions{Options: w.options(), Out: w.path("out.npy")}
		c.change(&o)
		_, err := Predict(context.Background(), disk, o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		w.gone(t, name)
	}
	o := PredictOptions{Options: w.options(), Out: w.path("there.npy"), Force: true}
	o.Scratch = filepath.Join(t.TempDir(), "new", "place")
	if _, err := Predict(context.Background(), disk, o, progress.Discard); err != nil {
		t.Errorf("forced, with the states elsewhere: %v", err)
	}
}

// What is not finite has no score and no class, and is not written: one node suffices,
// and is named.
func TestNotFinite(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 0, Dim: 5, Classes: 3, Seed: 3}.Raw()
	bad := raw.Test[len(raw.Test)/2]
	binio.View[float32](raw.Features)[int(bad)*raw.Dim] = math.MaxFloat32
	w := newWorld(t, vfstest.TempDir(t), raw, 4)
	b, err := os.ReadFile(w.path("run/weights.safetensors"))
	check(t, err)
	tensors, _, err := safetensors.Decode(b)
	check(t, err)
	for _, tensor := range tensors {
		for i := range tensor.Data {
			tensor.Data[i] *= 1e3
		}
	}
	w.writeRun(t, tensors, w.fingerprint)
	says := fmt.Sprintf("give node %d values that are not finite: training diverged", bad)
	for _, output := range []string{Logits, Classes} {
		for _, nodes := range []string{AllNodes, dataset.Test} {
			_, err := Predict(context.Background(), disk, PredictOptions{Options: w.options(), Out: w.path("out.npy"), Output: output, Nodes: nodes}, progress.Discard)
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s of %s nodes: %v", output, nodes, err)
			}
			w.gone(t, output)
		}
	}
	if _, err := Evaluate(context.Background(), disk, w.options(), progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
		t.Errorf("scored: %v", err)
	}
	if _, err := Predict(context.Background(), disk, PredictOptions{Options: w.options(), Out: w.path("out.npy"), Nodes: dataset.Train}, progress.Discard); err != nil {
		t.Errorf("the nodes that are finite: %v", err)
	}
}
