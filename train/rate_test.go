package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/progress"
	"diskgnn/pack/packfile"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// scored makes epochs of validation scores.
func scored(scores ...score.Score) []rundir.Epoch {
	epochs := make([]rundir.Epoch, len(scores))
	for i, s := range scores {
		epochs[i] = rundir.Epoch{Epoch: i, ValidAccuracy: s, Loss: score.Score(i)} // the loss only gets worse
	}
	return epochs
}

// lost makes epochs of losses, not validated.
func lost(losses ...score.Score) []rundir.Epoch {
	epochs := make([]rundir.Epoch, len(losses))
	for i, l := range losses {
		epochs[i] = rundir.Epoch{Epoch: i, ValidAccuracy: score.Undefined, Loss: l}
	}
	return epochs
}

func TestRateByHand(t *testing.T) {
	plateau := func(patience int, o recipe.Recipe) recipe.Recipe {
		o.Schedule, o.LR, o.PlateauFactor, o.PlateauPatience = recipe.SchedulePlateau, 1, 0.5, patience
		return o
	}
	rare := func(patience, every int, o recipe.Recipe) recipe.Recipe {
		o.Epochs, o.ValidateEvery = 100, every
		return plateau(patience, o)
	}
	none, unvalidated := score.Undefined, []string{"plateau, by the loss", "plateau, nothing to validate"}
	for what, c := range map[string]struct {
		recipe recipe.Recipe
		before []rundir.Epoch
		want   []float64 // of the first epoch, …, of the one after all these
	}{
		"constant": {recipe.Recipe{LR: 0.25}, scored(0, 0), []float64{0.25, 0.25, 0.25}},
		"constant, warm-up": {recipe.Recipe{LR: 1, Warmup: 4}, scored(0, 0, 0, 0, 0),
			[]float64{0.25, 0.5, 0.75, 1, 1, 1}},
		"cosine": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, Epochs: 4}, scored(0, 0, 0),
			[]float64{1, 0.853553, 0.5, 0.146447}},
		"cosine, floor": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, MinLR: 0.2, Epochs: 4}, scored(0, 0, 0),
			[]float64{1, 0.882843, 0.6, 0.317157}},
		"cosine, warm-up": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, Epochs: 6, Warmup: 2}, scored(0, 0, 0, 0, 0),
			[]float64{0.5, 1, 1, 0.853553, 0.5, 0.146447}},
		"cosine, nothing but warm-up": {recipe.Recipe{Schedule: recipe.ScheduleCosine, LR: 1, Epochs: 2, Warmup: 2}, scored(0), []float64{0.5, 1}},
		// Two epochs no better than 0.6, two more, a better one, two no better than that.
		"plateau": {plateau(1, recipe.Recipe{MinLR: 0.2}), scored(0.5, 0.6, 0.6, 0.55, 0.6, 0.6, 0.7, 0.7, 0.7),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2}},
		"plateau, impatient":      {plateau(0, recipe.Recipe{}), scored(0.5, 0.5, 0.4, 0.6), []float64{1, 1, 0.5, 0.25, 0.25}},
		"plateau, undefined once": {plateau(0, recipe.Recipe{}), scored(0.5, score.Undefined, 0.6), []float64{1, 1, 0.5, 0.5}},
		"plateau, by the loss": {plateau(1, recipe.Recipe{}), lost(3, 2, 2.5, 2, 1.9, score.Undefined, 1.9),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25}},
		// Losses rise throughout, and count neither before the first validation nor after it.
		"plateau, validated at times": {rare(0, 3, recipe.Recipe{}), scored(none, none, 0.5, none, none, 0.4, none, none, 0.6),
			[]float64{1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}},
		"plateau, validated at times, warm-up": {rare(0, 2, recipe.Recipe{Warmup: 1}), scored(none, 0.5, none, 0.5, none, 0.6),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.5}},
		// The first validation has no score: the losses of validated epochs count to the end.
		"plateau, no score at first": {rare(0, 2, recipe.Recipe{}), scored(none, none, none, none, none, 0.9, none, 0.8),
			[]float64{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125}},
		"plateau, nothing to validate": {rare(0, 3, recipe.Recipe{}), lost(3, 3, 2, 2), []float64{1, 1, 0.5, 0.5, 0.25}},
		// What was best in the warm-up is forgotten.
		"plateau, warm-up": {plateau(0, recipe.Recipe{Warmup: 2}), scored(0.9, 0.9, 0.5, 0.6, 0.6), []float64{0.5, 1, 1, 1, 1, 0.5}},
	} {
		for n, want := range c.want {
			if got := rate(&c.recipe, !slices.Contains(unvalidated, what), c.before[:n]); math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: epoch %d at %v, want %v", what, n, got, want)
			}
		}
		if len(c.want) != len(c.before)+1 {
			t.Errorf("%s: %d rates for %d epochs", what, len(c.want), len(c.before))
		}
	}
}

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
			rate := rate(&o.Recipe, true, r.Epochs[:i])
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

		got, err := EvaluatePack(context.Background(), disk, EvalOptions{Run: long.Out, Pack: p, BLAS: "gonum"}, progress.Discard)
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
			if want := rate(&o.Recipe, !noValid, r.Epochs[:i]); r.Epochs[i].LR != score.Score(want) {
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
