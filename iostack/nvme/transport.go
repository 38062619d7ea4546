package nvme

import (
	"errors"

	"diskgnn/internal/fault"
)

// Transport is the access to one controller: its registers, and memory that it shares with the host. A
// transport has one user, the driver. Registers may be used by several goroutines at once; Alloc, Map, Free
// and Close by one.
type Transport interface {
	// Name returns the name of the controller in the form of flags: soft:FILE, sysfs:ADDRESS.
	Name() string

	// Load32, Load64, Store32 and Store64 access registers at an offset in bytes. The controller sees a
	// store after all earlier writes of the host to shared memory, and the host's reads of shared memory
	// after a load see the controller's earlier writes.
	Load32(offset int) uint32
	Load64(offset int) uint64
	Store32(offset int, v uint32)
	Store64(offset int, v uint64)

	// Alloc returns zeroed memory of at least n bytes that begins at a page. If n is at most Contiguous, it
	// is contiguous for the controller. Free frees it.
	Alloc(n int) (*Memory, error)

	// Map maps existing host memory, which begins at a page, for the controller. Transports that cannot do
	// this return ErrNoMapping. Free unmaps it; no command may be using it.
	Map(b []byte) (*Memory, error)

	// Free frees memory of Alloc, or unmaps memory of Map.
	Free(m *Memory) error

	// Close frees all memory and gives the device back in its former state. The driver must have disabled
	// the controller, or never have brought it up. Closing again does nothing.
	Close() error

	// Abandon replaces Close if the controller could not be disabled: memory that it may still write to is
	// kept, at least until the process ends.
	Abandon() error
}

// mapped is implemented by transports that map registers: it returns the number of bytes mapped, from the
// first on. Queues with doorbells beyond them are not made.
type mapped interface{ Mapped() int }

// Caution returns a warning about the reliability of a transport, or "". Programs print it when they open
// the transport.
func Caution(t Transport) string {
	if c, ok := t.(interface{ Caution() string }); ok {
		return c.Caution()
	}
	return ""
}

// Notifier is a transport that announces completions, as interrupts do. With other transports, queues are
// polled.
type Notifier interface {
	// Notify sets the function that is called after completions of a queue were posted. f must not block,
	// and may be called without new completions. A nil f ends the calls.
	Notify(queue int, f func())
}

// Page is the size of pages that drivers and controllers use, in bytes.
const Page = 4096

// Contiguous is the largest size of Alloc, in bytes, for which the memory is contiguous for the controller.
const Contiguous = 2 << 20

// Memory is memory that both the host and the controller can access.
type Memory struct {
	Bytes []byte   // whole pages
	Pages []uint64 // of each page: the controller's address
}

// Address returns the controller's address of the byte at an offset.
func (m *Memory) Address(offset int) uint64 { return m.Pages[offset/Page] + uint64(offset%Page) }

// ErrNoMapping is the error of Map if the transport cannot map the memory.
var ErrNoMapping = errors.New("the transport cannot map this memory")

// Errors of drivers. A status of the controller is a spec.Status.
var (
	// ErrTimeout means that a command was not completed, or the controller not ready, before the deadline.
	// Only Reset and Close of the controller are then allowed.
	ErrTimeout = errors.New("the controller does not answer")
	// ErrFatal means that the controller reports a failure (CSTS.CFS), violates the protocol, or is gone.
	ErrFatal = errors.New("the controller has failed")
	// ErrFull means that all entries of the queue but one have commands under way.
	ErrFull = errors.New("the queue is full")
	// ErrClosed means that the controller or the transport was closed.
	ErrClosed = errors.New("the controller is closed")
	// ErrUnsupported means that the controller lacks a feature that the driver needs.
	ErrUnsupported = fault.New(fault.ErrUsage, "not supported by the controller")
)
