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
	WordData   // the staging buffer of slot 0; others follow
	WordPages  // three addresses for each slot: the controller's of its buffer's first page, of its second, of the list of all but the first
	WordStates // a word of 4 bytes for each slot
	WordDepth
	WordTail // commands that were written so far
	WordHead // completions that were consumed so far
	WordDead // the Status that all its requests have; 0: none

	QueueWords = 16
)

// States of a slot.
const (
	SlotFree = 0
	SlotBusy = 1       // a command is under way
	SlotDone = 1 << 31 // it was completed; with its status below
)

// Request is a read, in its form in device memory.
type Request struct {
	Block  uint64 // the first one, of the array's
	Offset uint64 // of the destination, in bytes: a multiple of 16
	Blocks uint64 // how many
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
	ControlAbort = 0 // the host's: other than 0 to end all waiting
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
	StatusTimeout  Status = 1 << 16 // it was not completed before the deadline
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
