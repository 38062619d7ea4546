package gpu

import (
	"errors"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/train/engine"
)

// Inference is a GPU's streams and library of products for the layers of a whole graph: see Tile. It is for one
// goroutine at a time, which is attached to the device, except for New and Close.
type Inference struct {
	device       *cuda.Device
	main, copies *cuda.Stream
	workspace    *cuda.Arena
	blas         *cuda.BLAS
}

// NewInference makes an Inference. The caller closes it before the device.
func NewInference(d *cuda.Device) (*Inference, error) {
	f := &Inference{device: d}
	err := d.Attached(func() (err error) {
		var errs [3]error
		f.main, errs[0] = d.NewStream()
		f.copies, errs[1] = d.NewStream()
		f.workspace, errs[2] = d.NewArena(d.BLASWorkspace())
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		workspace, err := f.workspace.Take(d.BLASWorkspace())
		if err == nil {
			f.blas, err = f.main.NewBLAS(workspace)
		}
		return err
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Device returns the device.
func (f *Inference) Device() *cuda.Device { return f.device }

// Info returns the device and the library.
func (f *Inference) Info() engine.Info {
	return engine.Info{Device: f.device.Name, BLAS: f.blas.Version(), Precision: f.blas.Precision.String()}
}

// Close releases everything. All tiles were freed.
func (f *Inference) Close() {
	_ = f.device.Attached(func() error { // a device that is lost has nothing to release
		free(f.blas)
		free(f.main, f.copies)
		free(f.workspace)
		return nil
	})
}

// reserve is the device memory in bytes that stays free: the driver takes some for graphs, and cuBLAS for its
// kernels, at first use.
const reserve = 512 << 20

// Left returns the bytes of the device's memory that may still be taken, if a process may hold limit bytes; 0: all.
func Left(on device.GPU, limit int64) (left int64, err error) {
	d := cuda.DeviceOf(on)
	err = d.Attached(func() (err error) {
		left, err = d.Free()
		return err
	})
	left -= reserve
	if held, _ := d.Held(); limit > 0 {
		left = min(left, limit-held)
	}
	return left, err
}
