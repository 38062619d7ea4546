// Command step times one training step of an engine on a mini-batch given as
// NumPy files, so that another program can be timed on the very same blocks.
//
//	go run ./bench/step DIR -make SAMPLES -dataset DATASET
//	go run ./bench/step DIR [-model gcn] [-dropout 0.5] [-threads 2] [-steps 10] [-layer-order auto] [-save WEIGHTS]
//
// The first form makes DIR of a training batch of samples: meta.json {"layers",
// "num_input", "num_seeds", "dim", "classes"}, x.npy (float32, num_input × dim), y.npy
// (num_seeds), degree.npy (num_input: in-degrees in the whole graph) and for every layer l,
// 0 being the input side, indptr_l.npy, indices_l.npy (positions among the sources)
// and dst_l.npy (the destinations' own positions among the sources), all int64.
//
// -save writes the initial weights, and the losses of the first steps from them without
// dropout, for peer.py: it begins with these weights, and times nothing unless its losses
// are the same.
//
// The clock holds what a training loop pays per batch on the compute side: deriving
// the edges' weights and transposed blocks (which the program itself does ahead, on
// another goroutine; -prepared leaves it out), forward, loss, backward and Adam. The
// features are in memory. Prints one JSON line: median, min and max milliseconds, and
// prepare_ms of the first of these alone.
//
// Beside them it prints what the step's matrix products take alone, with the same
// shapes, library and workers, their operands in the cache, a turn after every step:
// gflop, sgemm_gflops (a second), sgemm_ms, and step_per_sgemm, the step's time over
// theirs. -bound=false leaves them out; so does a profile.
//
// -against openblas takes turns, step by step, with an engine that differs in its BLAS:
// against_ms, against_min_ms, and ratio, the median of the steps' ratios, the other's time
// below. Turns this short hold on a machine that does other things.
//
// -engine gpu times the GPU engine instead, by the device's clock, the batch being
// there; with_copies_ms is a step in a row of them, copies included. It wants the gpu
// variant: -precision, -graphs and -pinned are for it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"diskgnn/bench/internal/tool"
	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

type options struct {
	dropout              float64
	hidden, heads        int
	threads              int
	model                string
	steps, warmup        int
	order, blas, profile string
	against              string
	prepared, bound      bool
	engine, precision    string
	graphs, pinned       bool         // of the GPU engine
	device               *cuda.Device // nil: the machine's; tests have another
	save                 string       // folder of weights and losses
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "step:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	f := flag.NewFlagSet("step", flag.ContinueOnError)
	f.Float64Var(&o.dropout, "dropout", 0, "rate after every layer but the last")
	f.IntVar(&o.hidden, "hidden", 256, "width of the hidden layers")
	f.StringVar(&o.model, "model", "sage", "sage, gcn or gat")
	f.IntVar(&o.heads, "heads", 8, "of gat")
	f.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	f.IntVar(&o.steps, "steps", 10, "steps that are timed")
	f.IntVar(&o.warmup, "warmup", 3, "steps before")
	f.StringVar(&o.order, "layer-order", "auto", "auto, aggregate or multiply")
	f.StringVar(&o.blas, "blas", "auto", "auto, openblas, builtin or gonum")
	f.StringVar(&o.against, "against", "", "another of these, whose steps take turns with the others")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile to this file")
	f.BoolVar(&o.prepared, "prepared", false, "derive the blocks' transposes before the clock starts")
	f.BoolVar(&o.bound, "bound", true, "time the step's matrix products alone, too")
	f.StringVar(&o.engine, "engine", "cpu", "cpu or gpu")
	f.StringVar(&o.precision, "precision", "float32", "gpu: of matrix products: float32, tf32 or bf16")
	f.BoolVar(&o.graphs, "graphs", true, "gpu: launch steps as CUDA graphs")
	f.BoolVar(&o.pinned, "pinned", true, "gpu: pin the features' memory")
	f.StringVar(&o.save, "save", "", "write initial weights and first losses into this folder")
	samples := f.String("make", "", "make DIR of these samples")
	data := f.String("dataset", "", "that the samples are of")
	index := f.Int("batch", 0, "training batch that DIR is made of")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir := f.Arg(0)
	if f.NArg() > 1 { // flags may follow the folder
		if err := f.Parse(f.Args()[1:]); err != nil {
			return err
		}
	}
	if dir == "" || f.NArg() > 1 || o.steps < 1 {
		return errors.New("usage: step DIR [flags]")
	}
	if *samples != "" {
		return makeBlocks(context.Background(), dir, *samples, *data, *index)
	}
	batch, x, dims, err := load(dir)
	if err != nil {
		return err
	}
	if o.model == string(model.GCN) && !slices.ContainsFunc(batch.Degree, func(d uint32) bool { return d > 0 }) {
		return fmt.Errorf("%s has no degrees, by which %s weighs the edges: make it with -make", dir, o.model)
	}
	return measure(batch, x, dims, o)
}

func measure(batch *graph.Batch, x []float32, dims [2]int, o options) error {
	layers := len(batch.Blocks)
	m := model.Model{Kind: model.Kind(o.model), Dims: append(append([]int{dims[0]}, slices.Repeat([]int{o.hidden}, layers-1)...), dims[1]),
		Dropout: o.dropout, Orders: slices.Repeat([]model.Order{model.Order(o.order)}, layers)}
	if m.Kind == model.GAT {
		m.Heads = o.heads
	}
	var sizes graph.Sizes
	sizes.Cover(batch)
	if o.engine == "gpu" {
		return measureGPU(batch, x, m, sizes, o)
	}
	if o.save != "" {
		if err := saveCPU(batch, x, m, sizes, o); err != nil {
			return err
		}
	}
	open := func(blas string) (*cpu.Engine, engine.Work, error) {
		e, err := cpu.New(engine.Config{Network: m, Sizes: sizes, Threads: o.threads, BLAS: blas, Recipe: recipe.Recipe{LR: learningRate}})
		if err != nil {
			return nil, nil, err
		}
		w, err := e.NewWork(false, nil)
		if err != nil {
			return nil, nil, err
		}
		return e, w, w.Prepare(batch)
	}
	e, w, err := open(o.blas)
	if err != nil {
		return err
	}
	defer e.Close()
	info := e.Info()
	if info.Note != "" {
		fmt.Fprintln(os.Stderr, "step:", info.Note)
	}
	other, otherWork := e, w
	if o.against != "" {
		if other, otherWork, err = open(o.against); err != nil {
			return err
		}
		defer other.Close()
	}
	var alone *bound
	if o.bound && o.profile == "" {
		counts, err := e.StepProducts(context.Background(), w, engine.Rows(x))
		if err != nil {
			return err
		}
		if alone, err = newBound(o.blas, e.Threads(), counts); err != nil {
			return err
		}
	}
	if o.profile != "" {
		out, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var ms, preparing, otherMS, ratios []float64
	var last *engine.Outcome
	for range o.warmup + o.steps {
		start := time.Now()
		if !o.prepared {
			if err := w.Prepare(batch); err != nil {
				return err
			}
			preparing = append(preparing, milliseconds(start))
		}
		if last, err = step(context.Background(), e, w, x); err != nil {
			return err
		}
		ms = append(ms, milliseconds(start))
		if o.against != "" {
			start := time.Now()
			if !o.prepared {
				if err := otherWork.Prepare(batch); err != nil {
					return err
				}
			}
			if _, err = step(context.Background(), other, otherWork, x); err != nil {
				return err
			}
			otherMS = append(otherMS, milliseconds(start))
			ratios = append(ratios, ms[len(ms)-1]/otherMS[len(otherMS)-1])
		}
		if alone != nil {
			alone.run()
		}
	}
	ms = ms[o.warmup:]
	middle := median(ms)
	out := map[string]any{
		"median_ms": middle, "min_ms": ms[0], "max_ms": ms[len(ms)-1], "loss": last.Loss, "steps": o.steps,
		"dropout": o.dropout, "threads": e.Threads(), "blas": info.BLAS, "simd": info.SIMD, "orders": info.Orders}
	if !o.prepared {
		out["prepare_ms"] = median(preparing[o.warmup:])
	}
	if o.against != "" {
		otherMS = otherMS[o.warmup:]
		out["against"], out["against_ms"], out["against_min_ms"], out["ratio"] = other.Info().BLAS, median(otherMS), slices.Min(otherMS), median(ratios[o.warmup:])
	}
	if alone != nil {
		alone.ms = alone.ms[o.warmup:]
		alone.report(out, middle)
	}
	return tool.Print(out)
}

// step trains on one batch.
func step(ctx context.Context, e engine.Engine, w engine.Work, x []float32) (*engine.Outcome, error) {
	o, err := e.Backward(ctx, w, engine.Rows(x), engine.Place{})
	if err != nil {
		return nil, err
	}
	return o, e.Apply()
}

// saveCPU saves the weights and losses of an engine without dropout.
func saveCPU(batch *graph.Batch, x []float32, m model.Model, sizes graph.Sizes, o options) error {
	m.Dropout = 0
	e, err := cpu.New(engine.Config{Network: m, Sizes: sizes, Threads: o.threads, BLAS: o.blas, Recipe: recipe.Recipe{LR: learningRate}})
	if err != nil {
		return err
	}
	defer e.Close()
	w, err := e.NewWork(false, nil)
	if err != nil {
		return err
	}
	if err := w.Prepare(batch); err != nil {
		return err
	}
	weights, err := e.Snapshot(nil)
	if err != nil {
		return err
	}
	s := stepper{params: m.Params(), weights: weights, step: func(ctx context.Context) (float64, error) {
		r, err := step(ctx, e, w, x)
		if err != nil {
			return 0, err
		}
		return r.Loss, nil
	}}
	return s.save(context.Background(), o.save, o)
}

// load reads the folder; dims are the input width and the number of classes.
func load(dir string) (batch *graph.Batch, x []float32, dims [2]int, err error) {
	var meta meta
	text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, nil, dims, err
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, nil, dims, fmt.Errorf("%s: %w", filepath.Join(dir, "meta.json"), err)
	}
	if x, err = readNPY[float32](dir, "x", "<f4"); err != nil {
		return nil, nil, dims, err
	}
	batch = &graph.Batch{Input: make([]uint32, meta.Input), Degree: make([]uint32, meta.Input)}
	if degree, err := integers[uint32](dir, "degree"); err == nil {
		batch.Degree = degree
	} else if !errors.Is(err, os.ErrNotExist) { // folders of other makers lack it: they do for models without
		return nil, nil, dims, err
	}
	if batch.Labels, err = integers[int32](dir, "y"); err != nil {
		return nil, nil, dims, err
	}
	src := meta.Input
	for l := range meta.Layers {
		k := graph.Block{NumSrc: src}
		for name, to := range map[string]*[]uint32{"indptr": &k.Indptr, "indices": &k.Indices, "dst": &k.Dst} {
			if *to, err = integers[uint32](dir, fmt.Sprintf("%s_%d", name, l)); err != nil {
				return nil, nil, dims, err
			}
		}
		k.NumDst = len(k.Dst)
		if prefix(k.Dst) {
			k.Dst = nil
		}
		batch.Blocks = append(batch.Blocks, k)
		src = k.NumDst
	}
	return batch, x, [2]int{meta.Dim, meta.Classes}, batch.Validate()
}

func prefix(dst []uint32) bool {
	for i, s := range dst {
		if int(s) != i {
			return false
		}
	}
	return true
}

func integers[T int32 | uint32](dir, name string) ([]T, error) {
	wide, err := readNPY[int64](dir, name, "<i8")
	if err != nil {
		return nil, err
	}
	out := make([]T, len(wide))
	for i, v := range wide {
		out[i] = T(v)
	}
	return out, nil
}
