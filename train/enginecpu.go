package train

import (
	"context"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/train/cpu"
	engines "diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// cpuEngine is package cpu's engine as this package sees it.
type cpuEngine struct {
	train *cpu.Engine
	eval  *cpu.Evaluator // nil where there is nothing to evaluate
	found outcome        // by the last step
	note  string         // what the user should know
}

// cpuWork is a batch prepared for it.
type cpuWork struct {
	by       *cpu.Preparer
	prepared cpu.Prepared
	input    cpu.Input
}

func (w *cpuWork) Prepare(b *graph.Batch) error { return w.by.Prepare(&w.prepared, b) }

func (w *cpuWork) Close() {}

func (w *cpuWork) with(x []float32) *cpu.Input {
	w.input.Prepared, w.input.X = &w.prepared, x
	return &w.input
}

// newCPUEngine makes the engine for a pack, if its buffers fit in memory.
func newCPUEngine(o *Options, f featurestore.Facts) (engine, engineNeeds, error) {
	options := cpu.Options{Model: o.Network(), Sizes: f.TrainSizes, Typical: f.TrainMeans,
		Threads: o.Threads, Seed: o.Seed, LR: o.LR, BLAS: o.BLAS,
		WeightDecay: o.WeightDecay, Decoupled: o.Optimizer == recipe.OptimizerAdamW, LabelSmoothing: o.LabelSmoothing, Loss: model.Loss(o.Loss)}
	var needs engineNeeds
	bytes, err := cpu.MemoryBytes(options)
	if err != nil {
		return nil, needs, err
	}
	if err := budget.Check("the engine", bytes, o.Memory); err != nil {
		return nil, needs, err
	}
	e := new(cpuEngine)
	if e.train, err = cpu.New(options); err != nil {
		return nil, needs, err
	}
	needs = engineNeeds{engine: bytes, work: e.train.Preparer().Bytes()}
	if f.Valid+f.Test > 0 {
		more, err := e.train.EvaluatorBytes(f.EvalSizes)
		if err == nil {
			err = budget.Check("the engine, evaluation included,", bytes+more, o.Memory)
		}
		if err == nil {
			e.eval, err = e.train.NewEvaluator(f.EvalSizes)
		}
		if err != nil {
			e.Close()
			return nil, needs, err
		}
		needs.engine += more
		needs.evalWork = e.eval.Preparer().Bytes()
	}
	for _, p := range e.Params() {
		needs.engine += 3 * 4 * int64(p.Len()) // the best weights, and two copies to write
		needs.resume += checkpointArrays * 4 * int64(p.Len())
	}
	return e, needs, nil
}

func (e *cpuEngine) NewWork(eval bool, _ []byte) (work, error) {
	if eval {
		return &cpuWork{by: e.eval.Preparer()}, nil
	}
	return &cpuWork{by: e.train.Preparer()}, nil
}

func (e *cpuEngine) Step(ctx context.Context, w work, f features) (*outcome, error) {
	in := w.(*cpuWork).with(f.X())
	r, err := e.train.Step(ctx, in)
	e.found = outcome{loss: r.Loss}
	if err == nil {
		b := in.Prepared.Batch()
		e.found.logits, e.found.labels, e.found.targets = e.train.Logits(in), b.Labels, b.Targets
	}
	return &e.found, err
}

// Finish has nothing to tell: steps are over when they return.
func (e *cpuEngine) Finish() (*outcome, error) { return nil, nil }

func (e *cpuEngine) Infer(ctx context.Context, w work, f features) ([]float32, error) {
	return e.eval.Infer(ctx, w.(*cpuWork).with(f.X()))
}

func (e *cpuEngine) SetLR(rate float64) error { return e.train.SetLR(rate) }

func (e *cpuEngine) Snapshot(dst []float32) ([]float32, error) { return e.train.Snapshot(dst), nil }

func (e *cpuEngine) Restore(weights []float32) error { return e.train.LoadWeights(weights) }

func (e *cpuEngine) State() (map[string][]byte, error) { return e.train.State(), nil }

func (e *cpuEngine) LoadState(state map[string][]byte) error { return e.train.LoadState(state) }

func (e *cpuEngine) Params() []model.Param { return e.train.Layout().Params }

func (e *cpuEngine) Info() engines.Info {
	i := e.train.Info()
	info := engines.Info{BLAS: i.BLAS, SIMD: i.SIMD, Orders: i.Orders, Note: i.BLASReason}
	if e.note != "" {
		info.Note = e.note
	}
	if e.eval != nil {
		info.EvalOrders = e.eval.Orders()
	}
	return info
}

func (e *cpuEngine) Device() *cuda.Device { return nil }

func (e *cpuEngine) Close() { e.train.Close() }
