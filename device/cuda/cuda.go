// Package cuda is the driver of one NVIDIA device: its memory, taken within a budget; streams,
// events and graphs of work on it; launches of kernels; and cuBLAS. The kernels themselves are in
// package kernels.
//
// The package has the same API in every build. One interface hides the driver. It is implemented
// with the build tag gpu alone: without the tag, and on a machine that has no driver or device, Open
// and Devices return ErrNoDevice with the reason.
//
// # Threads
//
// The driver keeps a current device for every thread. A goroutine calls Device.Attach before any other call
// of the package, and stays on its thread until it detaches. Streams, and the objects made on them, belong
// to one goroutine at a time.
//
// # Faults
//
// Work on a stream fails after the call that enqueued it. The error comes from the call that waits for the
// stream, or from the next call: its kind is fault.ErrDevice and it names the work that was under way.
// After a fault the device is lost to the process, and every call returns the same error. With
// Options.Synchronous every call waits for its work, so that the error names the failing kernel.
package cuda

import (
	"errors"

	"diskgnn/internal/fault"
)

// ErrNoDevice is the kind of the errors for a missing device or driver. Their text states the reason.
var ErrNoDevice = errors.New("no GPU")

// Info describes a device.
type Info struct {
	Name            string
	Memory          int64 // size in bytes
	Bandwidth       int64 // of the memory, bytes per second; 0 if unknown
	Multiprocessors int
	Major, Minor    int // compute capability
	Node            int // nearest NUMA node of the host; -1 if there is none or it is unknown
}

// Devices describes the devices of this machine, at least one. If there is none, the error is of kind
// ErrNoDevice.
func Devices() ([]Info, error) {
	d, err := presentDriver()
	if err != nil {
		return nil, err
	}
	return devices(d)
}

func devices(d driver) ([]Info, error) {
	n, err := d.count()
	switch {
	case err != nil:
		return nil, fault.New(ErrNoDevice, "no usable CUDA driver or device: %w", err)
	case n == 0:
		return nil, fault.New(ErrNoDevice, "the CUDA driver knows no device")
	}
	infos := make([]Info, n)
	for i := range infos {
		if infos[i], err = d.describe(i); err != nil {
			return nil, fault.New(fault.ErrDevice, "describe GPU %d: %w", i, err)
		}
	}
	return infos, nil
}
