package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

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
	for n := 0; ; n += 3 {
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
		if n%5 == 0 {
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
	if states < 5 {
		t.Errorf("hidden states were left only %d times", states)
	}
}
