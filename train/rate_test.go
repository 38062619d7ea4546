package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/progress"
	"diskgnn/pack/packfile"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
	"diskgnn/train/trained"
)

// rated is an engine that keeps the rate of every step.
type rated struct {
	engine.Engine
	rate  float64
	steps []float64
	infer int
}

func (r *rated) SetLR(rate float64) error {
	r.rate = rate
	return r.Engine.SetLR(rate)
}

func (r *rated) Apply() error {
	r.steps = append(r.steps, r.rate)
	return r.Engine.Apply()
}

func (r *rated) Infer(ctx context.Context, w engine.Work, f engine.Features) ([]float32, error) {
	r.infer++
	return r.Engine.Infer(ctx, w, f)
}

// Every step is taken at its epoch's rate, which is on record, and is told where it
// varies.
func TestEpochsHaveTheirRates(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	p := w.pack(20)
	for what, change := range map[string]func(*Options){
		"constant": func(*Options) {},
		"warm-up":  func(o *Options) { o.Warmup = 2 },
		"cosine":   func(o *Options) { o.Schedule, o.MinLR = recipe.ScheduleCosine, 0.001 },
		"plateau":  func(o *Options) { o.Schedule, o.PlateauPatience = recipe.SchedulePlateau, 0 },
	} {
		o := w.options(p, change, func(o *Options) { o.Epochs = 5 })
		var e rated
		var rep logged
		r, err := w.run(context.Background(), o, &rep, func(p *parts) {
			wrapEngine(p, func(inner engine.Engine) engine.Engine { e.Engine = inner; return &e })
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []float64
		for i := range r.Epochs {
			rate := epoch.Rate(&o.Recipe, true, r.Epochs[:i])
			want = append(want, slices.Repeat([]float64{rate}, r.Epochs[i].Batches)...)
			if r.Epochs[i].LR != score.Score(rate) {
				t.Errorf("%s: epoch %d says %v, want %v", what, i, r.Epochs[i].LR, rate)
			}
		}
		if !slices.Equal(e.steps, want) {
			t.Errorf("%s: steps at %v, want %v", what, e.steps, want)
		}
		if varied, told := what != "constant", strings.Count(rep.String(), ": lr 0.0"); varied != (told == 5) {
			t.Errorf("%s: the rate is told in %d epochs:\n%s", what, told, &rep)
		}
	}
}

// A run that stops early is one of so many epochs, and its best weights are tested
// without validating again.
func TestStopsEarly(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	pk, err := packfile.Open(disk, p)
	if err != nil {
		t.Fatal(err)
	}
	f := pk.Facts()
	for _, lr := range []float64{1e-12, 0.02} { // no better epoch than the first; some
		long := w.options(p, func(o *Options) { o.Epochs, o.Patience, o.LR, o.Trace = 200, 3, lr, true })
		var e rated
		var rep logged
		r, err := w.run(context.Background(), long, &rep, func(p *parts) {
			wrapEngine(p, func(inner engine.Engine) engine.Engine { e.Engine = inner; return &e })
		})
		if err != nil {
			t.Fatal(err)
		}
		n := len(r.Epochs)
		if !r.StoppedEarly || n != r.BestEpoch+4 || (r.BestEpoch > 0) != (lr > 0.01) || !strings.Contains(rep.String(), "stopped early") {
			t.Errorf("%d epochs, the best is %d, stopped early: %t", n, r.BestEpoch, r.StoppedEarly)
		}
		short := w.options(p, func(o *Options) { o.Epochs, o.LR = n, lr })
		s, _ := w.mustRun(short, nil)
		if s.StoppedEarly {
			t.Error("a run of all its epochs says that it stopped early")
		}
		w.ending(long.Out).compare(t, lr, w.ending(short.Out))

		got, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: long.Out, Pack: p, BLAS: "gonum"}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got.ValidAccuracy != r.ValidAccuracy || got.TestAccuracy != r.TestAccuracy || !r.TestAccuracy.Defined() {
			t.Errorf("evaluated %v and %v, the run has %v and %v", got.ValidAccuracy, got.TestAccuracy, r.ValidAccuracy, r.TestAccuracy)
		}
		if want := n*f.Valid + f.Test; e.infer != want {
			t.Errorf("%d evaluations of a batch, want %d", e.infer, want)
		}
	}

	// Patience that lasts for all epochs stops nothing.
	for _, patience := range []int{2, 50} {
		o := w.options(p, func(o *Options) { o.LR, o.Patience = 1e-12, patience })
		if r, _ := w.mustRun(o, nil); r.StoppedEarly || len(r.Epochs) != 3 {
			t.Errorf("patience %d: %d epochs, stopped early: %t", patience, len(r.Epochs), r.StoppedEarly)
		}
	}
}

// Whatever was left to do when a run that stops early ended, from the last epoch's
// validation on, the process that goes on does that, and no more.
func TestResumesAStopping(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) {
		o.Epochs, o.Patience, o.LR, o.CheckpointEvery = 200, 2, 0.02, rundir.Interval{}
		o.Schedule, o.PlateauPatience = recipe.SchedulePlateau, 0
	})
	boom := errors.New("boom")
	calls := 0 // of the engine, in this process
	failing := func(at int) func(*parts) {
		calls = 0
		return func(p *parts) {
			wrapEngine(p, func(e engine.Engine) engine.Engine {
				return &bad{Engine: e, before: func() error {
					if calls == at {
						return boom
					}
					calls++
					return nil
				}}
			})
		}
	}
	pk, err := packfile.Open(disk, o.Pack)
	if err != nil {
		t.Fatal(err)
	}
	f := pk.Facts()
	r, _ := w.mustRun(o, failing(-1))
	want, total, epoch := w.ending(o.Out), calls, f.BatchesPerEpoch+f.Valid
	if !r.StoppedEarly || total != epoch*len(r.Epochs)+f.Test {
		t.Fatalf("%d calls in %d epochs, stopped early: %t", total, len(r.Epochs), r.StoppedEarly)
	}
	for at := total - f.Test - f.Valid; at < total; at++ {
		o := w.fresh(o)
		if _, err := w.run(context.Background(), o, &logged{}, failing(at)); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		left := f.Test
		if at < total-f.Test { // the checkpoint is that of the epoch before
			left += epoch
		}
		o.Resume = true
		r, err := w.run(context.Background(), o, &logged{}, failing(-1))
		if err != nil || !r.StoppedEarly || calls != left {
			t.Errorf("failed at call %d of %d, then %d calls, want %d; stopped early: %t, %v", at, total, calls, left, r.StoppedEarly, err)
		}
		w.ending(o.Out).compare(t, at, want)
	}
}

// A plateau is seen in the epochs that are validated, so the rate stays until the first of them and
// never rises; without validation batches every epoch is judged by its loss.
func TestPlateauOfRareValidation(t *testing.T) {
	for _, noValid := range []bool{false, true} {
		w := newWorld(t, worldParams{nodes: 150, noValid: noValid})
		o := w.options(w.pack(20), func(o *Options) {
			o.Epochs, o.LR, o.ValidateEvery = 10, 1e-9, 3
			o.Schedule, o.PlateauPatience, o.PlateauFactor = recipe.SchedulePlateau, 0, 0.1
		})
		r, _ := w.mustRun(o, nil)
		lowered := 0
		for i := range r.Epochs {
			if want := epoch.Rate(&o.Recipe, !noValid, r.Epochs[:i]); r.Epochs[i].LR != score.Score(want) {
				t.Errorf("validation %t: epoch %d at %v, want %v", !noValid, i, r.Epochs[i].LR, want)
			}
			if i == 0 || r.Epochs[i].LR == r.Epochs[i-1].LR {
				continue
			}
			lowered++
			if r.Epochs[i].LR > r.Epochs[i-1].LR || !noValid && i%3 != 0 {
				t.Errorf("validation %t: epoch %d at %v after %v", !noValid, i, r.Epochs[i].LR, r.Epochs[i-1].LR)
			}
		}
		if lowered == 0 {
			t.Errorf("validation %t: the rate was never lowered", !noValid)
		}
	}
}

// Validating less often changes neither the training nor the scores there are; the best
// epoch is one of those validated, and the last is.
func TestValidatesNowAndThen(t *testing.T) {
	w := newWorld(t, worldParams{})
	every := w.options(w.pack(10), func(o *Options) { o.Epochs, o.LR = 8, 0.02 })
	want, _ := w.mustRun(every, nil)
	rare := w.fresh(every, func(o *Options) { o.ValidateEvery = 3 })
	got, _ := w.mustRun(rare, nil)
	for i, e := range got.Epochs {
		validated := i == 2 || i == 5 || i == 7
		if e.Loss != want.Epochs[i].Loss || e.ValidAccuracy.Defined() != validated || validated && e.ValidAccuracy != want.Epochs[i].ValidAccuracy {
			t.Errorf("epoch %d: loss %v, score %v; with all validated %v and %v", i, e.Loss, e.ValidAccuracy, want.Epochs[i].Loss, want.Epochs[i].ValidAccuracy)
		}
	}
	if b := got.BestEpoch; b != 2 && b != 5 && b != 7 || !got.TestAccuracy.Defined() {
		t.Errorf("the best epoch is %d, the test score %v", b, got.TestAccuracy)
	}
	if !reflect.DeepEqual(w.weights(rare.Out, rundir.FinalFile), w.weights(every.Out, rundir.FinalFile)) {
		t.Error("other weights at the end")
	}
	report, err := os.ReadFile(filepath.Join(rare.Out, rundir.ReportFile))
	if err != nil || bytes.Contains(report, []byte("NaN")) || !bytes.Contains(report, []byte("every 3 epochs")) {
		t.Errorf("the report: %v", err)
	}

	// Patience ends only after a validation.
	patient := w.fresh(every, func(o *Options) { o.Epochs, o.LR, o.ValidateEvery, o.Patience = 50, 1e-12, 4, 2 })
	if r, _ := w.mustRun(patient, nil); len(r.Epochs) != 8 || r.BestEpoch != 3 || !r.StoppedEarly {
		t.Errorf("%d epochs, the best is %d, stopped early: %t", len(r.Epochs), r.BestEpoch, r.StoppedEarly)
	}

	// An interrupted run goes on to the same bytes, also before its first validation.
	for _, steps := range []int{2, 9, 31} {
		o := w.fresh(rare, func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 1} })
		w.interrupt(o, steps-1)
		o.Resume = true
		if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
			t.Fatal(err)
		}
		w.ending(o.Out).compare(t, steps, w.ending(rare.Out))
	}
}
