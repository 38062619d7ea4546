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
	"math"
	"runtime"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Options describe an engine.
type Options struct {
	Model model.Model
	// Sizes are the largest counts of the training batches.
	Sizes graph.Sizes
	// Typical are the mean counts of the training batches, by which Auto orders are
	// chosen; the zero value stands for Sizes.
	Typical graph.Sizes
	Threads int     // workers, the caller's goroutine included; 0 stands for GOMAXPROCS
	Seed    uint64  // of the initial weights and of dropout
	LR      float64 // Adam's learning rate; the rest is Adam's usual: β .9 and .999, ε 1e-8
	BLAS    string  // a kind that blas.Open knows; "" stands for "auto"

	// WeightDecay is PyTorch's, over all parameters: with Adam the gradient gets so
	// much of the weight, with Decoupled (AdamW) the weight shrinks by so much of the
	// learning rate instead.
	WeightDecay float64
	Decoupled   bool

	Loss           model.Loss // "" stands for CrossEntropy
	LabelSmoothing float64    // of CrossEntropy, in [0, 1)
}

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
	opts     Options
	plan     *plan
	blas     *blas.Library
	pool     *pool
	net      *machine
	preparer *Preparer
	opt      optimizer
}

// New makes an engine with fresh weights.
func New(o Options) (*Engine, error) {
	p, lib, err := resolve(&o)
	if err != nil {
		return nil, err
	}
	e := &Engine{opts: o, plan: p, blas: lib, pool: newPool(p.threads)}
	memory := device.NewArena()
	e.opt = newOptimizer(p, memory, &o)
	p.Init(e.opt.weights, o.Seed)
	if e.net, err = newMachine(p, memory, e.pool, lib, e.opt.weights, e.opt.grads, o.loss()); err != nil {
		e.pool.close()
		return nil, err
	}
	e.preparer = prepare.New(p.model, p.orders, p.sizes, true)
	return e, nil
}

func (o *Options) loss() *lossOptions {
	l := &lossOptions{o.Loss, o.LabelSmoothing}
	if l.kind == "" {
		l.kind = model.CrossEntropy
	}
	return l
}

// resolve checks the options, fills in what they leave open and plans the buffers.
func resolve(o *Options) (*plan, *blas.Library, error) {
	if err := o.Model.Validate(); err != nil {
		return nil, nil, err
	}
	if err := prepare.CheckSizes(o.Model.Layers(), o.Sizes); err != nil {
		return nil, nil, err
	}
	if o.Typical.Src == nil {
		o.Typical = o.Sizes
	} else if err := prepare.CheckSizes(o.Model.Layers(), o.Typical); err != nil {
		return nil, nil, err
	}
	if o.Threads < 0 {
		return nil, nil, fault.New(fault.ErrUsage, "cpu engine: %d threads", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if !(o.LR > 0) || math.IsInf(o.LR, 0) {
		return nil, nil, fault.New(fault.ErrUsage, "cpu engine: learning rate %v", o.LR)
	}
	if !(o.WeightDecay >= 0) || math.IsInf(o.WeightDecay, 0) {
		return nil, nil, fault.New(fault.ErrUsage, "cpu engine: weight decay %v", o.WeightDecay)
	}
	if err := o.loss().kind.Validate(o.LabelSmoothing); err != nil {
		return nil, nil, err
	}
	lib, err := blas.Open(o.BLAS)
	if err != nil {
		return nil, nil, err
	}
	return newPlan(&o.Model, 0, resolveOrders(&o.Model, 0, o.Typical, lib, true), o.Sizes, o.Threads), lib, nil
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
		l := first + i
		switch orders[i] = m.Order(l); {
		case !m.Commutes():
			orders[i] = model.Aggregate
		case orders[i] == model.Auto:
			orders[i] = model.ChooseOrder(m.CostLayer(l, typical.Src[i], typical.Dst[i], typical.Edges[i], training), rates)
		}
	}
	return orders
}

// MemoryBytes predicts the anonymous memory that New's engine will hold: buffers,
// weights and moments, and what OpenBLAS keeps for each thread. The features and
// the Prepareds are the caller's (Preparer.Bytes).
func MemoryBytes(o Options) (int64, error) {
	p, lib, err := resolve(&o)
	if err != nil {
		return 0, err
	}
	dry := new(device.Arena)
	newOptimizer(p, dry, &o)
	return dry.Used() + networkBytes(p, o.loss()) + libraryBytes(lib, p.threads), nil
}

func libraryBytes(lib *blas.Library, threads int) int64 {
	if lib.Kind() == blas.Gonum {
		return 0
	}
	return blasBytesPerThread * int64(threads)
}

// Info says what an engine computes with.
type Info struct {
	BLAS       string        `json:"blas"` // library, version and core: what decides the rounding
	BLASReason string        `json:"-"`    // why it is not OpenBLAS, for the user; "" if it is
	SIMD       string        `json:"simd"` // kernels in use; they all round alike
	Orders     []model.Order `json:"layer_orders"`
	Threads    int           `json:"threads"`
}

// Info says what the engine computes with.
func (e *Engine) Info() Info {
	return Info{e.blas.Name(), e.blas.Reason(), kernel.Kind(), e.plan.orders, e.plan.threads}
}

// Preparer returns what makes training batches ready for Step.
func (e *Engine) Preparer() *Preparer { return e.preparer }

// Step trains on one batch: forward, loss, backward, Adam; the running statistics of
// batch norms follow. A batch without labelled
// seed nodes has loss and gradient zero, and still counts as a step.
//
// When the context ends first, Step returns its error; when the loss is not finite,
// an error of kind fault.ErrInput. In both cases the weights are as before.
func (e *Engine) Step(ctx context.Context, in *Input) (Result, error) {
	if err := checkInput(e.plan, e.preparer, in); err != nil {
		return Result{}, err
	}
	if len(in.Prepared.Batch().Targets) > 0 && e.net.loss.kind == model.CrossEntropy {
		return Result{}, fault.New(fault.ErrInput, "cpu engine: the loss %s is of one class per seed node, the batch has any number: %s is for these", model.CrossEntropy, model.Binary)
	}
	if err := e.net.run(ctx, in, e.opts.Seed, e.opt.step); err != nil {
		return Result{}, err
	}
	r := e.net.loss.sum
	if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		return r, fault.New(fault.ErrInput, "cpu engine: step %d: the loss is %v: features that are not finite, or a learning rate (%v) that is too high",
			e.opt.step+1, r.Loss, e.opt.rate)
	}
	e.opt.update(e.pool)
	e.net.track()
	return r, nil
}

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
	if !validRate(rate) {
		return fault.New(fault.ErrUsage, "cpu engine: learning rate %v", rate)
	}
	e.opt.rate = rate
	return nil
}

func validRate(rate float64) bool { return rate >= 0 && !math.IsInf(rate, 0) }

// Close ends the engine's goroutines. Its evaluators end with it.
func (e *Engine) Close() { e.pool.close() }
