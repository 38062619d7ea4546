package train

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// live makes options those of a run whose batches are drawn while training, as the world's
// samples were.
func (w *world) live(o *Options) {
	o.Pack, o.Samples, o.Dataset = "", "", w.path("dataset")
	o.Fanout, o.BatchSize = "3,4", 16
}

// dry draws a part of an epoch before training.
func dry(epochs string) func(*Options) { return func(o *Options) { o.DryEpochs = epochs } }

// A run whose batches are drawn while training ends with the losses, scores and weights of
// one on the samples of as many epochs, to the last bit, however much of them the dry pass
// drew: ranks decide numbers with an input projection alone, which draws all of them.
func TestLiveTrainsAsOnSamples(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, epochs: 3})
	for _, model := range []string{"sage", "gcn", "gat"} {
		for what, c := range map[string]struct {
			projection bool
			change     func(*Options)
		}{
			"aggregate":  {false, func(o *Options) { o.LayerOrder, o.Dropout = "aggregate", 0.5 }},
			"multiply":   {false, func(o *Options) { o.LayerOrder, o.Norm, o.Residual = "multiply", "batch", true }},
			"shuffled":   {false, func(o *Options) { o.LayerOrder, o.ShuffleBatches = "aggregate", true }},
			"projection": {true, func(o *Options) { o.InputProjection, o.Dropout = true, 0.5 }},
		} {
			a := w.options("", w.fromSamples, func(o *Options) { o.Model = model }, c.change)
			_, want := w.mustRun(a, nil)
			for _, epochs := range []string{"auto", "all", "0.01"} {
				if c.projection && epochs == "0.01" {
					continue
				}
				b := w.fresh(a, w.live, dry(epochs))
				_, got := w.mustRun(b, nil)
				x, y := w.ending(a.Out), w.ending(b.Out)
				x.metrics, y.metrics = "", "" // nothing is read of graphs
				if !slices.Equal(got, want) || x != y {
					t.Errorf("%s, %s, dry %s: losses %v, of samples %v", model, what, epochs, got, want)
				}
			}
		}
	}
}

// A batch that is larger than those of the dry pass ends an attempt at its latest step; the
// next one has room for it, and the run ends as if there had been room from the beginning.
func TestLiveGrows(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, fanout: []int{3, 4}, epochs: 3})
	whole := w.options("", w.live, dry("all"), func(o *Options) { o.LayerOrder = "multiply" })
	_, want := w.mustRun(whole, nil)
	for name, change := range map[string]func(*Options){
		"cpu":           func(*Options) {},
		"force":         func(o *Options) { o.Force = true },
		"resumed":       func(o *Options) { o.Resume = true },
		"one slot":      func(o *Options) { o.Slots = 1 },
		"no checkpoint": func(o *Options) { o.CheckpointEvery = rundir.Interval{Time: 1 << 40} },
	} {
		o := w.fresh(whole, dry("0.01"), change)
		began := rundir.ResultNew
		if o.Force || o.Resume {
			w.interrupt(o, 2) // which is replaced, or gone on with
		}
		if o.Resume {
			began = rundir.ResultResumed
		}
		var rep logged
		var rec recorder
		if r, err := w.run(context.Background(), o, &rep, rec.wrap); err != nil || r.State != began {
			t.Fatalf("%s: %s, %v", name, r.State, err)
		}
		if n := strings.Count(rep.String(), "is larger than the batches of the dry pass: making room for it"); n < 1 || n > 9 || !strings.Contains(rep.String(), "dry pass: drew 1 of ") {
			t.Errorf("%s: grown %d times: %s", name, n, rep.String())
		}
		if n := len(want) - len(rec.losses); n > 0 && !o.Resume || n < 0 || !slices.Equal(rec.losses, want[n:]) {
			t.Errorf("%s: losses %v, want %v", name, rec.losses, want)
		}
		w.ending(o.Out).compare(t, name, w.ending(whole.Out))
		if f := state(t, o.Out); o.Slots == 1 && f.Resumed == 0 || f.Error != "" {
			t.Errorf("%s: resumed %d times, %q", name, f.Resumed, f.Error)
		}
	}
}

// Where there is no room to grow, the run is left to be gone on with, and the error says so.
func TestLiveHasNoRoomToGrow(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, epochs: 3})
	whole := w.options("", w.live, dry("0.01"))
	_, want := w.mustRun(whole, nil)
	o := w.fresh(whole)
	plans := 0
	_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
		inner := p.decide
		p.decide = func(o decide.Options, f decide.Facts) (decide.Decision, error) {
			if plans++; plans > 1 {
				f.Needs.Engine = o.Memory
			}
			return inner(o, f)
		}
	})
	if !errors.Is(err, fault.ErrBudget) || plans != 2 || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%d plans, %v", plans, err)
	}
	for _, words := range []string{"training batch ", "is larger than the batches of the dry pass, and memory does not suffice for it: --memory ", "the least that would do", "to go on with more memory, run: diskgnn train --out " + o.Out + " --resume --memory SIZE"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
	again := Options{Stores: builtin, Out: o.Out, Resume: true}
	_, losses := w.mustRun(again, nil)
	if n := len(want) - len(losses); n < 0 || !slices.Equal(losses, want[n:]) {
		t.Errorf("gone on with: %v, want the end of %v", losses, want)
	}
	w.ending(o.Out).compare(t, "gone on with", w.ending(whole.Out))
}

// A run goes on from what run.json has, whatever the samples would have been; other ones are
// refused by the flag, and so are batches that were drawn before.
func TestLiveResumes(t *testing.T) {
	w := newWorld(t, worldParams{})
	whole := w.options("", w.live, func(o *Options) { o.SampleSeed, o.TrainRatio, o.EvalFanout = 7, 0.8, "all" })
	w.mustRun(whole, nil)
	o := w.fresh(whole)
	for _, steps := range []int{3, 5} { // resumed twice
		w.interrupt(o, steps)
		o = Options{Stores: builtin, Out: o.Out, Resume: true}
	}
	f := state(t, o.Out)
	if p := f.Params.Recipe; p.Fanout != "3,4" || p.EvalFanout != "all" || p.BatchSize != 16 || p.SampleSeed != 7 || p.TrainRatio != 0.8 || p.DryEpochs != "auto" ||
		f.Samples == "" || f.SamplesPath != "" || f.DatasetPath == "" || f.PackFacts.Epochs != whole.Epochs {
		t.Errorf("run.json has %+v", f)
	}
	before := string(w.file(o.Out, "run.json"))
	for want, c := range map[string]struct {
		kind   error
		change func(*Options)
	}{
		"--fanout 3,5 was given, but the run has 3,4":      {fault.ErrExists, func(o *Options) { o.Fanout, o.Given = "3,5", []string{"fanout"} }},
		"--batch-size 8 was given, but the run has 16":     {fault.ErrExists, func(o *Options) { o.Fanout, o.BatchSize, o.Given = "3,4", 8, []string{"fanout", "batch-size"} }},
		"--sample-seed 1 was given, but the run has 7":     {fault.ErrExists, func(o *Options) { o.SampleSeed, o.Given = 1, []string{"sample-seed"} }},
		"--dry-epochs all was given, but the run has auto": {fault.ErrExists, func(o *Options) { o.DryEpochs, o.Given = "all", []string{"dry-epochs"} }},
		"on batches that were drawn while training":        {fault.ErrLineage, w.fromSamples},
	} {
		other := Options{Stores: builtin, Out: o.Out, Resume: true}
		c.change(&other)
		_, err := w.run(context.Background(), other, &logged{}, nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	another := newWorld(t, worldParams{seed: 5})
	_, err := w.run(context.Background(), Options{Stores: builtin, Out: o.Out, Resume: true, Dataset: another.path("dataset")}, &logged{}, nil)
	if !errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), "was trained on the dataset ") {
		t.Errorf("another dataset: %v", err)
	}
	if string(w.file(o.Out, "run.json")) != before {
		t.Error("a refused run changed run.json")
	}
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Fatal(err)
	}
	w.ending(o.Out).compare(t, "resumed", w.ending(whole.Out))

	drawn := w.options("", w.fromSamples)
	w.interrupt(drawn, 3)
	_, err = w.run(context.Background(), Options{Stores: builtin, Out: drawn.Out, Resume: true, Recipe: whole.Recipe}, &logged{}, nil)
	if !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "go on without --fanout") {
		t.Errorf("a run on samples: %v", err)
	}
}

// What is interrupted before it begins, in the dry pass, leaves nothing and says so.
func TestLiveInterruptedInTheDryPass(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options("", w.live)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := w.run(ctx, o, &logged{}, nil)
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "before training began") {
		t.Error(err)
	}
	if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", o.Out, err)
	}
	w.interrupt(o, 2)
	o.Resume = true
	if _, err := w.run(ctx, o, &logged{}, nil); !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "go on with: diskgnn train --out "+o.Out+" --resume") {
		t.Error(err)
	}
}

// Flags that make no sense together are refused before anything is read.
func TestLiveRefusals(t *testing.T) {
	w := newWorld(t, worldParams{})
	for want, change := range map[string]func(*Options){
		"--fanout draws batches while training, but " + w.path("samples") + " has batches": func(o *Options) { o.Samples = w.path("samples") },
		"--fanout draws batches while training, but a/pack has batches":                    func(o *Options) { o.Pack = "a/pack" },
		"--fanout: \"3,x\" is not a list of fanouts":                                       func(o *Options) { o.Fanout = "3,x" },
		"--eval-fanout 3 has 1 layers, but --fanout has 2":                                 func(o *Options) { o.EvalFanout = "3" },
		"--batch-size -1: needs 1":                                                         func(o *Options) { o.BatchSize = -1 },
		"--sampler ladies is not one of":                                                   func(o *Options) { o.Sampler = "ladies" },
		"--train-ratio 2: needs a share":                                                   func(o *Options) { o.TrainRatio = 2 },
		"--dry-epochs -1: give":                                                            func(o *Options) { o.DryEpochs = "-1" },
		"--sample-seed is for batches that are drawn while training":                       func(o *Options) { o.Fanout, o.BatchSize, o.Samples, o.SampleSeed = "", 0, w.path("samples"), 3 },
	} {
		o := w.options("", w.live, change)
		if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Too little memory for the dry pass, or for training after it, is refused with what to do.
func TestLiveBudget(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 2000, dim: 700})
	for memory, want := range map[int64]string{
		30 << 20:        "reading the labels needs ",
		32<<20 + 50_000: "leaves for it: give more, sample fewer neighbours (--fanout 3,4), or make batches smaller (--batch-size)",
		36 << 20:        "would do: --memory ",
	} {
		o := w.options("", w.live, func(o *Options) { o.Memory = memory })
		if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), want) {
			t.Errorf("with %d bytes: %v", memory, err)
		}
	}
}

// A GPU trains on batches that are drawn while training, and grows like the CPU.
func TestLiveOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, epochs: 3})
	onGPU(t, func(t *testing.T, use func(*parts)) {
		a := w.options("", w.fromSamples, gpuRun, func(o *Options) { o.LayerOrder = "aggregate" })
		_, want := w.mustRun(a, use)
		for _, epochs := range []string{"all", "0.01"} {
			_, losses := w.mustRun(w.fresh(a, w.live, dry(epochs)), use)
			if len(losses) != len(want) {
				t.Fatalf("dry %s: losses %v, of samples %v", epochs, losses, want)
			}
			for i := range want {
				if math.Abs(losses[i]-want[i]) > 1e-5 {
					t.Fatalf("dry %s: losses %v, of samples %v", epochs, losses, want)
				}
			}
		}
	})
}
