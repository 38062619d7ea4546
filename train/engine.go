package train

import (
	"context"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/pack/packfile"
	"diskgnn/train/gnn"
	"diskgnn/train/gnn/model"
	"diskgnn/train/safetensors"
)

// engine computes a model on batches. Its methods belong to one goroutine, except
// that works are prepared on any.
type engine interface {
	// NewWork returns the memory in which batches are made ready, one at a time, for
	// Step or, with eval, for Infer.
	NewWork(eval bool) work
	// Step trains on the batch that w holds, whose features x are, row-major. It
	// returns the loss, the mean over the labelled seed nodes, and the logits that it
	// came from, in the engine's memory until its next call. A loss that is not finite
	// comes with an error, and leaves the weights as they were.
	Step(ctx context.Context, w work, x []float32) (loss float64, logits []float32, err error)
	// Infer returns the logits of the batch that w holds.
	Infer(ctx context.Context, w work, x []float32) (logits []float32, err error)
	// SetLR changes the learning rate of the steps to come.
	SetLR(rate float64) error
	// Snapshot appends the weights to dst, Restore puts such a copy back.
	Snapshot(dst []float32) []float32
	Restore(weights []float32) error
	// State returns everything that training goes on from, in parts whose bytes may be
	// the engine's memory; LoadState puts it back.
	State() map[string][]byte
	LoadState(state map[string][]byte) error
	// Tensors returns copies of the weights, named and oriented as PyTorch has them.
	Tensors() []safetensors.Tensor
	Info() engineInfo
	Close()
}

// work is what an engine derives from a batch's structure ahead of computing.
type work interface {
	// Prepare makes b ready. b must stay as it is until the batch is computed.
	Prepare(b *graph.Batch) error
}

// engineInfo says what an engine computes with.
type engineInfo struct {
	BLAS       string        `json:"blas,omitempty"`
	SIMD       string        `json:"simd,omitempty"`
	Orders     []model.Order `json:"layer_orders,omitempty"`      // of training
	EvalOrders []model.Order `json:"eval_layer_orders,omitempty"` // of evaluation
	note       string        // what the user should know
}

// cpuEngine is package gnn's engine as this package sees it.
type cpuEngine struct {
	train *gnn.Engine
	eval  *gnn.Evaluator // nil where there is nothing to evaluate
}

// cpuWork is a batch prepared for it.
type cpuWork struct {
	by       *gnn.Preparer
	prepared gnn.Prepared
	input    gnn.Input
}

func (w *cpuWork) Prepare(b *graph.Batch) error { return w.by.Prepare(&w.prepared, b) }

func (w *cpuWork) with(x []float32) *gnn.Input {
	w.input.Prepared, w.input.X = &w.prepared, x
	return &w.input
}

// engineNeeds is the memory that an engine holds and that its works hold.
type engineNeeds struct{ engine, work, evalWork int64 }

// newCPUEngine makes the engine for a pack, if its buffers fit in memory.
func newCPUEngine(o *Options, f packfile.Facts) (engine, engineNeeds, error) {
	options := gnn.Options{Model: o.network(f), Sizes: f.TrainSizes, Typical: f.TrainMeans,
		Threads: o.Threads, Seed: o.Seed, LR: o.LR, BLAS: o.BLAS,
		WeightDecay: o.WeightDecay, Decoupled: o.Optimizer == OptimizerAdamW, LabelSmoothing: o.LabelSmoothing, Loss: gnn.Loss(o.Loss)}
	var needs engineNeeds
	bytes, err := gnn.MemoryBytes(options)
	if err != nil {
		return nil, needs, err
	}
	if err := budget.Check("the engine", bytes, o.Memory); err != nil {
		return nil, needs, err
	}
	e := new(cpuEngine)
	if e.train, err = gnn.New(options); err != nil {
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
	for _, p := range e.train.Params() {
		needs.engine += 2 * 4 * int64(p.Len()) // the best weights, and a transposed copy to write
	}
	return e, needs, nil
}

func (e *cpuEngine) NewWork(eval bool) work {
	if eval {
		return &cpuWork{by: e.eval.Preparer()}
	}
	return &cpuWork{by: e.train.Preparer()}
}

func (e *cpuEngine) Step(ctx context.Context, w work, x []float32) (float64, []float32, error) {
	in := w.(*cpuWork).with(x)
	r, err := e.train.Step(ctx, in)
	if err != nil {
		return r.Loss, nil, err
	}
	return r.Loss, e.train.Logits(in), nil
}

func (e *cpuEngine) Infer(ctx context.Context, w work, x []float32) ([]float32, error) {
	return e.eval.Infer(ctx, w.(*cpuWork).with(x))
}

func (e *cpuEngine) SetLR(rate float64) error { return e.train.SetLR(rate) }

func (e *cpuEngine) Snapshot(dst []float32) []float32 { return e.train.Snapshot(dst) }

func (e *cpuEngine) Restore(weights []float32) error { return e.train.LoadWeights(weights) }

func (e *cpuEngine) State() map[string][]byte { return e.train.State() }

func (e *cpuEngine) LoadState(state map[string][]byte) error { return e.train.LoadState(state) }

func (e *cpuEngine) Tensors() []safetensors.Tensor {
	params := e.train.Params()
	tensors := make([]safetensors.Tensor, len(params))
	for i, p := range params {
		t := &tensors[i]
		t.Name, t.Shape, t.Data = p.Name, p.Shape, make([]float32, p.Len())
		for in := range p.Rows {
			for out := range p.Cols {
				t.Data[out*p.Rows+in] = p.Data[in*p.Cols+out]
			}
		}
	}
	return tensors
}

func (e *cpuEngine) Info() engineInfo {
	i := e.train.Info()
	info := engineInfo{BLAS: i.BLAS, SIMD: i.SIMD, Orders: i.Orders, note: i.BLASReason}
	if e.eval != nil {
		info.EvalOrders = e.eval.Orders()
	}
	return info
}

func (e *cpuEngine) Close() { e.train.Close() }
