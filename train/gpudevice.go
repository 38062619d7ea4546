package train

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// gpuDevice is the machine's first GPU, which a run's storage stack and its engine share. The
// first of them that needs it opens it.
type gpuDevice struct {
	from   func(index int, o cuda.Options) (*cuda.Device, error)
	stacks func(kind string, o iostack.Options) (iostack.Stack, string, error)
	device *cuda.Device // nil: it is not open
}

func newGPUDevice() *gpuDevice { return &gpuDevice{from: kernels.Open, stacks: all.Open} }

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

// openStack opens a storage stack, which reads into the device if it can.
func (g *gpuDevice) openStack(kind string, o iostack.Options) (iostack.Stack, string, error) {
	o.Device = g.open
	return g.stacks(kind, o)
}

// newEngine makes the engine that the options name. A device that was opened for an engine
// which cannot be made is closed again.
func (g *gpuDevice) newEngine(o *Options, f featurestore.Facts) (engine, engineNeeds, error) {
	shared := g.device != nil
	return chooseEngine(o, f, func(o *Options, f featurestore.Facts) (engine, engineNeeds, error) {
		e, needs, err := newGPUEngine(g.open, o, f)
		if err != nil && !shared {
			g.close()
		}
		return e, needs, err
	})
}

// close gives the device back, after all that uses it was closed.
func (g *gpuDevice) close() {
	if g.device != nil {
		g.device.Close()
		g.device = nil
	}
}
