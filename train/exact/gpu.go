package exact

import (
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/budget"
	"diskgnn/train/exact/grid"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// layersOn are the layers on the GPU.
type layersOn struct {
	device  *cuda.Device
	lent    bool // the device stays open
	on      *gpu.Inference
	weights []float32
	memory  int64 // bytes of its memory that a step may take
	host    int64 // bytes of the host's memory that it takes
}

// openGPU opens a GPU for the layers of a model with these weights, or uses one that is lent. Of its memory limit bytes
// may be held; 0: all. The caller closes it.
func openGPU(lent *cuda.Device, limit int64, weights []float32) (*layersOn, error) {
	before := budget.Now().Anon
	l := &layersOn{device: lent, lent: lent != nil, weights: weights}
	if err := l.open(limit); err != nil {
		l.close()
		return nil, err
	}
	l.host = max(0, budget.Now().Anon-before) + 4*int64(len(weights))
	if !l.lent { // else its owner counts the driver
		l.host += budget.DriverReserve
	}
	return l, nil
}

func (l *layersOn) open(limit int64) (err error) {
	if !l.lent {
		if l.device, err = kernels.Open(0, cuda.Options{}); err != nil {
			return err
		}
	}
	if limit > 0 {
		l.device.Limit(limit)
	}
	if l.on, err = gpu.NewInference(l.device); err == nil {
		l.memory, err = gpu.Left(l.device, limit)
	}
	return err
}

func (l *layersOn) close() {
	if l == nil {
		return
	}
	if l.on != nil {
		l.on.Close()
	}
	if l.device != nil && !l.lent {
		l.device.Close()
	}
}

// sizes returns the shape of a layer, and the numbers that decide how it is computed; groups are the targets' sources.
func (l *layersOn) sizes(m *model.Model, layer int, groups []int64) (prepare.PullShape, *grid.GPUSizes) {
	return gpu.TileShape(m, layer, grid.GPUGroup), &grid.GPUSizes{Memory: l.memory, Lists: groups,
		Bytes: func(t gpu.TileSizes) int64 { return gpu.TileBytes(m, layer, t) }}
}
