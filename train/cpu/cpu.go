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

// Prepared is a mini-batch made ready, Preparer what makes it so.
type (
	Prepared = prepare.Prepared
	Preparer = prepare.Preparer
)

// Input is one mini-batch and its features.
type Input struct {
	*Prepared
	// X holds the features of the outermost block's sources, row-major, in the
	// model's input width. It may be longer; only these rows are read, and only
	// during the call.
	X []float32
}

// Result is what a training step found before it changed the weights.
type Result struct {
	Loss float64 // mean over the labelled seed nodes; 0 when there is none
	// Correct counts the labelled seed nodes whose largest logit is their class's; with
	// the loss Binary, those whose logits all have the right sign.
	Correct int
	Count   int // labelled seed nodes
}

// Engine trains one model. Its methods must not be called concurrently, except that
// the Preparers may be used at any time.
type Engine struct {
	opts     engine.Config
	plan     *plan
	blas     *blas.Library
	pool     *pool
	net      *machine
	preparer *Preparer
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

// resolveOrders replaces every Auto by the cheaper order, for the layers from first
// on that the sizes are of.
func resolveOrders(m *model.Model, first int, typical graph.Sizes, lib *blas.Library, training bool) []model.Order {
	rates := model.OpenBLASRates
	if lib.Kind() == blas.Gonum {
		rates = model.GonumRates
	}
	orders := make([]model.Order, len(typical.Src))
	for i := range orders {
		orders[i] = m.ResolveOrder(first+i, typical.Src[i], typical.Dst[i], typical.Edges[i], training, rates)
	}
	return orders
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
		i.EvalOrders = e.eval.Orders()
	}
	return i
}

// Threads returns how many workers there are.
func (e *Engine) Threads() int { return e.plan.threads }

// Preparer returns what makes training batches ready.
func (e *Engine) Preparer() *Preparer { return e.preparer }

// checkInput makes sure that nothing is read outside the features.
func checkInput(p *plan, r *Preparer, in *Input) error {
	if in.Prepared == nil || in.Prepared.Batch() == nil {
		return fault.New(fault.ErrInput, "cpu engine: the batch was not prepared")
	}
	if !in.Prepared.By(r) {
		return fault.New(fault.ErrInput, "cpu engine: the batch was prepared for another engine or evaluator")
	}
	if n := in.Prepared.Batch().Blocks[0].NumSrc; len(in.X) < n*p.width() {
		return fault.New(fault.ErrInput, "cpu engine: %d feature elements for %d input nodes of width %d", len(in.X), n, p.width())
	}
	return nil
}

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

// work is a batch prepared for the engine or its evaluator.
type work struct {
	by       *Preparer
	prepared Prepared
	input    Input
}

func (w *work) Prepare(b *graph.Batch) error { return w.by.Prepare(&w.prepared, b) }

func (w *work) Close() {}

func (w *work) with(f engine.Features) *Input {
	w.input.Prepared, w.input.X = &w.prepared, f.X()
	return &w.input
}

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
