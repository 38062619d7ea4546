package train

import (
	"context"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	engines "diskgnn/train/engine"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// driverBytes is what the driver and cuBLAS take of the host's memory once they are used.
const driverBytes = 128 << 20

// gpuReserve is what is left free of the device's memory: the driver takes some for
// graphs, and cuBLAS for its kernels, when they are first used.
const gpuReserve = 512 << 20

// gpuEngine is package gpu's engine as this package sees it.
type gpuEngine struct {
	*gpu.Engine
	found outcome
}

// newGPUEngine makes the engine for a pack on the GPU that open opens.
func newGPUEngine(open func() (*cuda.Device, error), o *Options, f featurestore.Facts) (engine, engineNeeds, error) {
	before := budget.Now().Anon
	d, err := open()
	if err != nil {
		return nil, engineNeeds{}, err
	}
	if o.GPUMemory > 0 {
		d.Limit(o.GPUMemory)
	}
	precision, _ := gpu.ParsePrecision(o.Precision)
	options := gpu.Options{Model: o.Network(), Sizes: f.TrainSizes, Buckets: buckets(&f), Typical: f.TrainMeans, Seed: o.Seed, LR: o.LR,
		WeightDecay: o.WeightDecay, Decoupled: o.Optimizer == recipe.OptimizerAdamW, LabelSmoothing: o.LabelSmoothing,
		Loss: model.Loss(o.Loss), Precision: precision, Device: d}
	if f.Valid+f.Test > 0 {
		options.EvalSizes = f.EvalSizes
	}
	e, err := gpu.New(options)
	if err != nil {
		return nil, engineNeeds{}, err
	}
	needs := engineNeeds{engine: driverBytes + max(0, budget.Now().Anon-before)} // most of it is the driver's
	needs.work, needs.evalWork = e.WorkBytes()
	needs.gpu = e.Device()
	if needs.gpuLeft, err = gpuLeft(needs.gpu, o.GPUMemory); err != nil {
		e.Close()
		return nil, needs, err
	}
	for _, p := range e.Params() {
		needs.engine += 5 * 4 * int64(p.Len()) // the best weights, two copies to write, and a state's moments
		needs.resume += checkpointArrays * 4 * int64(p.Len())
	}
	if err := budget.Check("the engine", needs.engine, o.Memory); err != nil {
		e.Close()
		return nil, needs, err
	}
	return &gpuEngine{Engine: e}, needs, nil
}

// gpuLeft returns what of the device's memory may still be taken.
func gpuLeft(d *cuda.Device, limit int64) (int64, error) {
	detach, err := d.Attach()
	if err != nil {
		return 0, err
	}
	defer detach()
	left, err := d.Free()
	left -= gpuReserve
	if held, _ := d.Held(); limit > 0 {
		left = min(left, limit-held)
	}
	return left, err
}

func (e *gpuEngine) NewWork(eval bool, features []byte) (work, error) {
	w, err := e.Engine.NewWork(eval, features)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (e *gpuEngine) Step(ctx context.Context, w work, f features) (*outcome, error) {
	return e.told(e.Engine.Step(ctx, w.(*gpu.Work), f))
}

func (e *gpuEngine) Finish() (*outcome, error) { return e.told(e.Engine.Finish()) }

func (e *gpuEngine) told(o *gpu.Outcome, err error) (*outcome, error) {
	if o == nil {
		return nil, err
	}
	e.found = outcome{o.Loss, o.Logits, o.Labels, o.Targets, o.Times}
	return &e.found, err
}

func (e *gpuEngine) Infer(ctx context.Context, w work, f features) ([]float32, error) {
	return e.Engine.Infer(ctx, w.(*gpu.Work), f)
}

func (e *gpuEngine) Restore(weights []float32) error { return e.LoadWeights(weights) }

func (e *gpuEngine) Info() engines.Info {
	i := e.Engine.Info()
	return engines.Info{BLAS: i.BLAS, Device: i.Device, Precision: i.Precision.String(), Orders: i.Orders, EvalOrders: i.EvalOrders}
}
