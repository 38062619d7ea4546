package presample

import (
	"context"
	"diskgnn/internal/budget"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

func laborOptions(t *testing.T, dir string) Options {
	o := testOptions(t, dir)
	o.EvalFanout, o.Sampler, o.BatchDependency = "4,all", SamplerLabor, 16
	return o
}

// TestLaborSameBytes draws with any number of workers, in any memory and in either order of
// batches, whole, in shards, and after an interruption: the bytes are the same.
func TestLaborSameBytes(t *testing.T) {
	for _, order := range []string{OrderRandom, OrderOverlap} {
		dir := t.TempDir()
		o := laborOptions(t, dir)
		o.Order = order
		mustRun(t, o)
		want := files(t, o.Out)
		compare := func(how string) {
			t.Helper()
			if d := cmp.Diff(want, files(t, o.Out)); d != "" {
				t.Errorf("%s order, %s: %.300s", order, how, d)
			}
		}
		for _, workers := range []int{1, 5} {
			for _, memory := range []int64{256 << 20, 8 << 30} {
				o.Workers, o.Memory = workers, memory
				o.Out = filepath.Join(dir, fmt.Sprint(workers, memory))
				mustRun(t, o)
				compare(fmt.Sprintf("%d workers, %d bytes", workers, memory))
			}
		}
		o.Out = filepath.Join(dir, "merged")
		dirs, _, err := sampleShards(o, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := merge(disk, o.Out, dirs); err != nil {
			t.Fatal(err)
		}
		compare("three shards")

		o.Out = filepath.Join(dir, "cancelled")
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(20)
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if r := mustRun(t, o); r.Resumed < 8 {
			t.Errorf("%d batches were there", r.Resumed)
		}
		compare("interrupted")
	}
}

// TestLaborIsContent: what decides the batches is part of the parameters, and samples drawn
// otherwise are refused in the user's words.
func TestLaborIsContent(t *testing.T) {
	dir := t.TempDir()
	o := laborOptions(t, dir)
	o.Sampler, o.BatchDependency = "", 0
	uniform := mustRun(t, o)
	prints := map[string]bool{uniform.Fingerprint: true}
	o.Sampler = SamplerLabor
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "--sampler was uniform, now labor") {
		t.Error(err)
	}
	o.Force = true
	for _, c := range []struct {
		dependency int
		layers     bool
		want       mbfile.Params
		refused    string // what the next is refused with
	}{
		{1, false, mbfile.Params{Method: "labor"}, "--batch-dependency was not given, now 16"},
		{2, false, mbfile.Params{Method: "labor", BatchDependency: 2}, "--layer-dependency was not given, now given"},
		{16, true, mbfile.Params{Method: "labor", BatchDependency: 16, LayerDependency: true}, "--batch-dependency was 16, now 17"},
		{17, true, mbfile.Params{Method: "labor", BatchDependency: 17, LayerDependency: true}, ""},
	} {
		o.BatchDependency, o.LayerDependency = c.dependency, c.layers
		r := mustRun(t, o)
		if prints[r.Fingerprint] {
			t.Errorf("%+v: the fingerprint is another's", c.want)
		}
		prints[r.Fingerprint] = true
		p := open(t, o.Out).Params()
		if p.Method != c.want.Method || p.BatchDependency != c.want.BatchDependency || p.LayerDependency != c.want.LayerDependency {
			t.Errorf("%+v, want %+v", p, c.want)
		}
		next := o
		next.Force = false
		switch {
		case c.dependency == 1:
			next.BatchDependency = 16
		case !c.layers:
			next.LayerDependency = true
		default:
			next.BatchDependency++
		}
		if _, err := Run(t.Context(), disk, next, progress.Discard); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%+v: %v, want %q", c.want, err, c.refused)
		}
	}
}

// TestLaborMemory: what samplers hold to choose is part of the budget. With the largest
// fanout, that is a MiB for each.
func TestLaborMemory(t *testing.T) {
	o := testOptions(t, t.TempDir())
	o.Fanout, o.Workers, o.Memory = []int{1, sampler.MaxFanout}, 20, budget.Reserve+16<<20
	mustRun(t, o)
	o.Out, o.Sampler = o.Out+"2", SamplerLabor
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "sampling") {
		t.Error(err)
	}
	o.Fanout, o.EvalFanout = []int{1, 1}, "1,65536" // evaluation's counts as well
	if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
}
