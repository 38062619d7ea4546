package pack_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// TestPlanForetells packs what was planned, and compares the bytes: rows are large enough
// that what pages add does not hide a miscount.
func TestPlanForetells(t *testing.T) {
	dir := t.TempDir()
	ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	graph := datasettest.Params{Nodes: 400, AvgDegree: 5, Dim: 2048, Seed: 3}
	if err := dataset.Create(disk, ds, graph.Raw()); err != nil {
		t.Fatal(err)
	}
	_, err := presample.Run(t.Context(), disk, presample.Options{
		Dataset: ds, Out: samples, BatchSize: 16, Fanout: []int{5, 4}, Epochs: 2, Seed: 1, Workers: 2, Memory: 1 << 30,
	}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := mbfile.Open(disk, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	drawn := r.Facts()
	for i, c := range []struct {
		maxDisk, dtype, compress string
	}{{"unlimited", "same", "none"}, {"2.8x", "same", "none"}, {"unlimited", "bf16", "none"}, {"unlimited", "int8", "zstd"}} {
		o := options(ds, samples, filepath.Join(dir, "P", string(rune('0'+i))))
		if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
			t.Fatal(err)
		}
		size, err := budget.ParseSize(c.maxDisk)
		if err != nil {
			t.Fatal(err)
		}
		o.MaxDisk, o.DType, o.Compress = &size, c.dtype, c.compress
		plan, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		got, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		near := func(what string, planned, made int64) {
			if d := math.Abs(float64(planned)/float64(made) - 1); d > 0.1 {
				t.Errorf("%+v: %s: planned %d, made %d", c, what, planned, made)
			}
		}
		// The features, and the samples' graphs. Compressing reads rows once more.
		if want := 400*2048*4 + drawn.Train.Bytes + drawn.Eval.Bytes; c.compress == "none" && plan.Chosen.BytesRead != want || c.compress != "none" && plan.Chosen.BytesRead <= want {
			t.Errorf("%+v: %d bytes are to be read, of %d in the inputs", c, plan.Chosen.BytesRead, want)
		}
		near("disk", plan.Chosen.DiskBytes, got.DiskBytes)
		near("read", plan.Chosen.BytesRead, got.BytesRead)
		near("written", plan.Chosen.BytesWritten, got.BytesWritten)
		if entries, err := os.ReadDir(filepath.Dir(o.Out)); err != nil || len(entries) != i+1 {
			t.Errorf("planning left something: %v, %v", entries, err)
		}
	}
}

// TestPlanIsChosenFrom plans again with the cache, the type and the limit that a choice names:
// that choice, or one that is no larger, is then the pack that is decided on.
func TestPlanIsChosenFrom(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	plan, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	long := 0
	for i := range plan.Choices {
		c := &plan.Choices[i]
		if c.DType != plan.Chosen.DType || i%3 > 0 {
			continue
		}
		if c.Segment > 1 {
			long++
			o.MaxDisk = &budget.Size{Value: float64(c.MaxDisk)}
		} else {
			o.MaxDisk = nil
		}
		o.Cache = &budget.Size{Value: 100 * float64(c.CacheRows) / float64(plan.Nodes), Unit: budget.UnitPercent}
		again, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if got := again.Chosen; got.CacheRows != c.CacheRows || got.Segment > c.Segment || got.MaxDisk > c.MaxDisk {
			t.Errorf("chosen %+v, packed %+v", c, got)
		}
	}
	// The measured rate of the drive decides whether any choice pays.
	pays := slices.ContainsFunc(plan.Choices, func(c cut.Choice) bool { return c.BreakEven > 0 })
	if long == 0 || (plan.Recommended >= 0) != pays {
		t.Errorf("%d choices share rows, one pays: %t, %d is recommended", long, pays, plan.Recommended)
	}
}

// TestPlanFile checks that choices are taken over, and other options are not.
func TestPlanFile(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	dir := t.TempDir()
	o := options(ds, samples, filepath.Join(dir, "P"))
	o.Compress, o.PlanFile = pack.CompressAuto, filepath.Join(dir, "plan.json")
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err == nil {
		t.Error("packed by a plan that is not there")
	}
	plan, err := pack.MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Params.Codec == pack.CompressAuto {
		t.Error("the codec was not settled")
	}
	got, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil || got.Codec != plan.Params.Codec {
		t.Errorf("codec %s, planned %s: %v", got.Codec, plan.Params.Codec, err)
	}

	huge := o
	huge.Out, huge.PlanFile = filepath.Join(dir, "Q"), filepath.Join(dir, "huge.json")
	if err := os.WriteFile(huge.PlanFile, []byte(`{"samples":"`+strings.Repeat("x", 1<<20)+`"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.Run(t.Context(), disk, huge, progress.Discard); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "huge.json is larger than 1.0 MiB, the limit for such a file") {
		t.Errorf("a huge plan: %v", err)
	}

	other := o
	other.Out, other.DType = filepath.Join(dir, "Q"), "bf16"
	if _, err := pack.Run(t.Context(), disk, other, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("another dtype than planned: %v", err)
	}
	other = o
	other.Out, other.MaxDisk = filepath.Join(dir, "Q"), &budget.Size{Value: 1e6}
	if _, err := pack.Run(t.Context(), disk, other, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--max-disk was unlimited, now 1000000 bytes") {
		t.Errorf("another disk budget than planned: %v", err)
	}
	other = o
	other.Out, other.Samples = filepath.Join(dir, "R"), filepath.Join(dir, "S2")
	sample(t, ds, other.Samples, 2)
	if _, err := pack.Run(t.Context(), disk, other, progress.Discard); !errors.Is(err, fault.ErrLineage) {
		t.Errorf("other samples than planned: %v", err)
	}
	if err := os.WriteFile(o.PlanFile, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.Run(t.Context(), disk, other, progress.Discard); !errors.Is(err, fault.ErrInput) {
		t.Errorf("no plan: %v", err)
	}
	o.Policy, o.Compress = packfile.PolicyMin, packfile.CodecNone
	if _, err := pack.MakePlan(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("policy min: %v", err)
	}
}
