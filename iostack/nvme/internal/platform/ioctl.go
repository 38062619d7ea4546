// Package platform is the part of a machine that NVMe transports share: registers that are mapped
// as memory (Registers), memory for queues and data, cut out of contiguous chunks (Pool), and the
// calls by which kernel modules are reached (System).
package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// System is the calls by which transports reach kernel modules: tests put a module in software in
// their place. Implementations may be used by several goroutines.
type System interface {
	// Open opens a character device for reading and writing. Of another file the error is
	// ENODEV.
	Open(node string) (fd int, err error)
	Close(fd int) error

	// Control makes a request of a module (ioctl), and returns its answer. The request defines the
	// memory behind arg.
	Control(fd int, request uint32, arg unsafe.Pointer) (int, error)

	// Map maps n bytes of a file from its beginning, shared.
	Map(fd, n int) ([]byte, error)
	// Huge returns zeroed memory in huge pages; n is a multiple of their size.
	Huge(n int) ([]byte, error)
	// Unmap takes either back.
	Unmap(b []byte) error

	// Memory returns a file in memory of n bytes in huge pages, which cannot shrink.
	Memory(n int) (fd int, err error)
	// Duplicate returns another descriptor of the same file.
	Duplicate(fd int) (int, error)
}

// Requests are numbered by direction, size of arg's target, type and number.
const (
	toModule = 1 << 30
	toHost   = 2 << 30
)

// WriteRequest returns the number of a request that the module reads n bytes of.
func WriteRequest(kind, number byte, n int) uint32 {
	return toModule | uint32(n)<<16 | uint32(kind)<<8 | uint32(number)
}

// ReadWriteRequest returns the number of a request that it also answers there.
func ReadWriteRequest(kind, number byte, n int) uint32 { return toHost | WriteRequest(kind, number, n) }

// Refused explains why a device node cannot be opened, as an error of kind fault.ErrUsage. absent is
// the cause to report where there is no such node.
func Refused(node string, err error, absent string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO), errors.Is(err, errors.ErrUnsupported):
		return fault.New(fault.ErrUsage, "there is no %s: %s", node, absent)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.ErrUsage, "%s may be opened by root alone: %w", node, err)
	case errors.Is(err, unix.ENODEV):
		return fault.New(fault.ErrUsage, "%s is no character device", node)
	}
	return fmt.Errorf("open %s: %w", node, err)
}
