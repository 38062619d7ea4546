package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/trained"
)

// A run's weights score on its own pack what the run said, whatever the pack's policy.
func TestEvaluatePack(t *testing.T) {
	w := newWorld(t, worldParams{})
	for name, p := range map[string]string{
		"static": w.pack(10),
		"min":    w.pack(10, func(o *pack.Options) { o.Policy = "min" }),
		"bf16":   w.pack(10, func(o *pack.Options) { o.DType = "bf16" }),
	} {
		o := w.options(p)
		want, _ := w.mustRun(o, nil)
		before := device.HostBytes()
		got, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p, BLAS: "gonum", Threads: 3}, progress.Discard)
		if err != nil {
			t.Fatal(name, err)
		}
		if got.ValidAccuracy != want.ValidAccuracy || got.TestAccuracy != want.TestAccuracy || got.TrainAccuracy.Defined() || got.BytesRead == 0 || got.Metric != recipe.MetricAccuracy {
			t.Errorf("%s: %+v; the run had %v and %v", name, got, want.ValidAccuracy, want.TestAccuracy)
		}
		if n := device.HostBytes(); n != before {
			t.Errorf("%s: %d bytes of host memory were not given back", name, n-before)
		}
	}
}

func TestEvaluatePackRefusals(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	o := w.options(p)
	w.mustRun(o, nil)
	loader := w.options(p, func(o *Options) { o.Engine = EngineNone })
	if _, err := w.run(context.Background(), loader, progress.Discard, nil); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t, worldParams{seed: 9})
	deeper := newWorld(t, worldParams{fanout: []int{2, 2, 2}})
	blind := newWorld(t, worldParams{noValid: true})
	blindRun := blind.options(blind.pack(10))
	blind.mustRun(blindRun, nil)
	for name, c := range map[string]struct {
		o    trained.PackOptions
		kind error
		says string
	}{
		"another dataset": {trained.PackOptions{Stores: builtin, Run: o.Out, Pack: other.pack(10)}, fault.ErrLineage, "was trained on the dataset"},
		"no run":          {trained.PackOptions{Stores: builtin, Run: w.path("nowhere"), Pack: p}, fault.ErrInput, "no run at"},
		"a pack":          {trained.PackOptions{Stores: builtin, Run: p, Pack: p}, fault.ErrInput, "is a pack directory, not a run"},
		"no engine":       {trained.PackOptions{Stores: builtin, Run: loader.Out, Pack: p}, fault.ErrInput, "it was trained with --engine none"},
		"deeper":          {trained.PackOptions{Stores: builtin, Run: o.Out, Pack: deeper.pack(10)}, fault.ErrInput, "2 layers"},
		"no batches":      {trained.PackOptions{Stores: builtin, Run: blindRun.Out, Pack: blindRun.Pack}, fault.ErrInput, "no validation"},
		"memory":          {trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p, Memory: 1 << 20}, fault.ErrBudget, "--memory"},
		"weights":         {trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p, Weights: "good"}, fault.ErrUsage, "--weights good"},
		"missing pack":    {trained.PackOptions{Stores: builtin, Run: o.Out}, fault.ErrUsage, "--pack is missing"},
	} {
		_, err := trained.EvaluatePack(context.Background(), disk, c.o, progress.Discard)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := trained.EvaluatePack(ctx, disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p}, progress.Discard); !errors.Is(err, fault.ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

// Weights that are not the model's are refused by name.
func TestForeignWeights(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	narrow, wide := w.options(p), w.options(p, func(o *Options) { o.Hidden = 9 })
	deep := newWorld(t, worldParams{fanout: []int{2, 2, 2}})
	deeper := deep.options(deep.pack(10))
	w.mustRun(narrow, nil)
	w.mustRun(wide, nil)
	deep.mustRun(deeper, nil)
	evaluate := func() error {
		_, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: narrow.Out, Pack: p, Weights: trained.WeightsFinal}, progress.Discard)
		return err
	}
	if err := evaluate(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(narrow.Out, rundir.FinalFile)
	for from, says := range map[string]string{wide.Out: "has the shape [9 7], but the model's has the shape [8 7]", deeper.Out: "has the shape"} {
		b, err := os.ReadFile(filepath.Join(from, rundir.FinalFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := evaluate(); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), rundir.FinalFile) {
			t.Errorf("%v", err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := evaluate(); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "has no "+rundir.FinalFile+": the run is finished") {
		t.Errorf("%v", err)
	}
}

// Weights that diverged, as runs of earlier versions could end with, have no score.
func TestDivergedWeightsHaveNoScore(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	o := w.options(p)
	w.mustRun(o, nil)
	file := filepath.Join(o.Out, rundir.WeightsFile)
	tensors, metadata, err := safetensors.Decode(w.file(o.Out, rundir.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	last := tensors[len(tensors)-1].Data
	last[len(last)-1] = float32(math.NaN())
	var b bytes.Buffer
	if err := errors.Join(safetensors.Write(&b, tensors, metadata), os.WriteFile(file, b.Bytes(), 0o666)); err != nil {
		t.Fatal(err)
	}
	_, err = trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p}, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "validation batch 0: compute: the logits are not finite: the weights of "+o.Out+" diverged") {
		t.Errorf("%v", err)
	}
}
