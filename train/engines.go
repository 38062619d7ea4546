package train

import (
	"errors"
	"slices"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/gpu"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// engineWish is the wanted engine, with its model and its batches.
type engineWish struct {
	engine.Config                  // but for its device
	kind          string           // auto, cpu or gpu
	uses          rundir.Resources // of the machine
	replica       int              // of the process, that it is for
	inBits        bool             // the store can leave blocks in bits
}

// wish returns the engine that the options name for the batches of a store. With apart, ranks'
// gradients are summed on the host.
func (o *Options) wish(f *featurestore.Facts, apart bool) engineWish {
	w := engineWish{Config: engine.Config{Recipe: o.Recipe, Network: o.Network(), Sizes: f.TrainSizes, Typical: f.TrainMeans, Buckets: decide.Buckets(f),
		Threads: o.Threads, BLAS: o.BLAS, Apart: apart}, kind: o.Engine, uses: o.Resources, inBits: f.InBits}
	if f.Valid+f.Test > 0 && o.Validation != recipe.Exact {
		w.EvalSizes = f.EvalSizes
	}
	return w
}

// engineNeeds is the memory that an engine holds, and the device on which it computes.
type engineNeeds struct {
	decide.Needs
	gpu    device.GPU          // that it computes on, if any
	direct bool                // reads can land there
	reads  iostack.DeviceStack // for reads that the GPU submits by itself; nil: it cannot
	beside *beside             // the process' other devices; nil: there are none
	kind   string              // that auto came to; "" where one was named
	note   string              // why this engine was chosen, for the user
}

// beside are the devices of the process' other replicas.
type beside struct {
	peers  []device.GPU
	divide bool // all devices reach each other's memory
}

// scorers adds the memory of the scorers for a store's batches.
func (n *engineNeeds) scorers(metric string, f *featurestore.Facts) {
	train, state := score.Bytes(epoch.TrainJudging(metric, f))
	eval, _ := score.Bytes(epoch.EvalJudging(metric, f))
	n.Engine += train + eval + state // which a checkpoint holds
	n.Resume += state
}

// chooseEngine makes the wanted engine. For auto this is the GPU's, made by onGPU, if there is a
// GPU that the model fits.
func chooseEngine(w engineWish, onGPU func(engineWish) (engine.Engine, engineNeeds, error)) (engine.Engine, engineNeeds, error) {
	var note string
	switch w.kind {
	case EngineGPU:
		e, needs, err := onGPU(w)
		return e, needs, noGPUEngine(err)
	case EngineAuto:
		e, needs, err := onGPU(w)
		if err == nil {
			needs.kind = EngineGPU
			return e, needs, nil
		}
		if !errors.Is(err, cuda.ErrNoDevice) {
			note = "the GPU is not used: " + err.Error()
		}
	}
	if err := servesCPU(w.Precision, &w.uses); err != nil {
		return nil, engineNeeds{}, err
	}
	e, needs, err := newCPUEngine(w)
	needs.kind, needs.note = EngineCPU, note
	return e, needs, err
}

// newCPUEngine makes the engine of the host, if its buffers fit in memory.
func newCPUEngine(w engineWish) (engine.Engine, engineNeeds, error) {
	var needs engineNeeds
	train, eval, err := cpu.MemoryBytes(w.Config)
	if err != nil {
		return nil, needs, err
	}
	if err := budget.Check("the engine, evaluation included,", train+eval, w.uses.Memory); err != nil {
		return nil, needs, err
	}
	e, err := cpu.New(w.Config)
	if err != nil {
		return nil, needs, err
	}
	needs.Engine = train + eval
	needs.Work, needs.EvalWork = e.WorkBytes()
	needs.weights(e, 3+3) // the best weights, two copies to write, and a copy of the state
	return e, needs, nil
}

// weights adds the memory of copies of an engine's weights, and of a checkpoint of them.
func (n *engineNeeds) weights(e engine.Engine, copies int64) {
	for _, p := range e.Params() {
		n.Engine += copies * 4 * int64(p.Len())
		n.Resume += epoch.CheckpointArrays * 4 * int64(p.Len())
	}
}

// newGPUEngine makes the engine on the GPU that open opens.
func newGPUEngine(open func() (*cuda.Device, error), w engineWish) (engine.Engine, engineNeeds, error) {
	before := budget.Now().Anon
	d, err := open()
	if err != nil {
		return nil, engineNeeds{}, err
	}
	if w.uses.GPUMemory > 0 {
		d.Limit(w.uses.GPUMemory)
	}
	w.Device, w.InBits = d, w.inBits && gpu.Decodes(&w.Network)
	e, err := gpu.New(w.Config)
	if err != nil {
		return nil, engineNeeds{}, err
	}
	needs := engineNeeds{gpu: d}
	needs.OnGPU, needs.InBits = true, w.InBits
	needs.Engine = budget.DriverReserve + max(0, budget.Now().Anon-before) // most of it is the driver's
	needs.Work, needs.EvalWork = e.WorkBytes()
	if needs.GPULeft, err = gpu.Left(d, w.uses.GPUMemory); err != nil {
		e.Close()
		return nil, needs, err
	}
	needs.weights(e, 6+3) // the best weights, two copies to write, a state, and its copy
	if err := budget.Check("the engine", needs.Engine, w.uses.Memory); err != nil {
		e.Close()
		return nil, needs, err
	}
	return e, needs, nil
}

// gpuDevice is a GPU of the machine, shared by a run's storage stack and its engine: the first GPU,
// unless several ranks are on the machine. It is opened at first use.
type gpuDevice struct {
	from   func(index int, o cuda.Options) (*cuda.Device, error)
	stacks func(kind string, o iostack.Options) (iostack.Stack, string, error)
	device *cuda.Device   // nil: it is not open
	peers  []*cuda.Device // of the process' other replicas
}

// newGPUDevice returns the device of the rank with that number on the machine; the devices after it
// are for further replicas. Where a scheduler shows each rank one GPU, the rank has that GPU.
func newGPUDevice(rank int) *gpuDevice {
	from := func(index int, o cuda.Options) (*cuda.Device, error) {
		infos, err := cuda.Devices()
		if err != nil {
			return nil, err
		}
		return kernels.Open((rank+index)%len(infos), o)
	}
	return &gpuDevice{from: from, stacks: all.Open}
}

// open returns the device.
func (g *gpuDevice) open() (*cuda.Device, error) {
	if g.device != nil {
		return g.device, nil
	}
	d, err := g.from(0, cuda.Options{})
	if err != nil {
		return nil, err
	}
	g.device = d
	return d, nil
}

// openPeer returns the device of a further replica.
func (g *gpuDevice) openPeer(replica int) (*cuda.Device, error) {
	d, err := g.from(replica, cuda.Options{})
	if err == nil {
		g.peers = append(g.peers, d)
	}
	return d, err
}

// openStack opens a storage stack, which reads into the device if it can.
func (g *gpuDevice) openStack(kind string, o iostack.Options) (iostack.Stack, string, error) {
	o.Device = func() (device.GPU, error) { return g.open() }
	return g.stacks(kind, o)
}

// newEngine makes the wanted engine. If that fails, it closes the device that it opened for the
// engine.
func (g *gpuDevice) newEngine(w engineWish) (engine.Engine, engineNeeds, error) {
	return chooseEngine(w, func(w engineWish) (engine.Engine, engineNeeds, error) {
		if w.replica > 0 {
			return newGPUEngine(func() (*cuda.Device, error) { return g.openPeer(w.replica) }, w)
		}
		shared := g.device != nil
		e, needs, err := newGPUEngine(g.open, w)
		if err != nil && !shared {
			g.close()
		}
		return e, needs, err
	})
}

// close releases the device, after all its users were closed.
func (g *gpuDevice) close() {
	for _, d := range slices.Backward(g.peers) {
		d.Close()
	}
	g.peers = nil
	if g.device != nil {
		g.device.Close()
		g.device = nil
	}
}
