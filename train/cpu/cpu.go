// Package cpu is the CPU engine: it trains and evaluates graph neural networks on
// sampled mini-batches.
//
// Gorgonia keeps the expression graph, differentiates it and runs it; its operations are this
// package's own, a whole layer each, computed by all workers in chunks of rows (package kernel's
// loops, package blas' products). The graph is built once, at the largest shapes, and every step
// computes only its batch's rows.
//
// Results are bit-reproducible: every sum over rows is cut into groups that depend on the sizes,
// never on the number of threads, and added in group order. The bits depend only on the options,
// the batches and the BLAS library that was found (see Info). If the outermost layer aggregates
// first, or an input projection comes before it, the bits of training do not depend on the
// numbering of a batch's input nodes either.
package cpu

import (
	"context"
	"runtime"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Engine trains one model. Its methods must not be called concurrently, except that
// the Preparers may be used at any time.
type Engine struct {
	opts     engine.Config
	plan     *plan
	blas     *blas.Library
	pool     *pool
	net      *machine
	preparer *prepare.Preparer
	opt      optimizer
	eval     *Evaluator // nil without EvalSizes
	found    engine.Outcome
	sum      *engine.Sum // of the step's batches; nil: they are not summed here
	batch    []float32   // statistics of the latest batch
}

// New makes an engine with fresh weights.
func New(o engine.Config) (*Engine, error) {
	p, lib, err := resolve(&o)
	if err != nil {
		return nil, err
	}
	e := &Engine{opts: o, plan: p, blas: lib, pool: newPool(p.threads)}
	memory := device.NewArena()
	e.opt = newOptimizer(p, memory, &o)
	p.Init(e.opt.weights, o.Seed)
	if e.net, err = newMachine(p, memory, e.pool, lib, e.opt.weights, e.opt.grads, lossOf(&o)); err != nil {
		e.pool.close()
		return nil, err
	}
	e.preparer = prepare.New(p.model, p.orders, p.sizes, true)
	e.sum, e.batch = newStep(p, memory, &o)
	if o.EvalSizes.Src != nil {
		if err := e.EvaluateAt(o.EvalSizes); err != nil {
			e.pool.close()
			return nil, err
		}
	}
	return e, nil
}

// resolve checks the options, replaces unset ones by their defaults and plans the buffers.
func resolve(o *engine.Config) (*plan, *blas.Library, error) {
	if err := o.Resolve(); err != nil {
		return nil, nil, err
	}
	if o.Threads < 0 {
		return nil, nil, fault.New(fault.ErrUsage, "cpu engine: %d threads: needs 0 or more", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	lib, err := blas.Open(o.BLAS)
	if err != nil {
		return nil, nil, err
	}
	return newPlan(&o.Network, 0, resolveOrders(&o.Network, 0, o.Typical, lib, true), o.Sizes, o.Threads), lib, nil
}

// MemoryBytes predicts the anonymous memory of New's engine in bytes: buffers, weights and moments,
// and the BLAS's memory for each thread; eval is the additional memory for evaluation. The caller
// holds the features and the works (WorkBytes).
func MemoryBytes(o engine.Config) (train, eval int64, err error) {
	p, lib, err := resolve(&o)
	if err != nil {
		return 0, 0, err
	}
	dry := new(device.Arena)
	newOptimizer(p, dry, &o)
	newStep(p, dry, &o)
	train = dry.Used() + networkBytes(p, lossOf(&o)) + lib.Bytes()*int64(p.threads)
	if o.EvalSizes.Src != nil {
		v, err := evaluationPlan(p, lib, 0, p.model.Layers(), o.EvalSizes)
		if err != nil {
			return 0, 0, err
		}
		eval = networkBytes(v, nil)
	}
	return train, eval, nil
}

// Info returns the library, the instructions and the threads of the engine. Its note is the reason
// for slow matrix products.
func (e *Engine) Info() engine.Info {
	i := engine.Info{BLAS: e.blas.Name(), SIMD: kernel.Kind(), Orders: e.plan.orders, Note: e.blas.Reason()}
	if e.eval != nil {
		i.EvalOrders = e.eval.plan.orders
	}
	return i
}

// Threads returns the number of workers.
func (e *Engine) Threads() int { return e.plan.threads }

// SetLR changes the learning rate of later steps.
func (e *Engine) SetLR(rate float64) error {
	if err := engine.CheckRate(rate); err != nil {
		return err
	}
	e.opt.rate = rate
	return nil
}

// Close ends the engine's goroutines. Its evaluators end with it.
func (e *Engine) Close() { e.pool.close() }

var _ engine.Engine = (*Engine)(nil)

// NewWork implements engine.Engine. Features may lie in any memory.
func (e *Engine) NewWork(eval bool, _ []byte) (engine.Work, error) {
	switch {
	case !eval:
		return &work{by: e.preparer}, nil
	case e.eval == nil:
		return nil, fault.New(fault.ErrUsage, "cpu engine: made without EvalSizes: it cannot evaluate")
	}
	return &work{by: e.eval.preparer}, nil
}

// EvaluateAt lets Infer take batches of at most these sizes, as the config's EvalSizes do.
func (e *Engine) EvaluateAt(sizes graph.Sizes) (err error) {
	e.eval, err = e.NewEvaluator(sizes)
	return err
}

// WorkBytes returns the bytes of a work for Backward, and of one for Infer.
func (e *Engine) WorkBytes() (train, eval int64) {
	if train = e.preparer.Bytes(); e.eval != nil {
		eval = e.eval.preparer.Bytes()
	}
	return train, eval
}

// Finish implements engine.Engine: batches are over when Backward returns.
func (e *Engine) Finish() (*engine.Outcome, error) { return nil, nil }

// Infer implements engine.Engine.
func (e *Engine) Infer(ctx context.Context, w engine.Work, f engine.Features) ([]float32, error) {
	return e.eval.Infer(ctx, w.(*work).with(f))
}

// Params implements engine.Engine.
func (e *Engine) Params() []model.Param { return e.plan.Params }

// newStep takes the memory of a step of several batches, and the statistics of one batch.
func newStep(p *plan, a *device.Arena, o *engine.Config) (s *engine.Sum, batch []float32) {
	if o.Sums() && !o.Apart {
		s = engine.NewSum(a, &p.Layout, o.Accumulate)
	}
	return s, device.Take[float32](a, p.Count()-p.Trained)
}

// NewEvaluator makes an evaluator for batches of at most these sizes, which may be far larger than
// the training ones. Layers with the order Auto get the cheaper one for a forward pass at these
// sizes.
func (e *Engine) NewEvaluator(sizes graph.Sizes) (*Evaluator, error) {
	return e.newEvaluator(0, e.plan.model.Layers(), sizes)
}

func (e *Engine) newEvaluator(first, layers int, sizes graph.Sizes) (*Evaluator, error) {
	p, err := evaluationPlan(e.plan, e.blas, first, layers, sizes)
	if err != nil {
		return nil, err
	}
	v := &Evaluator{plan: p, preparer: prepare.New(p.model, p.orders, p.sizes, false)}
	v.net, err = newMachine(p, device.NewArena(), e.pool, e.blas, e.opt.weights, nil, nil)
	return v, err
}

// EvaluatorBytes predicts the memory of NewEvaluator's evaluator, in bytes.
func (e *Engine) EvaluatorBytes(sizes graph.Sizes) (int64, error) {
	p, err := evaluationPlan(e.plan, e.blas, 0, e.plan.model.Layers(), sizes)
	if err != nil {
		return 0, err
	}
	return networkBytes(p, nil), nil
}
