// Package gpu is the GPU engine: it trains and evaluates the networks that package
// model describes on sampled mini-batches, as package cpu does on the CPU, which is its
// reference.
//
//	work's frame ─┐ copy stream        main stream
//	(pinned)      ├──► input 0 or 1 ──► forward, loss, backward, Adam ──► results 0 or 1
//	Features     ─┘    (device)         (a CUDA graph for each input)     (pinned)
//
// All memory is taken when the engine is made, for the largest counts that a batch can
// have. Launches are for these sizes, or for those of the bucket that the batch fits. The
// number of rows that there really are lies in device memory, beside everything else that
// differs from step to step, so a step is captured once and launched from then on. Products
// that sum over rows take all rows of these sizes: those beyond the batch's are zero.
//
// Features come from host memory, or from a store that has rows on the device.
// A batch is copied, and its rows gathered, while the one before it is computed, and what
// a step found is handed out one step later: the processor never waits for the newest
// step.
//
// Dropout drops the elements that it drops on the CPU. The same steps give the same
// bits, on the same device and version of cuBLAS.
package gpu

import (
	"math"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Options describe an engine.
type Options struct {
	Model model.Model
	// Sizes are the largest counts of the training batches, EvalSizes those of the
	// batches for Infer; without the latter there is none.
	Sizes, EvalSizes graph.Sizes
	// Buckets are smaller sizes, the smallest first. The launches for a batch that fits one
	// of them are for its sizes only.
	Buckets []graph.Sizes
	// Typical are the mean counts of the training batches, by which Auto orders are
	// chosen; the zero value stands for Sizes.
	Typical graph.Sizes
	Seed    uint64  // of the initial weights and of dropout
	LR      float64 // Adam's learning rate

	WeightDecay    float64 // as PyTorch's, over all parameters
	Decoupled      bool    // AdamW's weight decay
	Loss           model.Loss
	LabelSmoothing float64        // of CrossEntropy, in [0, 1)
	Precision      cuda.Precision // of matrix products

	Device   *cuda.Device // opened with kernels.Code; it is closed after the engine
	NoGraphs bool         // enqueue every step's work anew
}

// ParsePrecision returns the precision of that name.
func ParsePrecision(name string) (cuda.Precision, bool) {
	for _, p := range []cuda.Precision{cuda.Full, cuda.TF32, cuda.BF16} {
		if p.String() == name {
			return p, true
		}
	}
	return 0, false
}

// Engine trains one model. Its methods must not be called concurrently, except that
// works prepare batches at any time.
type Engine struct {
	opts   Options
	device *cuda.Device
	memory
	copies, main *cuda.Stream
	blas         *cuda.BLAS
	clock        clock
	waited       time.Duration // for the device, that no outcome has told of

	train, eval *network // no eval without EvalSizes
	adam        optimizer
	inputs      [2]input // of training, in turn
	evalInput   input
	stale       bool  // the evaluation's statistics are not those of the weights
	broken      error // of a step that failed, until LoadState
	works       map[*Work]bool
	closed      bool
}

// Info says what an engine computes with.
type Info struct {
	Device      string
	BLAS        string
	Precision   cuda.Precision
	Orders      []model.Order // of training
	EvalOrders  []model.Order
	DeviceBytes int64 // held
}

// New makes an engine with fresh weights.
func New(o Options) (*Engine, error) {
	if err := o.resolve(); err != nil {
		return nil, err
	}
	e := &Engine{opts: o, device: o.Device, works: make(map[*Work]bool)}
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

// resolve checks the options and fills in what they leave open.
func (o *Options) resolve() error {
	if err := o.Model.Validate(); err != nil {
		return err
	}
	if o.Typical.Src == nil {
		o.Typical = o.Sizes
	}
	if o.Loss == "" {
		o.Loss = model.CrossEntropy
	}
	if err := checkSizes(o.Model.Layers(), o.Sizes); err != nil {
		return err
	}
	if err := prepare.CheckSizes(o.Model.Layers(), o.Typical); err != nil {
		return err
	}
	if o.EvalSizes.Src != nil {
		if err := checkSizes(o.Model.Layers(), o.EvalSizes); err != nil {
			return err
		}
		o.EvalSizes = joined(o.EvalSizes)
	}
	o.Sizes = joined(o.Sizes)
	if err := o.resolveBuckets(); err != nil {
		return err
	}
	switch {
	case !(o.LR > 0) || math.IsInf(o.LR, 0):
		return fault.New(fault.ErrUsage, "gpu: learning rate %v", o.LR)
	case !(o.WeightDecay >= 0) || math.IsInf(o.WeightDecay, 0):
		return fault.New(fault.ErrUsage, "gpu: weight decay %v", o.WeightDecay)
	}
	for l := range o.Model.Layers() {
		if o.Model.Kind == model.GAT && o.Model.Order(l) == model.Multiply {
			return fault.New(fault.ErrUsage, "gpu: %s multiplies first on the CPU alone: let it aggregate first", model.GAT)
		}
	}
	return o.Loss.Validate(o.LabelSmoothing)
}

// make takes the memory and makes everything that lies in it, with the initial weights.
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
	e.blas.Precision = e.opts.Precision
	for i := range e.inputs {
		if err := e.inputs[i].open(e.device, e.train); err != nil {
			return err
		}
	}
	if e.eval != nil {
		if err := e.evalInput.open(e.device, e.eval); err != nil {
			return err
		}
	}
	for _, n := range []*network{e.train, e.eval} {
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
	e.adam.lay(&e.memory, &o.Model)
	e.train = newNetwork(&e.memory, o, append(o.Buckets[:len(o.Buckets):len(o.Buckets)], o.Sizes), o.Typical, true)
	e.train.weights, e.train.grads = e.adam.weights, e.adam.grads
	e.train.build()
	for i := range e.inputs {
		e.inputs[i].lay(&e.memory, e.train)
	}
	if o.EvalSizes.Src != nil {
		e.eval = newNetwork(&e.memory, o, []graph.Sizes{o.EvalSizes}, o.EvalSizes, false)
		e.eval.weights = e.adam.weights
		e.eval.build()
		e.evalInput.lay(&e.memory, e.eval)
	}
	return e.bytes(cuda.BLASWorkspace)
}

// Info says what the engine computes with.
func (e *Engine) Info() Info {
	i := Info{Device: e.device.Name, BLAS: e.blas.Version(), Precision: e.opts.Precision, Orders: e.train.orders}
	i.DeviceBytes, _ = e.device.Held()
	if e.eval != nil {
		i.EvalOrders = e.eval.orders
	}
	return i
}

// Device returns what the engine computes on.
func (e *Engine) Device() *cuda.Device { return e.device }

// Close gives all memory back. Its works end with it. Closing twice does nothing.
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
		_ = e.main.Synchronize() // what went wrong has been told
	}
	for w := range e.works {
		w.free()
	}
	for i := range e.inputs {
		e.inputs[i].close()
	}
	e.evalInput.close()
	if e.blas != nil {
		e.blas.Free()
	}
	if e.clock.mark != nil {
		e.clock.mark.Free()
	}
	for _, s := range []*cuda.Stream{e.copies, e.main} {
		if s != nil {
			s.Free()
		}
	}
	if e.arena != nil {
		e.arena.Free()
	}
}
