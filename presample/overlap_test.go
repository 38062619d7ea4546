package presample

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
)

func overlapOptions(t *testing.T, dir string) Options {
	o := testOptions(t, dir)
	o.Order, o.TrainRatio = OrderOverlap, 0.7
	return o
}

func TestOverlapSameBytes(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	for _, workers := range []int{1, 5} {
		for _, memory := range []int64{256 << 20, 8 << 30} {
			o.Workers, o.Memory = workers, memory
			o.Out = filepath.Join(dir, fmt.Sprint(workers, memory))
			mustRun(t, o)
			if d := cmp.Diff(want, files(t, o.Out)); d != "" {
				t.Errorf("%d workers, %d bytes: %.300s", workers, memory, d)
			}
		}
	}
}

func TestOverlapShards(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	o.Out = filepath.Join(dir, "merged")
	dirs, _, err := sampleShards(o, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge(disk, o.Out, dirs); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, files(t, o.Out)); d != "" {
		t.Errorf("%.300s", d)
	}
}

func TestOverlapEpochs(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	r := open(t, o.Out)
	f := r.Facts()
	var batch graph.Batch
	epochs := make([][]uint32, f.Epochs)
	for e := range epochs {
		for b := range f.BatchesPerEpoch {
			i := e*f.BatchesPerEpoch + b
			if _, err := r.Read(t.Context(), i, nil, &batch); err != nil {
				t.Fatal(err)
			}
			epochs[e] = append(epochs[e], batch.Input[:len(batch.Labels)]...)
		}
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("two epochs in the same order")
	}
	for _, e := range epochs {
		slices.Sort(e)
		if !slices.Equal(e, epochs[0]) || len(slices.Compact(slices.Clone(e))) != len(e) {
			t.Errorf("an epoch visits %v", e)
		}
	}
}

func TestOverlapCancelAndResume(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	for _, at := range []int{1, 9, 15} {
		o.Out = filepath.Join(dir, fmt.Sprint("cancel", at))
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(int64(at))
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at batch %d: %v", at, err)
		}
		mustRun(t, o)
		if d := cmp.Diff(want, files(t, o.Out)); d != "" {
			t.Fatalf("cancelled at batch %d: %.300s", at, d)
		}
	}
}

// TestOverlapRefusals gives the order of locality less memory than it takes, and cancels it.
func TestOverlapRefusals(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	o.EnsureDefaults()
	p, err := o.params()
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(disk, o.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sampler.Load(t.Context(), d, p, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.LocalizeMemory(1 << 32); n <= 32<<30 {
		t.Errorf("two words for each of 2³² nodes in %d bytes", n)
	}
	little := o
	little.Memory = budget.Reserve + 4*d.Facts().Nodes + 100 // what reading the labels takes, and little more
	if _, err := Run(t.Context(), disk, little, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--order overlap") {
		t.Errorf("%d bytes: %v", little.Memory, err)
	}
	topology, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer topology.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Localize(ctx, topology, 2, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
