package sysfs

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
)

// Device is a PCI function that was taken from the kernel's driver. It implements nvme.Transport.
type Device struct {
	f         *function
	registers platform.Registers
	helper    *helper

	mu     sync.Mutex // of the fields below
	memory *memory
	pool   *platform.Pool // of it
	closed bool
}

var _ nvme.Transport = (*Device)(nil)

// Open takes the PCI function with an address such as 0000:01:00.0 from the kernel's driver. A function
// that must not be taken, such as a drive in use, is an error of kind fault.ErrInput. Close gives the
// function back.
func Open(address string, o Options) (*Device, error) {
	begin := time.Now()
	o.pause = func() bool { time.Sleep(10 * time.Millisecond); return time.Since(begin) < arrival }
	return open(address, o, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB, o.root.physical)
}

func open(address string, o Options, flags int, frame func(uintptr) (uint64, error)) (_ *Device, err error) {
	f, err := inspect(address, o)
	if err != nil {
		return nil, err
	}
	d := &Device{f: f}
	if d.memory, err = newMemory(flags, frame); err != nil {
		return nil, errors.Join(err, f.close())
	}
	d.pool = platform.NewPool(d.Name(), d.memory)
	// Calls that may fail for rights or memory come before any change.
	first, err := d.pool.Take(nvme.Page)
	if err == nil {
		err = d.pool.Give(first)
	}
	if err == nil {
		d.helper, err = f.newHelper(d.memory.file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take %s: %w", address, err), f.close(), d.release())
	}
	if err := f.unbind(); err != nil {
		return nil, errors.Join(fmt.Errorf("take %s: %w", address, err), d.helper.giveBack(), f.close(), d.release())
	}
	d.helper.taken()
	if err = errors.Join(f.unclaim(), f.enable()); err == nil {
		d.registers, err = f.mapped()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take %s: %w", address, err), d.Close())
	}
	return d, nil
}

// Name implements nvme.Transport.
func (d *Device) Name() string { return "sysfs:" + d.f.address }

// Registers returns the memory of BAR 0, for a GPU that maps it.
func (d *Device) Registers() []byte { return d.registers }

// Mapped returns the size of BAR 0 in bytes. All of it is mapped.
func (d *Device) Mapped() int { return len(d.registers) }

// Load32 implements nvme.Transport.
func (d *Device) Load32(offset int) uint32 { return d.registers.Load32(offset) }

// Load64 implements nvme.Transport.
func (d *Device) Load64(offset int) uint64 { return d.registers.Load64(offset) }

// Store32 implements nvme.Transport.
func (d *Device) Store32(offset int, v uint32) { d.registers.Store32(offset, v) }

// Store64 implements nvme.Transport.
func (d *Device) Store64(offset int, v uint64) { d.registers.Store64(offset, v) }

// Alloc implements nvme.Transport, with memory of huge pages.
func (d *Device) Alloc(n int) (*nvme.Memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nvme.ErrClosed
	}
	return d.pool.Alloc(n)
}

// Map implements nvme.Transport. It returns nvme.ErrNoMapping: the kernel may move other memory.
func (d *Device) Map([]byte) (*nvme.Memory, error) { return nil, nvme.ErrNoMapping }

// Free implements nvme.Transport.
func (d *Device) Free(m *nvme.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nvme.ErrClosed
	}
	return d.pool.Give(m)
}

// release gives all memory back.
func (d *Device) release() error { return errors.Join(d.pool.Close(), d.memory.file.Close()) }

// Close implements nvme.Transport. When it returns, the kernel's driver has the function again. If the
// function could not be given back, the memory is kept, since the controller may write to it.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.helper.giveBack()
	if errors.Is(err, errGone) {
		err = d.f.tree.giveBack(d.f.address, d.f.driver)
	}
	if bar := d.registers; bar != nil {
		d.registers = nil
		err = errors.Join(err, unix.Munmap(bar))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("give %s back: %w", d.f.address, err), d.f.close())
	}
	return errors.Join(d.f.close(), d.release())
}

// Abandon implements nvme.Transport. It calls Close, which tries again to stop the controller, and disables
// bus mastering, without which the controller cannot write to memory.
func (d *Device) Abandon() error { return d.Close() }
