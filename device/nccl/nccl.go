// Package nccl sums arrays over the GPUs of one or many processes with NVIDIA's library NCCL, which is
// opened at run time and called without cgo.
//
//	rank 0:      id := NewID ──► by some other way to all ranks
//	every rank:  Join(id) ─► AllReduce, Broadcast on a stream … ─► Wait ─► Close
//
// Nothing waits forever. A communicator is made without blocking, and a wait polls for failures of
// other ranks. A call that takes longer than Options.Patience aborts the communicator, so that the
// device's stream ends, and every later call returns the same error. Errors of the library are
// Statuses, in errors of kind fault.ErrDevice.
//
// The library's own variables (NCCL_DEBUG, NCCL_SOCKET_IFNAME and so on) are left alone.
package nccl

import (
	"errors"
	"fmt"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
)

// ErrNoLibrary is the kind of the errors for a missing or too old NCCL. Their text states the reason.
var ErrNoLibrary = errors.New("no NCCL")

// ErrDeadline is the error of a call that took longer than Options.Patience.
var ErrDeadline = errors.New("nothing came within the time given")

// Status is the result code of a call of the library.
type Status int32

// Statuses, by the library's names.
const (
	Success            Status = 0
	UnhandledCudaError Status = 1
	SystemError        Status = 2
	InternalError      Status = 3
	InvalidArgument    Status = 4
	InvalidUsage       Status = 5
	RemoteError        Status = 6
	InProgress         Status = 7
	Timeout            Status = 8
)

var statusNames = [...]string{"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument",
	"ncclInvalidUsage", "ncclRemoteError", "ncclInProgress", "ncclTimeout"}

// Error returns the library's name of the status.
func (s Status) Error() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status %d", int32(s))
	}
	return statusNames[s]
}

// ID identifies a communicator, for Join. It has 128 bytes in every version of the library.
type ID [128]byte

// leastVersion has ncclCommInitRankScalable, which takes an ID by its address: 2.23.4.
const leastVersion = 22304

func versionText(v int32) string {
	if v < 10000 { // before 2.9
		return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// config is ncclConfig_t of version 2.14. Later libraries accept it, with defaults for later fields.
type config struct {
	size     uint64
	magic    uint32
	version  uint32
	blocking int32
	_        int32
}

var nonBlocking = config{size: 24, magic: 0xcafebeef, version: 21400}

// Types and operations.
const (
	float32Type = 7
	bytesType   = 1 // ncclUint8
	sum         = 0
)

// comm is a communicator of the library's; 0 is none.
type comm uintptr

// api are the functions of the library that are needed. Streams and buffers are addresses.
// Calls may come from several goroutines, but not of one communicator.
type api interface {
	version() int32
	path() string
	uniqueID(id *ID) Status
	// join begins to make a communicator. The library may write to c until state is no longer
	// InProgress: c must stay where it is.
	join(c *comm, world, rank int32, id *ID, o *config) Status
	// state asks for the communicator's status.
	state(c comm, s *Status) Status
	allReduce(x uintptr, count int, dtype, op int32, c comm, stream uintptr) Status
	broadcast(x uintptr, count int, dtype, root int32, c comm, stream uintptr) Status
	abort(c comm) Status
	// finalize ends a communicator in peace; destroy frees it afterwards.
	finalize(c comm) Status
	destroy(c comm) Status
	// lastError is the library's text on its last error, or "".
	lastError(c comm) string
}

// Library is an open NCCL library. It is safe for concurrent use.
type Library struct{ api api }

// Open opens the library at the path in the environment variable DISKGNN_NCCL or, without it, the first one
// found by the dynamic loader or in the folders of CUDA and of Python packages. It is opened once, and
// stays open. If it is missing or too old, the error is of kind ErrNoLibrary.
func Open() (*Library, error) {
	a, err := openOnce()
	if err != nil {
		return nil, err
	}
	return checked(a)
}

// checked refuses a library that is too old.
func checked(a api) (*Library, error) {
	if v := a.version(); v < leastVersion {
		return nil, fault.New(ErrNoLibrary, "NCCL %s (%s) is too old: %s or later is needed (DISKGNN_NCCL may name another)", versionText(v), a.path(), versionText(leastVersion))
	}
	return &Library{a}, nil
}

// paths returns where the library may be, best first.
func paths() []string {
	return cuda.LibraryPaths("DISKGNN_NCCL", []string{"libnccl.so.2"}, []string{"libnccl.so.2"})
}

// String returns the library's version and file.
func (l *Library) String() string {
	return fmt.Sprintf("NCCL %s (%s)", versionText(l.api.version()), l.api.path())
}

// NewID returns the ID of a new communicator. The ranks connect to the caller's process, which must exist
// until all have joined.
func (l *Library) NewID() (ID, error) {
	var id ID
	if s := l.api.uniqueID(&id); s != Success {
		return id, l.failed("make an id", 0, s)
	}
	return id, nil
}

// failed returns the error for a call that returned a status.
func (l *Library) failed(what string, c comm, s error) error {
	if text := l.api.lastError(c); text != "" {
		return fault.New(fault.ErrDevice, "NCCL: %s: %w (%s)", what, s, text)
	}
	return fault.New(fault.ErrDevice, "NCCL: %s: %w", what, s)
}

// Clock is the source of time for waits; tests replace it.
type Clock interface {
	Now() time.Time
	Sleep(time.Duration)
}

type wallClock struct{}

func (wallClock) Now() time.Time        { return time.Now() }
func (wallClock) Sleep(d time.Duration) { time.Sleep(d) }

// Options configure the waits of a communicator.
type Options struct {
	// Patience is the time limit of Join, of each Wait and of Close; 0: two minutes.
	Patience time.Duration
	Clock    Clock // nil: the wall clock
}
