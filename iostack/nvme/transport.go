package nvme

import (
	"errors"

	"diskgnn/internal/fault"
)

// Transport is a way to reach one controller: its registers, and memory that it and the host
// share. Drivers are the only users of a transport. Registers may be used by several
// goroutines at once; Alloc, Map and Close by one.
type Transport interface {
	// Name says which controller is reached and how, as flags name it: soft:FILE, sysfs:ADDRESS.
	Name() string

	// Load32, Load64, Store32 and Store64 access registers at an offset in bytes. Nothing
	// that the host wrote to shared memory before a store is seen after it by the
	// controller, and the other way round for loads.
	Load32(offset int) uint32
	Load64(offset int) uint64
	Store32(offset int, v uint32)
	Store64(offset int, v uint64)

	// Alloc returns zeroed memory of at least n bytes, which begins at a page. Of at most
	// Contiguous bytes, it is contiguous for the controller.
	Alloc(n int) (*Memory, error)

	// Map makes the controller see memory that the host has, which begins at a page; not
	// all transports can: ErrNoMapping. Unmap takes it back; no command may be using it.
	Map(b []byte) (*Memory, error)

	// Free gives back memory from Alloc or Map.
	Free(m *Memory) error

	// Close gives all memory back, and the device, which is again as it was before. Its driver
	// has disabled the controller, or never brought it up. Closing twice does nothing.
	Close() error

	// Abandon is called in place of Close where the controller could not be disabled: memory
	// that it may still write to stays where it is, until the process ends at least.
	Abandon() error
}

// mapped is implemented by transports that map registers: it returns the number of bytes mapped,
// from the first on. Queues with doorbells behind them are not made.
type mapped interface{ Mapped() int }

// Caution returns a warning about a transport for users who would trust it with data, or "".
// Programs print it when they open one.
func Caution(t Transport) string {
	if c, ok := t.(interface{ Caution() string }); ok {
		return c.Caution()
	}
	return ""
}

// Notifier is a transport that can say when there are completions, as interrupts do; with
// others, queues are polled.
type Notifier interface {
	// Notify makes f be called after completions of a queue were posted. It must not block,
	// and may find none. Nil ends it.
	Notify(queue int, f func())
}

// Page is the size of pages that drivers and controllers use, in bytes.
const Page = 4096

// Contiguous is the most bytes of Alloc that are contiguous for the controller.
const Contiguous = 2 << 20

// Memory is seen by host and controller.
type Memory struct {
	Bytes []byte   // whole pages
	Pages []uint64 // of each page: the controller's address
}

// Address returns the controller's address of a byte.
func (m *Memory) Address(offset int) uint64 { return m.Pages[offset/Page] + uint64(offset%Page) }

// ErrNoMapping is the error of Map where memory can only come from Alloc.
var ErrNoMapping = errors.New("the transport cannot map this memory")

// Errors of drivers. A status of the controller is a spec.Status.
var (
	// ErrTimeout: a command was not completed, or the controller not ready, before the
	// deadline. The controller is not to be used any more but for Reset.
	ErrTimeout = errors.New("the controller does not answer")
	// ErrFatal: the controller says that it has failed (CSTS.CFS), or is not there.
	ErrFatal = errors.New("the controller has failed")
	// ErrFull: all entries of the queue but one have commands under way.
	ErrFull = errors.New("the queue is full")
	// ErrClosed: the controller was closed.
	ErrClosed = errors.New("the controller is closed")
	// ErrUnsupported: the controller lacks a feature that the driver needs.
	ErrUnsupported = fault.New(fault.ErrUsage, "not supported by the controller")
)
