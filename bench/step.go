package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"runtime"
	"slices"
	"time"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// stepCommand times one training step of an engine on a mini-batch given as NumPy files, so that
// another program can be timed on the very same blocks:
//
//	go run ./bench step DIR -make SAMPLES -dataset DATASET
//	go run ./bench step DIR [-model gcn] [-dropout 0.5] [-threads 2] [-steps 10] [-layer-order auto] [-save WEIGHTS]
//
// The first form writes a training batch of samples to DIR: meta.json {"layers",
// "num_input", "num_seeds", "dim", "classes"}, x.npy (float32, num_input × dim), y.npy
// (num_seeds), degree.npy (num_input: in-degrees in the whole graph) and for every layer l,
// 0 being the input side, indptr_l.npy, indices_l.npy (positions among the sources)
// and dst_l.npy (the destinations' own positions among the sources), all int64.
//
// -save writes the initial weights, and the losses of the first steps without dropout, for
// step/peer.py. That program starts with these weights, and refuses to measure if its losses differ.
//
// The time covers a training loop's work per batch on the compute side: deriving the edges' weights
// and transposed blocks (which the program itself does ahead, on another goroutine), forward, loss,
// backward and Adam. The features are in memory. A row has median, min and max milliseconds, and
// prepare_ms for the derivation alone.
//
// A row also has the time of the step's matrix products alone, with the same shapes, library and
// workers, and with operands in the cache, measured after every step: gflop, sgemm_gflops (per
// second), sgemm_ms, and step_per_sgemm, the time of the step divided by sgemm_ms. -bound=false leaves
// them out.
//
// -against openblas takes turns, step by step, with an engine that differs in its BLAS: against_ms,
// against_min_ms, and ratio, the median of the steps' times divided by the other engine's. Such
// short turns give stable ratios on a busy machine.
//
// -engine gpu times the GPU engine instead, by the device's clock, with the batch on the device;
// with_copies_ms is the time of one of several consecutive steps, copies included. It needs the gpu
// build: -precision, -graphs, -pinned and -in-bits are for it.
func stepCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	s := steps{harness: h}
	h.threads = runtime.GOMAXPROCS(0)
	f.Float64Var(&s.dropout, "dropout", 0, "rate of dropout after every layer but the last")
	f.IntVar(&s.hidden, "hidden", 256, "width of the hidden layers")
	f.StringVar(&s.model, "model", "sage", "sage, gcn or gat")
	f.IntVar(&s.heads, "heads", 8, "heads of gat")
	f.IntVar(&s.steps, "steps", 10, "number of timed steps")
	f.IntVar(&s.warmup, "warmup", 3, "steps before the timed ones")
	f.StringVar(&s.order, "layer-order", "auto", "auto, aggregate or multiply")
	f.StringVar(&s.blas, "blas", "auto", "auto, openblas, builtin or gonum")
	f.StringVar(&s.against, "against", "", "another BLAS; its steps take turns with the steps of -blas")
	f.BoolVar(&s.bound, "bound", true, "time the step's matrix products alone, too")
	f.StringVar(&s.engine, "engine", "cpu", "cpu or gpu")
	f.StringVar(&s.precision, "precision", "float32", "gpu: precision of matrix products: float32, tf32 or bf16")
	f.BoolVar(&s.graphs, "graphs", true, "gpu: launch steps as CUDA graphs")
	f.BoolVar(&s.inBits, "in-bits", false, "gpu: it decodes the batch, as it does with a pack's batches")
	f.BoolVar(&s.pinned, "pinned", true, "gpu: pin the features' memory")
	f.StringVar(&s.save, "save", "", "write initial weights and first losses into this folder")
	samples := f.String("make", "", "make DIR of these samples")
	data := f.String("dataset", "", "the dataset of the samples")
	index := f.Int("batch", 0, "number of the training batch for -make")
	return func(ctx context.Context, args []string) error {
		if len(args) != 1 || s.steps < 1 {
			return errors.New("usage: step DIR [flags]")
		}
		if *samples != "" {
			return makeBlocks(ctx, args[0], *samples, *data, *index)
		}
		if err := s.load(args[0]); err != nil {
			return err
		}
		return s.measure(ctx)
	}
}

// steps is the options and the data of measuring steps.
type steps struct {
	*harness
	dropout              float64
	hidden, heads        int
	model                string
	steps, warmup        int
	order, blas, against string
	bound                bool
	engine, precision    string
	graphs, pinned       bool       // of the GPU engine
	inBits               bool       // likewise
	device               device.GPU // nil: the machine's; tests have another
	save                 string     // folder of weights and losses

	batch         *graph.Batch
	x             []float32
	dims, classes int
}

// load reads the folder of the blocks.
func (s *steps) load(dir string) (err error) {
	if s.batch, s.x, s.dims, s.classes, err = loadBlocks(dir); err != nil {
		return err
	}
	if kind := (model.Model{Kind: model.Kind(s.model)}); kind.Weighing() == model.ByGraph && !slices.ContainsFunc(s.batch.Degree, func(d uint32) bool { return d > 0 }) {
		return fmt.Errorf("%s has no degrees, which the edge weights of %s need: make it with -make", dir, s.model)
	}
	return nil
}

// config returns the config of an engine.
func (s *steps) config(dropout float64) engine.Config {
	layers := len(s.batch.Blocks)
	m := model.Model{Kind: model.Kind(s.model), Heads: s.heads, Dims: append(append([]int{s.dims}, slices.Repeat([]int{s.hidden}, layers-1)...), s.classes),
		Dropout: dropout, Orders: slices.Repeat([]model.Order{model.Order(s.order)}, layers)}
	m.ClearOthers()
	c := engine.Config{Network: m, Threads: s.threads, BLAS: s.blas, Device: s.device, Recipe: recipe.Recipe{LR: learningRate}}
	c.Sizes.Cover(s.batch)
	return c
}

// timed is an engine with the batch, and the times of its steps in milliseconds.
type timed struct {
	*cpu.Engine
	work          engine.Work
	last          *engine.Outcome
	ms, preparing []float64
}

func (s *steps) open(c engine.Config) (*timed, error) {
	e, err := cpu.New(c)
	if err != nil {
		return nil, err
	}
	w, err := e.NewWork(false, nil)
	if err == nil {
		err = w.Prepare(s.batch)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return &timed{Engine: e, work: w}, nil
}

// step times a step.
func (t *timed) step(ctx context.Context, s *steps) (err error) {
	start := time.Now()
	if err := t.work.Prepare(s.batch); err != nil {
		return err
	}
	t.preparing = append(t.preparing, milliseconds(start))
	t.last, err = train(ctx, t.Engine, t.work, s.x)
	t.ms = append(t.ms, milliseconds(start))
	return err
}

func (s *steps) measure(ctx context.Context) error {
	if s.engine == "gpu" {
		return s.measureGPU(ctx)
	}
	if s.save != "" {
		if err := s.saveCPU(ctx); err != nil {
			return err
		}
	}
	own, err := s.open(s.config(s.dropout))
	if err != nil {
		return err
	}
	defer own.Close()
	info := own.Info()
	if info.Note != "" {
		log.Print(info.Note)
	}
	var other *timed
	if s.against != "" {
		c := s.config(s.dropout)
		c.BLAS = s.against
		if other, err = s.open(c); err != nil {
			return err
		}
		defer other.Close()
	}
	var alone *bound
	if s.bound {
		counts, err := own.StepProducts(ctx, own.work, engine.Rows(s.x))
		if err != nil {
			return err
		}
		if alone, err = newBound(s.blas, own.Threads(), counts); err != nil {
			return err
		}
	}
	for range s.warmup + s.steps {
		if err := own.step(ctx, s); err != nil {
			return err
		}
		if other != nil {
			if err := other.step(ctx, s); err != nil {
				return err
			}
		}
		if alone != nil {
			alone.run()
		}
	}
	return s.report(s.found(own, other, alone))
}

// found returns the measurements after the warm-up steps.
func (s *steps) found(own, other *timed, alone *bound) row {
	info, ms := own.Info(), own.ms[s.warmup:]
	r := row{
		{"median_ms", median(ms)}, {"min_ms", slices.Min(ms)}, {"max_ms", slices.Max(ms)}, {"loss", own.last.Loss}, {"steps", s.steps},
		{"dropout", s.dropout}, {"threads", own.Threads()}, {"blas", info.BLAS}, {"simd", info.SIMD}, {"orders", info.Orders},
		{"prepare_ms", median(own.preparing[s.warmup:])},
	}
	if other != nil {
		theirs := other.ms[s.warmup:]
		var ratios []float64
		for i := range ms {
			ratios = append(ratios, ms[i]/theirs[i])
		}
		r = append(r, row{{"against", other.Info().BLAS}, {"against_ms", median(theirs)}, {"against_min_ms", slices.Min(theirs)}, {"ratio", median(ratios)}}...)
	}
	if alone != nil {
		took := median(alone.ms[s.warmup:])
		r = append(r, row{{"gflop", alone.flops / 1e9}, {"sgemm_gflops", alone.flops / 1e6 / took}, {"sgemm_ms", took}, {"step_per_sgemm", median(ms) / took}}...)
	}
	return r
}

// train trains on one batch.
func train(ctx context.Context, e engine.Engine, w engine.Work, x []float32) (*engine.Outcome, error) {
	o, err := e.Backward(ctx, w, engine.Rows(x), engine.Place{})
	if err != nil {
		return nil, err
	}
	return o, e.Apply()
}

// saveCPU saves the weights and losses of an engine without dropout.
func (s *steps) saveCPU(ctx context.Context) error {
	c := s.config(0)
	t, err := s.open(c)
	if err != nil {
		return err
	}
	defer t.Close()
	return s.saved(c.Network.Params(), t, func() (*engine.Outcome, error) { return train(ctx, t.Engine, t.work, s.x) })
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1e3 }
