// Package gpu is the GPU engine: it trains and evaluates the networks of package model on sampled
// mini-batches. Package cpu does the same on the CPU, and is the reference. A Tile computes layers of whole
// graphs, for package exact/grid.
//
//	work's frame ─┐ copy stream        main stream
//	(pinned)      ├──► input 0 or 1 ──► forward, loss, backward, Adam ──► results 0 or 1
//	Features     ─┘    (device)         (a CUDA graph for each input)     (pinned)
//
// All memory is taken when the engine is made, for the largest counts that a batch can have. Work
// is launched in these sizes, or in the sizes of the bucket that a batch fits. The real number of
// rows lies in device memory, like everything that differs between steps, so that a step is
// captured once and launched from then on. Products that sum over rows use all rows of the launched
// size: rows beyond the batch's are zero.
//
// Backward launches the captured work on a batch. If a step has one batch, the work ends with Adam,
// and Apply launches nothing. If it has several, or Config.Apart leaves their sum to the caller,
// the work ends by adding the gradients to the step's on the device, and Apply launches Adam.
//
// Features lie in host memory, or come from a store with rows on the device. A batch is copied, and
// its rows gathered, while the batch before it is computed. Its outcome is returned one batch
// later: the processor never waits for the newest batch.
//
// With Config.InBits, blocks come in bits: the copy stream decodes and checks them, and derives the rest of the
// frame, as package prepare does on the host. A batch with wrong numbers is an error of kind fault.ErrCorrupt, with its outcome.
//
// Dropout drops the same elements as on the CPU. The same steps give the same bits on the same
// device and version of cuBLAS.
package gpu

import (
	"errors"
	"slices"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Engine trains one model. Its methods must not be called concurrently, except that works prepare
// batches at any time.
type Engine struct {
	opts   engine.Config
	device *cuda.Device
	memory
	copies, main *cuda.Stream
	blas         *cuda.BLAS
	clock        clock
	waited       time.Duration // for the device, not yet in an outcome

	train, eval *machine // no eval without EvalSizes
	adam        optimizer
	inputs      [2]input // of training, in turn
	evalInput   input
	stale       bool // the evaluation's running statistics are older than the weights
	sum         sum
	batches     uint64 // launched
	pending     bool   // a batch is launched that no Apply has ended
	broken      error  // of a step that failed, until LoadState
	works       works
	closed      bool
}

// New makes an engine with fresh weights.
func New(o engine.Config) (*Engine, error) {
	if err := resolve(&o); err != nil {
		return nil, err
	}
	d := cuda.DeviceOf(o.Device)
	e := &Engine{opts: o, device: d, works: works{d, make(map[*Work]bool)}}
	detach, err := e.device.Attach()
	if err == nil {
		err = e.make()
		detach()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// resolve checks the options and replaces unset ones by their defaults.
func resolve(o *engine.Config) error {
	if err := o.Resolve(); err != nil {
		return err
	}
	if err := checkSizes(o.Network.Layers(), o.Sizes); err != nil {
		return err
	}
	if o.EvalSizes.Src != nil {
		if err := checkSizes(o.Network.Layers(), o.EvalSizes); err != nil {
			return err
		}
		o.EvalSizes = joined(o.EvalSizes)
	}
	o.Sizes = joined(o.Sizes)
	if err := resolveBuckets(o); err != nil {
		return err
	}
	if _, known := parsePrecision(o.Precision); !known {
		return fault.New(fault.ErrUsage, "gpu: unknown precision %q", o.Precision)
	}
	if o.Network.Types != nil {
		o.NoGraphs = true // products have the sizes of the batch
	}
	if o.InBits && !Decodes(&o.Network) {
		return fault.New(fault.ErrUsage, "gpu: the host decodes the batches of this model")
	}
	if kind := o.Network.Kind; !convolutions[kind].multiplies && slices.Contains(o.Network.Orders, model.Multiply) {
		return fault.New(fault.ErrUsage, "gpu: only the CPU engine multiplies first in %s: let it aggregate first", kind)
	}
	return nil
}

// make takes the memory, builds the layers in it, and sets the initial weights.
func (e *Engine) make() error {
	e.arena = new(cuda.Arena) // only counts
	e.lay()
	arena, err := e.device.NewArena(e.arena.Used())
	if err != nil {
		return err
	}
	e.memory = memory{arena: arena}
	if e.copies, err = e.device.NewStream(); err != nil {
		return err
	}
	if e.main, err = e.device.NewStream(); err != nil {
		return err
	}
	if e.clock.mark, err = e.device.NewEvent(); err != nil {
		return err
	}
	if err := e.clock.set(e.main); err != nil {
		return err
	}
	workspace := e.lay()
	if e.err != nil {
		return e.err
	}
	if e.blas, err = e.main.NewBLAS(workspace); err != nil {
		return err
	}
	e.blas.Precision, _ = parsePrecision(e.opts.Precision)
	for i := range e.inputs {
		if err := e.inputs[i].open(e.device); err != nil {
			return err
		}
	}
	if e.eval != nil {
		if err := e.evalInput.open(e.device); err != nil {
			return err
		}
	}
	for _, n := range []*machine{e.train, e.eval} {
		if n == nil {
			continue
		}
		n.stream, n.blas = e.main, e.blas
		if err := n.start(); err != nil {
			return err
		}
	}
	return e.initialise()
}

// lay takes the memory of everything, in order, and returns cuBLAS's.
func (e *Engine) lay() cuda.Buffer {
	o := &e.opts
	e.adam.lay(&e.memory, &o.Network)
	e.train = newMachine(&e.memory, o, append(o.Buckets[:len(o.Buckets):len(o.Buckets)], o.Sizes), o.Typical, true)
	e.train.weights, e.train.grads = e.adam.weights, e.adam.grads
	e.train.build(o)
	e.sum.lay(&e.memory, e.train.plan, o)
	for i := range e.inputs {
		e.inputs[i].lay(&e.memory, e.train.plan, e.train.frame)
	}
	if o.EvalSizes.Src != nil {
		e.eval = newMachine(&e.memory, o, []graph.Sizes{o.EvalSizes}, o.EvalSizes, false)
		e.eval.weights = e.adam.weights
		e.eval.build(o)
		e.evalInput.lay(&e.memory, e.eval.plan, e.eval.frame)
	}
	return e.bytes(e.device.BLASWorkspace())
}

// Info returns the device, the libraries and the precision of the engine.
func (e *Engine) Info() engine.Info {
	i := engine.Info{Device: e.device.Name, BLAS: e.blas.Version(), Precision: e.blas.Precision.String(), Orders: e.train.orders}
	if e.eval != nil {
		i.EvalOrders = e.eval.orders
	}
	return i
}

// Close releases all memory. Works become invalid. Closing twice does nothing.
func (e *Engine) Close() {
	if e.closed {
		return
	}
	e.closed = true
	if detach, err := e.device.Attach(); err == nil {
		e.free()
		detach()
	}
}

func (e *Engine) free() {
	if e.main != nil {
		_ = e.main.Synchronize() // errors were returned before
	}
	for w := range e.works.open {
		w.free()
	}
	for i := range e.inputs {
		e.inputs[i].close()
	}
	e.evalInput.close()
	free(e.blas)
	free(e.clock.mark)
	free(e.copies, e.main)
	free(e.arena)
}

// SetLR changes the learning rate of later steps.
func (e *Engine) SetLR(rate float64) error {
	if err := engine.CheckRate(rate); err != nil {
		return err
	}
	e.adam.rate = rate
	return nil
}

// initialise stores the initial weights and moments.
func (e *Engine) initialise() error {
	e.adam.rate, e.stale = e.opts.LR, true
	weights := make([]float32, e.adam.layout.Count())
	e.adam.layout.Init(weights, e.opts.Seed)
	return errors.Join(e.main.CopyIn(e.adam.weights, binio.Bytes(weights)), e.main.Fill(e.adam.moment1, 0), e.main.Fill(e.adam.moment2, 0), e.main.Synchronize())
}

// NewWork makes a work for Backward or, with eval, for Infer. features is the memory of its
// batches' features, outside Go's heap, and is pinned until Close; nil permits any memory.
func (e *Engine) NewWork(eval bool, features []byte) (engine.Work, error) {
	detach, err := e.device.Attach()
	if err != nil {
		return nil, err
	}
	defer detach()
	n := e.train
	if eval {
		if n = e.eval; n == nil {
			return nil, errNoEvaluation
		}
	}
	w := &Work{of: &e.works, plan: n.plan, frame: n.frame}
	if w.pinned, err = e.device.NewPinned(n.frame.copied); err != nil {
		return nil, err
	}
	if len(features) > 0 {
		if w.features, err = e.device.Register(features); err != nil {
			w.pinned.Free()
			return nil, err
		}
	}
	if !n.inBits {
		w.prepared = n.frame.room(w.pinned.Bytes(), n.preparer.Loops())
	}
	e.works.open[w] = true
	return w, nil
}

// WorkBytes returns the bytes of a work for Backward, most of them pinned, and of one for Infer.
func (e *Engine) WorkBytes() (train, eval int64) {
	train = e.train.frame.copied
	if !e.train.inBits {
		train += e.train.preparer.SortingBytes()
	}
	if e.eval != nil {
		eval = e.eval.frame.copied
	}
	return train, eval
}

var errNoEvaluation = fault.New(fault.ErrUsage, "gpu: made without EvalSizes: it cannot evaluate")
