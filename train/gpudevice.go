package train

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/train/engine"
)

// gpuDevice is a GPU of the machine, the first one unless several ranks are on it, which a run's storage stack and its engine share. The
// first of them that needs it opens it.
type gpuDevice struct {
	from   func(index int, o cuda.Options) (*cuda.Device, error)
	stacks func(kind string, o iostack.Options) (iostack.Stack, string, error)
	device *cuda.Device   // nil: it is not open
	peers  []*cuda.Device // of the process' other replicas
}

// newGPUDevice is the device of the machine's rank of that number, and those after it of further
// replicas. Where a scheduler shows each rank one GPU, that is its.
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
	o.Device = g.open
	return g.stacks(kind, o)
}

// newEngine makes the engine that the options name. A device that was opened for an engine
// which cannot be made is closed again.
func (g *gpuDevice) newEngine(o *Options, f featurestore.Facts) (engine.Engine, engineNeeds, error) {
	if o.replica > 0 {
		return chooseEngine(o, f, func(o *Options, f featurestore.Facts) (engine.Engine, engineNeeds, error) {
			return newGPUEngine(func() (*cuda.Device, error) { return g.openPeer(o.replica) }, o, f)
		})
	}
	shared := g.device != nil
	return chooseEngine(o, f, func(o *Options, f featurestore.Facts) (engine.Engine, engineNeeds, error) {
		e, needs, err := newGPUEngine(g.open, o, f)
		if err != nil && !shared {
			g.close()
		}
		return e, needs, err
	})
}

// close gives the device back, after all that uses it was closed.
func (g *gpuDevice) close() {
	closeAll(g.peers)
	g.peers = nil
	if g.device != nil {
		g.device.Close()
		g.device = nil
	}
}
