// Package cpu is the CPU engine: it trains and evaluates graph neural networks on
// sampled mini-batches.
//
// Gorgonia keeps the expression graph, differentiates it and runs it; the
// operations in it are this package's own, a whole layer each, computed by all
// workers in chunks of rows (package kernel's loops, package blas' products). The
// graph is built once, at the largest shapes, and every step computes the rows that
// its batch has.
//
// Results are bit-reproducible: every sum over rows is cut into groups that follow
// from the sizes, never from the number of threads, and added in group order. The
// bits depend on the options, on the BLAS library that was found (see Info) and on
// nothing else; when the outermost layer aggregates first, or an input projection comes
// before it, those of training do not depend on the order in which a batch's input nodes
// are numbered either.
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

// resolve checks the options, fills in what they leave open and plans the buffers.
func resolve(o *engine.Config) (*plan, *blas.Library, error) {
	if err := o.Resolve(); err != nil {
		return nil, nil, err
	}
	if o.Threads < 0 {
		return nil, nil, fault.New(fault.ErrUsage, "cpu engine: %d threads", o.Threads)
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

// MemoryBytes predicts the anonymous memory that New's engine will hold: buffers,
// weights and moments, and what the BLAS keeps for each thread; and what more it will for
// evaluation. The features are the caller's, and so is what works hold (WorkBytes).
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

// Info says what the engine computes with. Its note is why matrix products are slow.
func (e *Engine) Info() engine.Info {
	i := engine.Info{BLAS: e.blas.Name(), SIMD: kernel.Kind(), Orders: e.plan.orders, Note: e.blas.Reason()}
	if e.eval != nil {
		i.EvalOrders = e.eval.plan.orders
	}
	return i
}

// Threads returns how many workers there are.
func (e *Engine) Threads() int { return e.plan.threads }

// SetLR changes the learning rate of the steps to come.
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

// NewWork implements engine.Engine. Features may lie anywhere.
func (e *Engine) NewWork(eval bool, _ []byte) (engine.Work, error) {
	switch {
	case !eval:
		return &work{by: e.preparer}, nil
	case e.eval == nil:
		return nil, fault.New(fault.ErrUsage, "cpu engine: there are no sizes for evaluation")
	}
	return &work{by: e.eval.preparer}, nil
}

// EvaluateAt lets Infer take batches of at most these sizes, as the config's EvalSizes do.
func (e *Engine) EvaluateAt(sizes graph.Sizes) (err error) {
	e.eval, err = e.NewEvaluator(sizes)
	return err
}

// WorkBytes returns the memory of a work for Backward, and of one for Infer.
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

// newStep takes what a step of several batches needs, and the statistics of one.
func newStep(p *plan, a *device.Arena, o *engine.Config) (s *engine.Sum, batch []float32) {
	if o.Sums() && !o.Apart {
		s = engine.NewSum(a, &p.Layout, o.Accumulate)
	}
	return s, device.Take[float32](a, p.Count()-p.Trained)
}

// NewEvaluator makes an evaluator for batches of at most these sizes, which may be
// far larger than the training ones. Layers whose order was Auto get the cheaper
// one for a forward pass at these sizes.
func (e *Engine) NewEvaluator(sizes graph.Sizes) (*Evaluator, error) {
	return e.newEvaluator(0, e.plan.model.Layers(), sizes)
}

// NewLayerEvaluator makes an evaluator of one layer, for batches of one block: Infer
// returns what the layer hands on to the next, norm and activation included, or the
// logits. Layer 0 has the input projection in front of it, and takes features; the
// others take what the layer before has returned. Sizes are those of the one block.
// Its batches have a label for every destination, as any; their values don't matter.
func (e *Engine) NewLayerEvaluator(layer int, sizes graph.Sizes) (*Evaluator, error) {
	if layer < 0 || layer >= e.plan.model.Layers() {
		return nil, fault.New(fault.ErrUsage, "cpu engine: layer %d of %d", layer, e.plan.model.Layers())
	}
	v, err := e.newEvaluator(layer, 1, sizes)
	if err != nil {
		return nil, err
	}
	v.preparer.IgnoreLabels()
	return v, nil
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

// EvaluatorBytes predicts the memory that NewEvaluator's evaluator will hold.
func (e *Engine) EvaluatorBytes(sizes graph.Sizes) (int64, error) {
	p, err := evaluationPlan(e.plan, e.blas, 0, e.plan.model.Layers(), sizes)
	if err != nil {
		return 0, err
	}
	return networkBytes(p, nil), nil
}

// LayerBytes predicts the memory that computing one layer on blocks of at most these
// sizes takes: that of NewLayerEvaluator's evaluator and of one Prepared. It grows
// with each of the sizes.
func (e *Engine) LayerBytes(layer int, sizes graph.Sizes) (int64, error) {
	p, err := evaluationPlan(e.plan, e.blas, layer, 1, sizes)
	if err != nil {
		return 0, err
	}
	return networkBytes(p, nil) + prepare.New(p.model, p.orders, p.sizes, false).Bytes(), nil
}
