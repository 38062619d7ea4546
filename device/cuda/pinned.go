package cuda

import (
	"unsafe"

	"diskgnn/device"
	"diskgnn/internal/budget"
)

// Pinned is page-locked host memory, which the device accesses directly: copies from and to it are
// asynchronous, at the speed of the bus.
type Pinned struct {
	device     *Device
	mem        []byte
	registered bool // the memory belongs to the caller of Register
}

// NewPinned allocates pinned host memory, page-aligned. More than Options.PinnedBytes in all is an error of
// kind fault.ErrBudget. The caller frees it.
func (d *Device) NewPinned(bytes int64) (*Pinned, error) {
	if err := d.pinned.take(bytes); err != nil {
		return nil, err
	}
	if bytes == 0 {
		return &Pinned{device: d}, nil
	}
	p, err := d.driver.allocPinned(bytes)
	if err != nil {
		d.pinned.give(bytes)
		return nil, d.failed("take "+budget.FormatBytes(bytes)+" of pinned memory", err)
	}
	return &Pinned{device: d, mem: unsafe.Slice((*byte)(p), bytes)}, nil
}

// Register pins existing memory until Free. The memory must be outside Go's heap, as of a device.Host, and
// must stay mapped until then.
func (d *Device) Register(mem []byte) (*Pinned, error) {
	bytes := int64(len(mem))
	if err := d.pinned.take(bytes); err != nil {
		return nil, err
	}
	if bytes == 0 {
		return &Pinned{device: d}, nil
	}
	if err := d.driver.register(unsafe.Pointer(unsafe.SliceData(mem)), bytes); err != nil {
		d.pinned.give(bytes)
		return nil, d.failed("pin "+budget.FormatBytes(bytes), err)
	}
	return &Pinned{device: d, mem: mem, registered: true}, nil
}

// Bytes returns the memory as a slice, which is valid until Free.
func (p *Pinned) Bytes() []byte { return p.mem }

// Float32s returns the memory as float32 values, which are valid until Free.
func (p *Pinned) Float32s() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(p.mem))), len(p.mem)/4)
}

// Buffer returns the memory as a Buffer for kernels, which read and write it over the bus.
func (p *Pinned) Buffer() (Buffer, error) {
	if len(p.mem) == 0 {
		return Buffer{}, nil
	}
	address, err := p.device.driver.mapped(unsafe.Pointer(unsafe.SliceData(p.mem)))
	if err != nil {
		return Buffer{}, p.device.failed("map pinned memory", err)
	}
	return device.NewBuffer(address, int64(len(p.mem))), nil
}

// Mapped returns memory that was pinned by another device as a Buffer for this device's kernels. The
// calling goroutine must be attached to this device.
func (d *Device) Mapped(p *Pinned) (Buffer, error) {
	return (&Pinned{device: d, mem: p.mem}).Buffer()
}

// Free unpins the memory, and frees it if NewPinned allocated it. No copy may be under way.
func (p *Pinned) Free() {
	mem := p.mem
	p.mem = nil
	if len(mem) == 0 {
		return
	}
	at := unsafe.Pointer(unsafe.SliceData(mem))
	if p.registered {
		_ = p.device.driver.unregister(at) // fails only after a fault, which was returned
	} else {
		_ = p.device.driver.freePinned(at)
	}
	p.device.pinned.give(int64(len(mem)))
}
