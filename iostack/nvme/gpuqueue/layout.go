package gpuqueue

import (
	"fmt"

	"diskgnn/iostack/nvme/spec"
)

// The description of a queue for the kernels: indices of words of 8 bytes.
const (
	WordSQ         = iota // address of the ring of commands
	WordCQ                // address of the ring of completions
	WordSubmission        // addresses of the doorbells
	WordCompletion
	WordData   // address of the staging buffers, slot after slot
	WordPages  // address of three bus addresses for each slot: of its buffer's first page, of the second, and of the list of all pages but the first
	WordStates // address of a word of 4 bytes for each slot
	WordDepth
	WordTail // number of commands written so far
	WordHead // number of completions consumed so far
	WordDead // Status of all later requests of a dead queue; 0: the queue is not dead

	QueueWords = 16
)

// States of a slot.
const (
	SlotFree = 0
	SlotBusy = 1       // a command is under way
	SlotDone = 1 << 31 // the command was completed; the lower bits have its status
)

// Request is a read, in its form in device memory.
type Request struct {
	Block  uint64 // first block of the array
	Offset uint64 // offset in the destination, in bytes: a multiple of 16
	Blocks uint64 // number of blocks
}

// RequestBytes is the size of a Request in bytes.
const RequestBytes = 24

// Limits of an array; the kernels assume them.
const (
	MaxDrives = 16
	MaxQueues = 1024
)

// BinBlocks is the number of blocks of the kernels that sort requests by drive.
const BinBlocks = 32

// Words of the array's control block: words of 4 bytes in host memory.
const (
	ControlAbort = 0 // the host sets it to 1 to end all waits
	ControlWords = 16
)

// NoFailure is the outcome of a block or a queue without a failed request. Another outcome is f << 32 | s,
// where f is the number of the first failed request and s its Status.
const NoFailure = ^uint64(0)

// Status is the outcome of a request: 0 for success, the controller's status without the phase, or a
// constant below.
type Status uint32

// Statuses that do not come from the controller.
const (
	StatusTimeout  Status = 1 << 16 // the command was not completed before the deadline
	StatusAborted  Status = 2 << 16 // Abort came first
	StatusProtocol Status = 3 << 16 // the controller completed a command that was not under way
	StatusRefused  Status = 4 << 16 // the request lies outside the drives or the destination, or has a wrong size
)

// failed returns a request's status as an error.
func (s Status) failed() error {
	switch s {
	case StatusTimeout:
		return fmt.Errorf("%w: it was not completed before the deadline", ErrLost)
	case StatusAborted:
		return fmt.Errorf("%w: waiting for it was aborted", ErrLost)
	case StatusProtocol:
		return fmt.Errorf("%w: the controller completed a command that was not under way", ErrLost)
	case StatusRefused:
		return ErrRequest
	}
	return spec.Status(s)
}
