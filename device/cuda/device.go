package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"diskgnn/internal/fault"
)

// Options are the limits and the code of a device.
type Options struct {
	DeviceBytes int64 // limit of the device memory to allocate; 0: all of it
	PinnedBytes int64 // limit of the host memory to pin; 0: no limit
	Synchronous bool  // every call waits for its work, so that a fault names its kernel
	Code        Code  // kernels to load
}

// Device is an open device. Methods need an attached goroutine unless they say otherwise.
type Device struct {
	Info
	driver      driver
	index       int
	context     handle
	synchronous bool
	memory      account  // of the device
	pinned      account  // of the host
	functions   []handle // of the code
	code        []Function
	modules     []handle
	lost        atomic.Pointer[error] // the first fault
}

// Open opens the device with the given index in Devices, and loads o.Code. A missing device is an error of
// kind ErrNoDevice. The calling goroutine need not be attached.
func Open(index int, o Options) (*Device, error) {
	d, err := presentDriver()
	if err != nil {
		return nil, err
	}
	return open(d, index, o)
}

func open(driver driver, index int, o Options) (*Device, error) {
	infos, err := devices(driver)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(infos) {
		return nil, fault.New(ErrNoDevice, "there is no GPU %d: this machine has %d", index, len(infos))
	}
	d := &Device{Info: infos[index], driver: driver, index: index, synchronous: o.Synchronous}
	d.memory.what, d.pinned.what, d.pinned.most = "GPU memory", "pinned memory", o.PinnedBytes
	d.Limit(o.DeviceBytes)
	if d.context, err = driver.retain(index); err != nil {
		return nil, d.failed(fmt.Sprintf("open GPU %d", index), err)
	}
	detach, err := d.Attach()
	if err == nil {
		defer detach()
		err = d.load(o.Code)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Attach makes the device current for the calling goroutine, and locks the goroutine to its thread until
// detach is called.
func (d *Device) Attach() (detach func(), err error) {
	runtime.LockOSThread()
	if err := d.driver.bind(d.context); err != nil {
		runtime.UnlockOSThread()
		return nil, d.failed("attach to the GPU", err)
	}
	return runtime.UnlockOSThread, nil
}

// Attached calls do with the calling goroutine attached to the device, and returns do's error.
func (d *Device) Attached(do func() error) error {
	detach, err := d.Attach()
	if err != nil {
		return err
	}
	defer detach()
	return do()
}

// Reach lets this device's kernels use the memory of peer, another open device of the machine. It returns
// false if the machine cannot connect the two. The calling goroutine must be attached.
func (d *Device) Reach(peer *Device) (bool, error) {
	can, err := d.driver.reach(d.index, peer.driver, peer.index, peer.context)
	if err != nil {
		return false, d.failed(fmt.Sprintf("reach GPU %d from GPU %d", peer.index, d.index), err)
	}
	return can, nil
}

// Index returns the device's index in Devices.
func (d *Device) Index() int { return d.index }

// Close closes the device. Everything made with it must have been freed.
func (d *Device) Close() {
	if detach, err := d.Attach(); err == nil {
		for _, m := range d.modules {
			_ = d.driver.unloadModule(m)
		}
		detach()
	}
	_ = d.driver.release(d.index) // nothing is left to be done about it
}

// Held returns the bytes that this process now holds in the device's memory and in pinned host memory. It
// may be called from any goroutine.
func (d *Device) Held() (device, pinned int64) { return d.memory.held.Load(), d.pinned.held.Load() }

// Limit replaces Options.DeviceBytes for later allocations; 0: all of the device's memory. No goroutine may
// allocate during the call.
func (d *Device) Limit(bytes int64) {
	d.memory.most = d.Memory
	if bytes > 0 {
		d.memory.most = min(bytes, d.Memory)
	}
}

// Free returns the bytes of the device's memory that are free, after the allocations of all processes. The
// budget does not count. The calling goroutine must be attached.
func (d *Device) Free() (int64, error) {
	n, err := d.driver.available()
	if err != nil {
		return 0, d.failed("ask for the free GPU memory", err)
	}
	return n, nil
}

// failed returns the error of an attempted operation. A device that was lost stays lost.
func (d *Device) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	if first := d.lost.Load(); first != nil {
		return *first
	}
	kind := fault.ErrDevice
	var s *status
	if errors.As(err, &s) && s.outOfMemory {
		kind = fault.ErrBudget
	}
	e := fault.New(kind, "%s: %w", what, err)
	if s != nil && s.lost {
		d.lost.CompareAndSwap(nil, &e)
	}
	return e
}

// usable returns the fault by which the device was lost, nil if it is not lost.
func (d *Device) usable() error {
	if first := d.lost.Load(); first != nil {
		return *first
	}
	return nil
}
