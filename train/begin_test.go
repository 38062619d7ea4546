package train

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// A run begins with the weights that it is given: at a rate too small to move them it ends with
// them, whichever model. Interrupted at once or later, it ends as one that was not.
func TestBeginsWithWeights(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30})
	p := w.pack(20)
	for _, kind := range []model.Kind{model.SAGE, model.GCN, model.GAT} {
		small := func(o *Options) { o.Model, o.Heads, o.Epochs, o.Activation = string(kind), 2, 1, "auto" }
		first := w.options(p, small)
		w.mustRun(first, nil)
		still := w.options(p, small, func(o *Options) { o.Seed, o.LR, o.WeightsPath = 5, 1e-30, first.Out })
		w.mustRun(still, nil)
		want, _, err := safetensors.Decode(w.file(first.Out, rundir.WeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := safetensors.Decode(w.file(still.Out, rundir.FinalFile))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			for k, x := range want[i].Data {
				if got[i].Name != want[i].Name || math.Float32bits(got[i].Data[k]) != math.Float32bits(x) {
					t.Fatalf("%s: %s: value %d is %v, it began with %v", kind, want[i].Name, k, got[i].Data[k], x)
				}
			}
		}
		// Copies of the file are as good.
		moved := w.path("moved.safetensors")
		if err := os.WriteFile(moved, w.file(first.Out, rundir.WeightsFile), 0o666); err != nil {
			t.Fatal(err)
		}
		o := w.options(p, small, func(o *Options) { o.Epochs, o.WeightsPath = 3, first.Out })
		w.mustRun(o, nil)
		want2 := w.ending(o.Out)
		for _, calls := range []int{0, 4} {
			o := w.fresh(o, func(o *Options) { o.WeightsPath = moved })
			w.interrupt(o, calls)
			w.mustRun(Options{Stores: builtin, Out: o.Out, Resume: true}, nil)
			w.ending(o.Out).compare(t, "resumed", want2)
		}
	}
}

// What is no file of the model's weights is refused before a directory is made; a run goes on with
// no other weights than it began with, and knows its file by the content.
func TestOtherWeightsRefused(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30})
	p := w.pack(20)
	first := w.options(p, func(o *Options) { o.Epochs = 1 })
	w.mustRun(first, nil)
	write := func(name string, change func([]safetensors.Tensor)) string {
		list, _, err := safetensors.Decode(w.file(first.Out, rundir.WeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		change(list)
		f, err := os.Create(w.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(safetensors.Write(f, list, nil), f.Close()); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	nan := write("nan", func(l []safetensors.Tensor) { l[1].Data[0] = float32(math.NaN()) })
	renamed := write("renamed", func(l []safetensors.Tensor) { l[0].Name = "convs.9.weight" })
	other := write("other", func(l []safetensors.Tensor) { l[0].Data[0]++ })
	for want, c := range map[string]struct {
		kind   error
		change func(*Options)
	}{
		"there is no such file or run":                             {fault.ErrInput, func(o *Options) { o.WeightsPath = w.path("nowhere") }},
		"the directory has no weights.safetensors":                 {fault.ErrInput, func(o *Options) { o.WeightsPath = w.path("samples") }},
		"has the shape [8 7], but the model's has the shape [9 7]": {fault.ErrInput, func(o *Options) { o.WeightsPath, o.Hidden = first.Out, 9 }},
		"parameter convs.0.lin.weight is missing":                  {fault.ErrInput, func(o *Options) { o.WeightsPath, o.Model = first.Out, "gcn" }},
		"--init-from " + renamed + ": the parameter ":              {fault.ErrInput, func(o *Options) { o.WeightsPath = renamed }},
		"are not finite": {fault.ErrInput, func(o *Options) { o.WeightsPath = nan }},
		"meta.json: it is not a safetensors file":                 {fault.ErrInput, func(o *Options) { o.WeightsPath = w.path("dataset/meta.json") }},
		"with --engine none there are no weights":                 {fault.ErrUsage, func(o *Options) { o.WeightsPath, o.Engine = first.Out, EngineNone }},
		"--force removes it before training begins; give another": {fault.ErrUsage, func(o *Options) { o.WeightsPath, o.Out, o.Force = first.Out, first.Out, true }},
	} {
		o := w.options(p, func(o *Options) { o.Epochs, o.Hidden = 1, 8 })
		c.change(&o)
		_, err := w.run(context.Background(), o, &logged{}, nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(o.Out); err == nil && o.Out != first.Out {
			t.Errorf("%q: a directory was made", want)
		}
	}

	mine := write("mine", func(l []safetensors.Tensor) { l[0].Data[1]++ })
	o := w.options(p, func(o *Options) { o.Epochs, o.WeightsPath = 2, mine })
	w.interrupt(o, 0) // before there is a checkpoint
	resumed := func(path string) error {
		again := Options{Stores: builtin, Out: o.Out, Resume: true}
		if again.WeightsPath = path; path != "" {
			again.Given = []string{"init-from"}
		}
		_, err := w.run(context.Background(), again, &logged{}, nil)
		return err
	}
	if err := resumed(other); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "the run began with another file, "+mine) {
		t.Errorf("%v", err)
	}
	kept := w.file(w.dir, "mine")
	for want, change := range map[string]func() error{
		"it changed since the run began with it": func() error { return os.WriteFile(mine, w.file(w.dir, "other"), 0o666) },
		"which is gone":                          func() error { return os.Remove(mine) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := resumed(""); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := os.WriteFile(mine, kept, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := resumed(mine); err != nil {
		t.Error(err)
	}
	plain := w.options(p, func(o *Options) { o.Epochs = 2 })
	w.interrupt(plain, 2)
	_, err := w.run(context.Background(), Options{Stores: builtin, Out: plain.Out, Resume: true, WeightsPath: mine, Given: []string{"init-from"}}, &logged{}, nil)
	if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "the run began with random weights of --seed") {
		t.Errorf("%v", err)
	}
}

// Ranks begin with the same weights, and a run of them ends as one of a single rank; it is made longer
// by any number of them. A rank with another file is refused.
func TestRanksBeginWithWeights(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 15})
	p := w.pack(20)
	first := w.options(p, func(o *Options) { o.Epochs = 1 })
	w.mustRun(first, nil)
	o := w.options(p, func(o *Options) { o.Epochs, o.Accumulate, o.WeightsPath, o.BLAS = 4, 2, first.Out, "gonum" })
	w.mustRun(o, nil)
	want := w.ending(o.Out)
	both := w.fresh(o, func(o *Options) { o.Epochs = 2 })
	party{w: w}.must(2, both)
	more := longer(both.Out, 4)
	party{w: w}.must(2, more)
	if got := w.ending(both.Out); got.final != want.final || got.weights != want.weights {
		t.Error("other weights than one rank has")
	}
	other := w.options(p, func(o *Options) { o.Epochs, o.Seed = 1, 9 })
	w.mustRun(other, nil)
	_, errs := party{w: w, change: func(rank int, o *Options) {
		if rank == 1 {
			o.WeightsPath = other.Out
		}
	}}.run(2, w.fresh(o))
	for rank, err := range errs {
		if !errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), "its --init-from is ") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
