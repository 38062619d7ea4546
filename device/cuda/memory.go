package cuda

import (
	"sync/atomic"

	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// Align is the alignment of every buffer, in bytes. Sizes are rounded up to it when they are
// counted.
const Align = 256

// account counts bytes against a budget.
type account struct {
	what string
	most int64 // 0: no limit
	held atomic.Int64
}

func (a *account) take(bytes int64) error {
	if bytes < 0 {
		return fault.New(fault.ErrBudget, "cannot allocate %d bytes of %s", bytes, a.what)
	}
	now := a.held.Add(bytes)
	if a.most == 0 || now <= a.most {
		return nil
	}
	a.held.Add(-bytes)
	return fault.New(fault.ErrBudget, "cannot allocate %s more of %s: %s are allocated, and the limit is %s",
		budget.FormatBytes(bytes), a.what, budget.FormatBytes(now-bytes), budget.FormatBytes(a.most))
}

func (a *account) give(bytes int64) { a.held.Add(-bytes) }

// Buffer is a device.Buffer.
type Buffer = device.Buffer

// Arena divides one allocation of device memory into buffers, so that a program takes all of its device
// memory at the start. A zero Arena has no memory and only counts, so that the same code computes the size
// needed and takes the memory.
type Arena struct {
	device *Device
	memory Buffer
	used   int64
}

// NewArena allocates device memory for an Arena. If the budget or the device does not have the bytes, the
// error is of kind fault.ErrBudget. The content is undefined.
func (d *Device) NewArena(bytes int64) (*Arena, error) {
	bytes = aligned(bytes)
	if err := d.memory.take(bytes); err != nil {
		return nil, err
	}
	a := &Arena{device: d}
	if bytes == 0 {
		return a, nil
	}
	address, err := d.driver.alloc(bytes)
	if err != nil {
		d.memory.give(bytes)
		return nil, d.failed("take "+budget.FormatBytes(bytes)+" of GPU memory", err)
	}
	a.memory = device.NewBuffer(address, bytes)
	return a, nil
}

// Take returns the next bytes of the arena, at a multiple of Align. If the arena has fewer bytes left, the
// error is of kind fault.ErrBudget. An arena without memory returns the zero Buffer.
func (a *Arena) Take(bytes int64) (Buffer, error) {
	from := a.used
	if bytes < 0 || a.device != nil && bytes > a.memory.Bytes()-from {
		return Buffer{}, fault.New(fault.ErrBudget, "%d bytes do not fit in an arena with %d bytes left", bytes, a.memory.Bytes()-from)
	}
	a.used += aligned(bytes)
	if a.device == nil {
		return Buffer{}, nil
	}
	return a.memory.Slice(from, bytes), nil
}

// Used returns the bytes taken so far, alignment included. Of an arena without memory it is the size for
// NewArena.
func (a *Arena) Used() int64 { return a.used }

// Free frees the memory. No work on it may be under way. Freeing again does nothing.
func (a *Arena) Free() {
	d, m := a.device, a.memory
	a.device, a.memory, a.used = nil, Buffer{}, 0
	if d == nil || m.Bytes() == 0 {
		return
	}
	_ = d.driver.free(m.Address()) // fails only after a fault, which was returned
	d.memory.give(m.Bytes())
}

func aligned(bytes int64) int64 { return (bytes + Align - 1) &^ (Align - 1) }
