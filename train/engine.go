package train

import (
	"errors"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack/devread"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/gpu"
	"diskgnn/train/recipe"
	"diskgnn/train/safetensors"
	"diskgnn/train/score"
)

// gpuReserve is what is left free of the device's memory: the driver takes some for
// graphs, and cuBLAS for its kernels, when they are first used.
const gpuReserve = 512 << 20

// engineNeeds is the memory that an engine holds and that its works hold.
type engineNeeds struct {
	engine, work, evalWork int64
	replicas               int           // that works are for, each in its own slots; 0 means one
	stack                  int64         // what the storage stack holds beyond a few buffers
	resume                 int64         // what a checkpoint takes while it is gone on from
	state                  int64         // of it, what an earlier process' store may have in its checkpoints
	gpu                    *cuda.Device  // that it computes on, if any
	gpuLeft                int64         // bytes that it leaves of its memory
	direct                 bool          // reads can land there
	reads                  devread.Stack // from which it can read by itself; nil: none
	beside                 *beside       // the process' other devices; nil: there are none
	note                   string        // why this engine was chosen, for the user
}

// beside are the devices of the process' other replicas.
type beside struct {
	peers  []*cuda.Device
	divide bool // all devices reach each other's memory
}

// scorers adds the memory of what scores the batches of a store.
func (n *engineNeeds) scorers(metric string, f *featurestore.Facts) {
	train, state := score.Bytes(trainJudging(metric, f))
	eval, _ := score.Bytes(evalJudging(metric, f))
	n.engine += train + eval + state // which a checkpoint holds
	n.resume += state
}

// chooseEngine makes the engine that the options name: auto is the GPU's, which onGPU makes,
// where there is one that the model fits.
func chooseEngine(o *Options, f featurestore.Facts, onGPU func(*Options, featurestore.Facts) (engine.Engine, engineNeeds, error)) (engine.Engine, engineNeeds, error) {
	var note string
	switch o.Engine {
	case EngineGPU:
		e, needs, err := onGPU(o, f)
		return e, needs, noGPUEngine(err)
	case EngineAuto:
		e, needs, err := onGPU(o, f)
		if err == nil {
			o.Engine = EngineGPU
			return e, needs, nil
		}
		if !errors.Is(err, cuda.ErrNoDevice) {
			note = "the GPU is left alone: " + err.Error()
		}
	}
	switch {
	case o.Precision != recipe.PrecisionFloat32:
		return nil, engineNeeds{}, fault.New(fault.ErrUsage, "--precision %s is for --engine %s", o.Precision, EngineGPU)
	case o.GPUCache != nil && o.GPUCache.Value != 0:
		return nil, engineNeeds{}, fault.New(fault.ErrUsage, "--gpu-cache %s is for --engine %s; use --ram-cache", o.GPUCache, EngineGPU)
	}
	o.Engine = EngineCPU
	e, needs, err := newCPUEngine(o, f)
	needs.note = note
	return e, needs, err
}

// configure returns what both engines take of the options and the facts.
func configure(o *Options, f *featurestore.Facts) engine.Config {
	c := engine.Config{Recipe: o.Recipe, Network: o.Network(), Sizes: f.TrainSizes, Typical: f.TrainMeans, Apart: o.apart}
	if f.Valid+f.Test > 0 {
		c.EvalSizes = f.EvalSizes
	}
	return c
}

// newCPUEngine makes the engine of the host, if its buffers fit in memory.
func newCPUEngine(o *Options, f featurestore.Facts) (engine.Engine, engineNeeds, error) {
	config := configure(o, &f)
	config.Threads, config.BLAS = o.Threads, o.BLAS
	var needs engineNeeds
	train, eval, err := cpu.MemoryBytes(config)
	if err != nil {
		return nil, needs, err
	}
	if err := budget.Check("the engine", train, o.Memory); err != nil {
		return nil, needs, err
	}
	if err := budget.Check("the engine, evaluation included,", train+eval, o.Memory); err != nil {
		return nil, needs, err
	}
	e, err := cpu.New(config)
	if err != nil {
		return nil, needs, err
	}
	needs.engine = train + eval
	needs.work, needs.evalWork = e.WorkBytes()
	needs.weights(e, 3) // the best weights, and two copies to write
	return e, needs, nil
}

// weights adds the memory of so many copies of an engine's weights, and what a checkpoint
// takes of them.
func (n *engineNeeds) weights(e engine.Engine, copies int64) {
	for _, p := range e.Params() {
		n.engine += copies * 4 * int64(p.Len())
		n.resume += checkpointArrays * 4 * int64(p.Len())
	}
}

// newGPUEngine makes the engine for a pack on the GPU that open opens.
func newGPUEngine(open func() (*cuda.Device, error), o *Options, f featurestore.Facts) (engine.Engine, engineNeeds, error) {
	before := budget.Now().Anon
	d, err := open()
	if err != nil {
		return nil, engineNeeds{}, err
	}
	if o.GPUMemory > 0 {
		d.Limit(o.GPUMemory)
	}
	config := configure(o, &f)
	config.Buckets, config.Device = buckets(&f), d
	e, err := gpu.New(config)
	if err != nil {
		return nil, engineNeeds{}, err
	}
	needs := engineNeeds{engine: budget.DriverReserve + max(0, budget.Now().Anon-before)} // most of it is the driver's
	needs.work, needs.evalWork = e.WorkBytes()
	needs.gpu = d
	if needs.gpuLeft, err = gpuLeft(d, o.GPUMemory); err != nil {
		e.Close()
		return nil, needs, err
	}
	needs.weights(e, 5) // the best weights, two copies to write, and a state's moments
	if err := budget.Check("the engine", needs.engine, o.Memory); err != nil {
		e.Close()
		return nil, needs, err
	}
	return e, needs, nil
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

// tensors returns a copy of the weights, named and oriented as PyTorch has them.
func tensors(e engine.Engine) ([]safetensors.Tensor, error) {
	weights, err := e.Snapshot(nil)
	if err != nil {
		return nil, err
	}
	params := e.Params()
	list := make([]safetensors.Tensor, len(params))
	for i, p := range params {
		t := &list[i]
		t.Name, t.Shape, t.Data = p.Name, p.Shape, make([]float32, p.Len())
		for in := range p.Rows {
			for out := range p.Cols {
				t.Data[out*p.Rows+in] = weights[in*p.Cols+out]
			}
		}
		weights = weights[p.Len():]
	}
	return list, nil
}
