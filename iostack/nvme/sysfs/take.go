package sysfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
	"diskgnn/iostack/nvme/spec"
)

// Bits of the command register of a PCI function, which is two bytes of its configuration.
const (
	commandRegister = 4

	decodesMemory   = 1 << 1
	mastersBus      = 1 << 2
	noLineInterrupt = 1 << 10
)

// command changes the command register: bits are set, then cleared.
func (t tree) command(address string, set, clear uint16) error {
	f, err := os.OpenFile(t.path(device(address)+"/config"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [2]byte
	_, err = f.ReadAt(b[:], commandRegister)
	if err == nil {
		binary.LittleEndian.PutUint16(b[:], binary.LittleEndian.Uint16(b[:])&^clear|set)
		_, err = f.WriteAt(b[:], commandRegister)
	}
	return errors.Join(err, f.Close())
}

// lock opens and locks BAR 0. If another process holds the lock, the error is of kind fault.ErrLocked.
func (f *function) lock() error {
	bar, err := os.OpenFile(f.tree.path(device(f.address)+"/resource0"), os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	f.bar = bar
	if err := unix.Flock(int(bar.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fault.New(fault.ErrLocked, "%s is used by another process", f.address)
	}
	info, err := bar.Stat()
	if err == nil && info.Size() < spec.Doorbells+nvme.Page {
		err = fault.New(fault.ErrInput, "%s has %d bytes of registers, too few for an NVMe controller", f.address, info.Size())
	}
	f.registers = int(info.Size())
	return err
}

// mapped maps the registers.
func (f *function) mapped() ([]byte, error) {
	b, err := unix.Mmap(int(f.bar.Fd()), 0, f.registers, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map its registers: %w", err)
	}
	return b, nil
}

func (f *function) unbind() error {
	if f.driver == "" {
		return nil
	}
	return f.tree.write(driver(f.driver)+"/unbind", f.address)
}

// enable enables a function that has no driver, as a bus master.
func (f *function) enable() error {
	if err := f.tree.write(device(f.address)+"/enable", "1"); err != nil {
		return err
	}
	return f.tree.command(f.address, decodesMemory|mastersBus|noLineInterrupt, 0)
}

// giveBack stops a controller, so that it does not access memory any more, and binds its function to its
// former driver.
func (t tree) giveBack(address, to string) error {
	stopped := t.stop(address)
	if err := t.command(address, 0, mastersBus); err != nil {
		return errors.Join(stopped, err) // it may write to memory: no driver is to have it
	}
	err := t.command(address, 0, noLineInterrupt)
	err = errors.Join(err, t.write(device(address)+"/enable", "0"))
	if to != "" {
		err = errors.Join(err, t.write(driver(to)+"/bind", address))
	}
	return errors.Join(stopped, err)
}

// stop disables a controller and waits for it, up to the time limit that the controller states.
func (t tree) stop(address string) error {
	f, err := os.OpenFile(t.path(device(address)+"/resource0"), os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, spec.Doorbells, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(b)
	registers := platform.Registers(b)
	config := registers.Load32(spec.CC)
	if config == ^uint32(0) {
		return nil // it is gone, or was not enabled: it does nothing
	}
	registers.Store32(spec.CC, config&^spec.Enable)
	longest := time.Duration(max(1, spec.Capabilities(registers.Load64(spec.CAP)).Timeout())) * 500 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		switch status := registers.Load32(spec.CSTS); {
		case status&spec.Ready == 0 || status == ^uint32(0):
			return nil
		case time.Since(begin) > longest:
			return fmt.Errorf("%w: %s stays ready for %v after it was disabled", nvme.ErrTimeout, address, longest)
		}
	}
}

// Options are the options of Open.
type Options struct {
	// Force also takes a drive with a partition table, or without a driver. A drive in use is never taken.
	Force bool

	root  tree
	pause func() bool // waits for block devices; false: long enough
}
