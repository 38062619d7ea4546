// Package platform is the common part of NVMe transports: registers that are mapped as memory (Registers),
// memory for queues and data, cut from contiguous chunks (Pool), and the system calls to kernel modules
// (System).
package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

// System has the calls of transports to kernel modules. Tests replace it by a module in software.
// Implementations may be used by several goroutines.
type System interface {
	// Open opens a character device for reading and writing. For other files the error is ENODEV.
	Open(node string) (fd int, err error)
	Close(fd int) error

	// Control makes a request to a module (ioctl), and returns its result. The request defines the type of
	// the memory at arg.
	Control(fd int, request uint32, arg unsafe.Pointer) (int, error)

	// Map maps the first n bytes of a file, shared.
	Map(fd, n int) ([]byte, error)
	// Huge returns n bytes of zeroed memory in huge pages; n is a multiple of their size.
	Huge(n int) ([]byte, error)
	// Unmap unmaps memory of Map or Huge.
	Unmap(b []byte) error

	// Memory returns the descriptor of a file in memory, of n bytes in huge pages, which cannot shrink.
	Memory(n int) (fd int, err error)
	// Duplicate returns another descriptor of the same file.
	Duplicate(fd int) (int, error)
}

// The parts of a request's number: direction, size of the memory at arg, type and number.
const (
	toModule = 1 << 30
	toHost   = 2 << 30
)

// WriteRequest returns the number of a request with n bytes of arguments, which the module reads.
func WriteRequest(kind, number byte, n int) uint32 {
	return toModule | uint32(n)<<16 | uint32(kind)<<8 | uint32(number)
}

// ReadWriteRequest returns the number of a request with n bytes of arguments, which the module reads and
// writes.
func ReadWriteRequest(kind, number byte, n int) uint32 { return toHost | WriteRequest(kind, number, n) }

// Refused returns the error for a device node that could not be opened with err, with the reason: of kind
// fault.ErrUsage for the usual ones. absent is the reason if the node does not exist.
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
