package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/train/decide"
	"diskgnn/train/exact"
	"diskgnn/train/oracle"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// exactly are options of a run that validates exactly.
func (w *world) exactly(o *Options) { o.Validation, o.Dataset = recipe.Exact, w.path("dataset") }

// tightly gives exact validations the least memory, so that hidden states lie on disk.
func tightly(p *parts) {
	whole := p.decide
	p.decide = func(o decide.Options, f decide.Facts) (decide.Decision, error) {
		d, err := whole(o, f)
		d.Memory.Exact = f.Exact.Least
		return d, err
	}
}

// evaluated returns the exact scores of a run.
func (w *world) evaluated(o Options, engine string) (valid, test float64) {
	w.t.Helper()
	e, err := exact.Evaluate(context.Background(), disk, exact.Options{Run: o.Out, Dataset: w.path("dataset"), BLAS: "gonum", IO: quick, Engine: engine, Memory: 1 << 30}, progress.Discard)
	if err != nil {
		w.t.Fatal(err)
	}
	return float64(e.ValidAccuracy), float64(e.TestAccuracy)
}

// A run that validates exactly has the scores of eval --exact with its best weights, to the bit, on a pack and on a
// dataset, and the steps of a run that validates on batches.
func TestExactValidation(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	quantized := w.pack(10, func(o *pack.Options) { o.DType = "bf16" })
	long := func(o *Options) { o.Epochs, o.LR, o.ValidateEvery = 9, 0.05, 2 }
	for name, change := range map[string]func(o *Options){
		"sage": func(o *Options) {},
		"gat, bf16 pack, AUC": func(o *Options) {
			o.Pack, o.Model, o.Heads, o.Norm, o.Metric = quantized, "gat", 2, "batch", recipe.MetricF1
		},
		"gcn, samples": func(o *Options) {
			o.Pack, o.Samples, o.Model, o.GCNNorm, o.Residual = "", w.path("samples"), "gcn", "block", true
		},
		"drawn": func(o *Options) { o.Pack, o.Fanout, o.BatchSize, o.InputProjection = "", "3,4", 20, true },
	} {
		t.Run(name, func(t *testing.T) {
			o := w.options(p, w.exactly, long, change)
			o.EnsureDefaults()
			r, losses := w.mustRun(o, tightly)
			sampled := w.fresh(o, func(o *Options) {
				if o.Validation = ""; o.Pack != "" {
					o.Dataset = ""
				}
			})
			s, want := w.mustRun(sampled, nil)
			if !slices.Equal(losses, want) {
				t.Error("the steps are others")
			}
			differ := false
			for i, e := range r.Epochs {
				due := o.Validates(i)
				if e.ValidExact != due || e.ValidAccuracy.Defined() != due || (e.ValidBytesRead > 0) != due || s.Epochs[i].ValidExact {
					t.Errorf("epoch %d: %+v", i, e)
				}
				differ = differ || due && e.ValidAccuracy != s.Epochs[i].ValidAccuracy
			}
			if !differ {
				t.Error("no score differs from a sampled one")
			}
			valid, test := w.evaluated(o, "cpu")
			if float64(r.ValidAccuracy) != valid || float64(r.TestAccuracy) != test || !r.Exact() || s.Exact() || r.Epochs[r.BestEpoch].ValidAccuracy != r.ValidAccuracy {
				t.Errorf("the run scores %v and %v, eval --exact %v and %v", r.ValidAccuracy, r.TestAccuracy, valid, test)
			}
			if f := state(t, o.Out); f.Setup.ExactSize == 0 || f.Setup.EvalSlots != 0 || f.Params.Validation != recipe.Exact || f.DatasetPath == "" {
				t.Errorf("run.json: %+v", f.Setup)
			}
			if _, err := os.Stat(filepath.Join(o.Out, rundir.ScratchDir)); err == nil {
				t.Error("hidden states stay")
			}
		})
	}
}

// On an emulated GPU, too, and the accuracy is by the formulas in float64.
func TestExactValidationOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	o := w.options(w.pack(20), w.exactly, gpuRun, func(o *Options) { o.Norm, o.LR, o.GPUCache = "batch", 0.05, percent(50) })
	onGPU(t, func(t *testing.T, use func(*parts)) {
		o := w.fresh(o)
		r, _ := w.mustRun(o, use)
		run, err := oracle.OpenRun(o.Out, rundir.WeightsFile)
		if err != nil {
			t.Fatal(err)
		}
		d, err := oracle.OpenDataset(w.path("dataset"))
		if err != nil {
			t.Fatal(err)
		}
		states := run.Layers(&d.Graph)
		logits := states[len(states)-1]
		for i, got := range []float64{float64(r.ValidAccuracy), float64(r.TestAccuracy)} {
			right, all := 0, 0
			for _, v := range d.Splits[1+i] {
				if d.Labels[v] < 0 {
					continue
				}
				if all++; slices.Index(logits[v], slices.Max(logits[v])) == d.Labels[v] {
					right++
				}
			}
			if got != float64(right)/float64(all) || !r.Exact() {
				t.Errorf("split %d: %v, by the formulas %d of %d", 1+i, got, right, all)
			}
		}
		if s := r.Setup; s.Engine != EngineGPU || s.EvalSlots != 0 || s.ExactSize == 0 || s.GPUCacheRows == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A run that validates exactly is interrupted at any call of the engine, and killed after any write, also of hidden states,
// and ends with the bytes of one that never was.
func TestExactValidationResumes(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30, epochs: 1})
	o := w.options(w.pack(20), w.exactly, func(o *Options) {
		o.Epochs, o.CheckpointEvery, o.Keep, o.LR = 2, rundir.Interval{Batches: 2}, 1, 0.05
	})
	w.mustRun(o, tightly)
	want := w.ending(o.Out)
	begun := func(o Options, in vfs.Injector) error {
		p := usual(all.Open, newCPUEngine)
		tightly(&p)
		_, err := run(context.Background(), vfs.Inject(disk, in), o, progress.Discard, p)
		return err
	}
	states := 0
	for n := 0; ; n += 7 {
		o := w.fresh(o, func(o *Options) { o.Resume = true })
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("crash")}
		err := begun(o, in)
		if !in.Fired() {
			if err != nil || n < 80 {
				t.Errorf("after %d faults: %v", n, err)
			}
			break
		}
		if left, _ := os.ReadDir(filepath.Join(o.Out, rundir.ScratchDir)); len(left) > 1 {
			states++
		}
		if n%2 == 0 {
			_ = begun(o, &vfs.FailAt{N: n * 7 % 11, After: true, Err: errors.New("crash")}) // while it resumes
		}
		if ok, _ := vfs.Exists(disk, filepath.Join(o.Out, "run.json")); ok {
			o.Pack, o.Dataset = "", "" // which it names
		}
		if _, err := w.run(context.Background(), o, &logged{}, tightly); err != nil {
			t.Fatalf("crash at write %d, then: %v", n, err)
		}
		if _, err := os.Stat(filepath.Join(o.Out, rundir.ScratchDir)); err == nil {
			t.Errorf("crash at write %d: hidden states stay", n)
		}
		w.checkEnded(o.Out, n, want)
	}
	if states < 4 {
		t.Errorf("hidden states were left only %d times", states)
	}
}

// Rank 0 scores for all ranks, on its device or as a process: bits are as of one rank. The others need no dataset.
func TestExactValidationOfRanks(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10), w.exactly, func(o *Options) { o.LR, o.Accumulate, o.Patience, o.Epochs = 0.05, 2, 2, 6 })
	r, err := w.run(context.Background(), o, progress.Discard, tightly)
	if err != nil {
		t.Fatal(err)
	}
	want := w.learned(o.Out, &r)
	two := w.fresh(o)
	r = party{w: w, change: func(rank int, o *Options) {
		if rank > 0 {
			o.Dataset = ""
		}
	}}.must(2, two)
	if got := w.learned(two.Out, &r); got != want || !r.Exact() {
		t.Errorf("two ranks:\n%.600s\none:\n%.600s", got, want)
	}
	gpus := w.fresh(o, gpuRun)
	r, err = onGPUs(t, w, gpus, 2, false, newHall(2), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if valid, test := w.evaluated(gpus, "cpu"); math.Abs(float64(r.ValidAccuracy)-valid) > 0.02 || math.Abs(float64(r.TestAccuracy)-test) > 0.02 || !r.Exact() {
		t.Errorf("two GPUs: %v and %v, want %v and %v", r.ValidAccuracy, r.TestAccuracy, valid, test)
	}
}

// An interruption in the midst of a validation leaves a checkpoint before it, and no states. A finished run is made longer
// by its dataset alone.
func TestExactValidationInterrupted(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30, epochs: 1})
	o := w.options(w.pack(20), w.exactly, func(o *Options) { o.Epochs, o.LR, o.CheckpointEvery = 3, 0.05, rundir.Interval{Time: 1 << 40} })
	w.mustRun(o, tightly)
	want := w.ending(o.Out)
	for n := range 6 {
		o := w.fresh(o)
		ctx, cancel := context.WithCancel(context.Background())
		p, seen := usual(all.Open, newCPUEngine), 0
		tightly(&p)
		_, err := run(ctx, vfs.Inject(disk, injector(func(op vfs.Op, name string) error {
			if op == vfs.OpWrite && strings.Contains(name, "/"+rundir.ScratchDir+"/") {
				if seen++; seen == 1+7*n {
					cancel()
				}
			}
			return nil
		})), o, progress.Discard, p)
		cancel()
		if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), " and 2 of 2 batches; go on with: ") {
			t.Fatalf("write %d of states: %v", n, err)
		}
		if _, err := os.Stat(filepath.Join(o.Out, rundir.ScratchDir)); err == nil {
			t.Error("states stay")
		}
		o.Resume, o.Pack, o.Dataset = true, "", ""
		if _, err := w.run(context.Background(), o, &logged{}, tightly); err != nil {
			t.Fatal(err)
		}
		w.ending(o.Out).compare(t, n, want)
	}
	shorter := w.fresh(o, func(o *Options) { o.Epochs = 2 })
	w.mustRun(shorter, tightly)
	shorter.Resume, shorter.Epochs, shorter.Pack, shorter.Given = true, 3, "", []string{"epochs"}
	if _, err := w.run(context.Background(), shorter, &logged{}, tightly); err != nil {
		t.Fatal(err)
	}
	w.ending(shorter.Out).compare(t, "longer", want)
	// States that a kill has left go, where a run goes on or begins anew with memory for states.
	for _, change := range []func(o *Options){
		func(o *Options) { o.Epochs = 4 },
		func(o *Options) { o.Resume, o.Force, o.Given = false, true, nil },
	} {
		if change(&shorter); shorter.Force {
			shorter.Pack = o.Pack
		}
		left := filepath.Join(shorter.Out, rundir.ScratchDir)
		if err := errors.Join(os.Mkdir(left, 0o777), os.WriteFile(filepath.Join(left, "layer-0"), nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.run(context.Background(), shorter, &logged{}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); err == nil {
			t.Errorf("states stay, with --force: %t", shorter.Force)
		}
	}
}

// injector is a function that operations pass.
type injector func(op vfs.Op, name string) error

func (i injector) Before(op vfs.Op, name string) error { return i(op, name) }
