package spec

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// Sizes of entries in bytes.
const (
	CommandBytes    = 64
	CompletionBytes = 16
)

// Opcodes of admin commands.
const (
	DeleteSQ    = 0x00
	CreateSQ    = 0x01
	GetLogPage  = 0x02
	DeleteCQ    = 0x04
	CreateCQ    = 0x05
	Identify    = 0x06
	Abort       = 0x08
	SetFeatures = 0x09
	GetFeatures = 0x0a
	AsyncEvent  = 0x0c
)

// Opcodes of the NVM command set.
const (
	Flush = 0x00
	Write = 0x01
	Read  = 0x02
)

// NumberOfQueues is the identifier of the feature "number of queues".
const NumberOfQueues = 0x07

// Structures that Identify returns (CNS).
const (
	IdentifyNamespace  = 0
	IdentifyController = 1
	IdentifyNamespaces = 2 // the list of active namespaces
	IdentifyNames      = 3 // the list of a namespace's identifiers: type, bytes, 2 reserved, identifier
	IdentifyBytes      = 4096

	NameUUID = 3 // type of an identifier of 16 bytes
)

// Logs that a controller has (LID).
const (
	ErrorLog    = 1
	HealthLog   = 2
	FirmwareLog = 3
)

// Command is a submission queue entry.
type Command [CommandBytes]byte

// Word returns double word i of a command; SetWord writes it.
func (c *Command) Word(i int) uint32       { return binary.LittleEndian.Uint32(c[4*i:]) }
func (c *Command) SetWord(i int, v uint32) { binary.LittleEndian.PutUint32(c[4*i:], v) }

func (c *Command) long(i int) uint64       { return binary.LittleEndian.Uint64(c[4*i:]) }
func (c *Command) setLong(i int, v uint64) { binary.LittleEndian.PutUint64(c[4*i:], v) }

// Opcode returns the opcode, and ID the command's identifier.
func (c *Command) Opcode() byte { return c[0] }
func (c *Command) ID() uint16   { return binary.LittleEndian.Uint16(c[2:]) }

// SetHead writes opcode, identifier and namespace.
func (c *Command) SetHead(opcode byte, id uint16, namespace uint32) {
	c.SetWord(0, uint32(opcode)|uint32(id)<<16)
	c.SetWord(1, namespace)
}

// SetID writes the identifier alone.
func (c *Command) SetID(id uint16) { binary.LittleEndian.PutUint16(c[2:], id) }

// Namespace returns the namespace.
func (c *Command) Namespace() uint32 { return c.Word(1) }

// Flags returns the bits between opcode and identifier.
func (c *Command) Flags() byte { return c[1] }

// Fields of Flags. The other bits are reserved.
const (
	Fused = 0x03 // part of a fused operation
	SGL   = 0xc0 // scatter gather lists, not PRPs, have the addresses of the data
)

// AllNamespaces stands for all namespaces, in commands that allow it.
const AllNamespaces = ^uint32(0)

// PRP1 returns the first address of the data, PRP2 the second one or the address of the list; SetPRP writes
// both.
func (c *Command) PRP1() uint64           { return c.long(6) }
func (c *Command) PRP2() uint64           { return c.long(8) }
func (c *Command) SetPRP(one, two uint64) { c.setLong(6, one); c.setLong(8, two) }

// Blocks returns the first block and the number of blocks of a read or a write.
func (c *Command) Blocks() (first uint64, n int) { return c.long(10), int(c.Word(12)&0xffff) + 1 }

// SetBlocks writes the first block and the number of blocks; n is 1 to 65536.
func (c *Command) SetBlocks(first uint64, n int) {
	c.setLong(10, first)
	c.SetWord(12, uint32(n-1))
}

// Completion is a completion queue entry.
type Completion struct {
	Result uint32
	SQHead uint16 // number of entries fetched so far, modulo the queue's size
	SQID   uint16
	ID     uint16
	Status Status
}

// Parse decodes a completion of CompletionBytes bytes, and its phase.
func Parse(b []byte) (c Completion, phase bool) {
	three := binary.LittleEndian.Uint32(b[12:])
	return Completion{
		Result: binary.LittleEndian.Uint32(b), SQHead: binary.LittleEndian.Uint16(b[8:]), SQID: binary.LittleEndian.Uint16(b[10:]),
		ID: uint16(three), Status: Status(three >> 17),
	}, three>>16&1 == 1
}

// Last returns the last double word of a completion: command identifier, the given phase, and status.
func (c *Completion) Last(phase bool) uint32 {
	w := uint32(c.ID) | uint32(c.Status)<<17
	if phase {
		w |= 1 << 16
	}
	return w
}

// Heads returns the double word before the last: head and identifier of the submission queue.
func (c *Completion) Heads() uint32 { return uint32(c.SQHead) | uint32(c.SQID)<<16 }

// Status is a completion's status without the phase: code, type, and whether a retry cannot succeed.
// As an error it prints the specification's name; errors.Is compares code and type alone.
type Status uint16

// DNR is the bit "do not retry": the same command would fail again.
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

// Failed reports whether the status is not success.
func (s Status) Failed() bool { return s&mask != Success }

// Retry reports whether the same command may succeed if it is submitted again.
func (s Status) Retry() bool { return s&DNR == 0 }

func (s Status) Error() string {
	name, known := names[s&mask]
	if !known {
		name = "unknown status"
	}
	return fmt.Sprintf("NVMe: %s (type %d, code %02xh)", name, s&mask>>8, int(s&0xff))
}

// Is compares type and code only, for errors.Is. Failures of the medium, of a transfer and inside the controller
// are also syscall.EIO, the error that a kernel's driver makes of them.
func (s Status) Is(target error) bool {
	const medium = 2
	if target == syscall.EIO {
		return s&mask>>8 == medium || s&mask == DataTransferError || s&mask == InternalError
	}
	t, is := target.(Status)
	return is && s&mask == t&mask
}
