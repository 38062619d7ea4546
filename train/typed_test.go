package train

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
)

// On every store of the same samples of a typed graph, losses, scores and weights are the same to the last bit.
func TestStoresTrainTypedTheSame(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 600, dim: 20, batch: 30, typed: true})
	p := w.pack(10)
	min := w.pack(10, func(o *pack.Options) { o.Policy = packfile.PolicyMin })
	for _, model := range []string{"rsage", "rgcn", "rgat"} {
		a := w.options(p, func(o *Options) { o.Model, o.Hidden, o.Epochs, o.BLAS, o.Dropout = model, 16, 3, "auto", 0.3 })
		r, want := w.mustRun(a, nil)
		if len(want) < 10 || r.Epochs[0].BytesRead == 0 {
			t.Fatalf("%s: %d steps, %d bytes read", model, len(want), r.Epochs[0].BytesRead)
		}
		ways := map[string]func(*Options){
			"samples": w.fromSamples, "mapped rows": w.mappingRows, "pages": w.paging, "blocks": w.inBlocks,
			"min":             func(o *Options) { o.Pack, o.RAMCache = min, nil },
			"one thread":      func(o *Options) { o.Threads = 1 },
			"all rows in RAM": func(o *Options) { o.RAMCache = percent(100) },
		}
		for store := range readers {
			ways[store] = w.reading(store)
		}
		for way, change := range ways {
			b := w.fresh(a, change)
			_, losses := w.mustRun(b, nil)
			x, y := w.ending(a.Out), w.ending(b.Out)
			x.metrics, y.metrics = "", "" // the stores read other bytes
			if !slices.Equal(losses, want) || x != y {
				t.Errorf("%s, %s: the stores differ: losses %v and %v", model, way, want, losses)
			}
		}
	}
}

// Models and stores that are not for typed graphs say so.
func TestTypedRefusals(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 200, typed: true})
	plain := newWorld(t, worldParams{nodes: 200})
	p := w.pack(10)
	for want, o := range map[string]Options{
		"--model gcn":    w.options(p, func(o *Options) { o.Model = "gcn" }),
		"has none":       plain.options(plain.pack(10), func(o *Options) { o.Model = "rgcn" }),
		"--samples":      w.options(p, func(o *Options) { w.fromSamples(o); o.Samples, o.Store, o.Fanout = "", "memory", "2,2" }),
		"--store marius": w.options(p, func(o *Options) { w.fromSamples(o); o.Store = "marius" }),
	} {
		_, err := w.run(t.Context(), o, progress.Discard, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.ErrUsage) && !errors.Is(err, fault.ErrInput) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// Without --model the model is R-GraphSAGE.
	o := w.options(p, func(o *Options) { o.Epochs = 1 })
	w.mustRun(o, nil)
	if f := state(t, o.Out); f.Params.Model != "rsage" || f.Params.Types == nil {
		t.Errorf("%+v", f.Params)
	}
}

// Exact validation of typed models has the scores of eval --exact, to the bit, and of samples with all neighbours.
func TestTypedExactValidation(t *testing.T) {
	w := newWorld(t, worldParams{typed: true, fanout: []int{300, 300}})
	p := w.pack(10)
	for _, model := range []string{"rsage", "rgcn", "rgat"} {
		o := w.options(p, w.exactly, func(o *Options) { o.Model, o.Epochs, o.LR = model, 4, 0.05 })
		r, losses := w.mustRun(o, tightly)
		s, want := w.mustRun(w.fresh(o, func(o *Options) { o.Validation, o.Dataset = "", "" }), nil)
		if !slices.Equal(losses, want) {
			t.Errorf("%s: the steps are others", model)
		}
		valid, test := w.evaluated(o, "cpu")
		if float64(r.ValidAccuracy) != valid || float64(r.TestAccuracy) != test || r.ValidAccuracy != s.ValidAccuracy || r.TestAccuracy != s.TestAccuracy || !r.Exact() || s.Exact() || valid == 0 {
			t.Errorf("%s: the run scores %v and %v, eval --exact %v and %v, samples %v and %v", model, r.ValidAccuracy, r.TestAccuracy, valid, test, s.ValidAccuracy, s.TestAccuracy)
		}
	}
	// From samples, the run knows how the dataset was made.
	o := w.options(p, w.fromSamples, w.exactly, func(o *Options) { o.Epochs = 1 })
	w.mustRun(o, nil)
	if f := state(t, o.Out); f.Preprocessing == nil {
		t.Error("the run does not record the preprocessing")
	}
}

// On an emulated GPU the CPU scores typed models.
func TestTypedExactValidationOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, typed: true})
	o := w.options(w.pack(20), w.exactly, gpuRun, func(o *Options) { o.Model, o.LR, o.Epochs = "rsage", 0.05, 2 })
	onGPU(t, func(t *testing.T, use func(*parts)) {
		o := w.fresh(o)
		r, _ := w.mustRun(o, use)
		valid, test := w.evaluated(o, "cpu")
		if s := r.Setup; float64(r.ValidAccuracy) != valid || float64(r.TestAccuracy) != test || !r.Exact() || s.Engine != EngineGPU || s.ExactSize == 0 {
			t.Errorf("the run scores %v and %v, eval --exact %v and %v; %+v", r.ValidAccuracy, r.TestAccuracy, valid, test, s)
		}
	})
}
