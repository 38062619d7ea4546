package spec

import "fmt"

// Status is a completion's status without the phase: code, type, and whether a retry cannot
// succeed. As an error it names what the specification calls it; errors.Is compares code and
// type alone.
type Status uint16

// DNR says that the same command would fail again.
const DNR Status = 1 << 14

const mask Status = 0x7ff

// Statuses: type << 8 | code.
const (
	Success                Status = 0x000
	InvalidOpcode          Status = 0x001
	InvalidField           Status = 0x002
	CommandIDConflict      Status = 0x003
	DataTransferError      Status = 0x004
	PowerLoss              Status = 0x005
	InternalError          Status = 0x006
	AbortRequested         Status = 0x007
	AbortSQDeleted         Status = 0x008
	InvalidNamespace       Status = 0x00b
	CommandSequenceError   Status = 0x00c
	InvalidPRPOffset       Status = 0x013
	LBAOutOfRange          Status = 0x080
	CapacityExceeded       Status = 0x081
	NamespaceNotReady      Status = 0x082
	CQInvalid              Status = 0x100
	InvalidQueueID         Status = 0x101
	InvalidQueueSize       Status = 0x102
	AbortLimitExceeded     Status = 0x103
	AsyncEventLimit        Status = 0x105
	InvalidInterruptVector Status = 0x108
	InvalidLogPage         Status = 0x109
	InvalidQueueDeletion   Status = 0x10c
	WriteFault             Status = 0x280
	UnrecoveredReadError   Status = 0x281
	GuardCheckError        Status = 0x282
	AccessDenied           Status = 0x286
)

var names = map[Status]string{
	Success: "success", InvalidOpcode: "invalid command opcode", InvalidField: "invalid field in command", CommandIDConflict: "command ID conflict",
	DataTransferError: "data transfer error", PowerLoss: "aborted for loss of power", InternalError: "internal error", AbortRequested: "abort requested",
	AbortSQDeleted: "aborted, its queue was deleted", InvalidNamespace: "invalid namespace or format", CommandSequenceError: "command sequence error",
	InvalidPRPOffset: "invalid PRP offset", LBAOutOfRange: "block out of range", CapacityExceeded: "capacity exceeded", NamespaceNotReady: "namespace not ready",
	CQInvalid: "completion queue invalid", InvalidQueueID: "invalid queue identifier", InvalidQueueSize: "invalid queue size",
	AbortLimitExceeded: "abort limit exceeded", AsyncEventLimit: "asynchronous event limit exceeded", InvalidInterruptVector: "invalid interrupt vector",
	InvalidLogPage: "invalid log page", InvalidQueueDeletion: "invalid queue deletion", WriteFault: "write fault", UnrecoveredReadError: "unrecovered read error",
	GuardCheckError: "end-to-end guard check error", AccessDenied: "access denied",
}

// Failed reports whether it is not success.
func (s Status) Failed() bool { return s&mask != Success }

// Retry reports whether the same command may succeed.
func (s Status) Retry() bool { return s&DNR == 0 }

func (s Status) Error() string {
	name, known := names[s&mask]
	if !known {
		name = "unknown status"
	}
	return fmt.Sprintf("NVMe: %s (type %d, code %02xh)", name, s&mask>>8, int(s&0xff))
}

// Is makes errors.Is ignore everything but type and code.
func (s Status) Is(target error) bool {
	t, is := target.(Status)
	return is && s&mask == t&mask
}
