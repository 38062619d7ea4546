package iostack

import (
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
)

// Align is the alignment in bytes of direct reads: of file offset, length and
// memory address. It is a whole page, enough for every common drive and file
// system; a file whose system requires more is read buffered.
const Align = 4096

// Direct says whether files are opened for direct I/O (O_DIRECT).
type Direct int

const (
	DirectAuto   Direct = iota // where the file system takes it, else buffered
	DirectAlways               // an error where the file system refuses it
	DirectNever                // through the page cache
)

func (d Direct) String() string {
	switch d {
	case DirectAuto:
		return "auto"
	case DirectAlways:
		return "always"
	case DirectNever:
		return "never"
	}
	return fmt.Sprintf("Direct(%d)", int(d))
}

// Options are common to the backends. The zero value means the defaults.
type Options struct {
	// Workers is the number of device reads carried out at the same time; 0
	// means 16, enough for one NVMe drive to reach its sequential rate with
	// reads of MaxIO bytes.
	Workers int

	// MaxIO is the largest single device read in bytes, a multiple of Align; 0
	// means 1 MiB, where the rate of drives has long levelled off and an
	// abandoned read is still over in milliseconds.
	MaxIO int

	// Direct chooses direct or buffered reads.
	Direct Direct

	// Device opens the GPU that a stack with Caps.Device reads into, which stays open
	// until the stack is closed. Only such a stack calls it, once it knows that nothing
	// else keeps it from working. Nil: it opens the machine's first GPU for itself.
	Device func() (*cuda.Device, error)
}

// EnsureDefaults replaces zero values by what they mean.
func (o *Options) EnsureDefaults() {
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.MaxIO == 0 {
		o.MaxIO = 1 << 20
	}
}

// Validate reports values that make no sense, as errors of kind fault.ErrUsage.
// It expects EnsureDefaults to have been called.
func (o *Options) Validate() error {
	const maxWorkers, maxIO = 1 << 12, 1 << 30
	switch {
	case o.Workers < 1 || o.Workers > maxWorkers:
		return fault.New(fault.ErrUsage, "I/O workers: %d is not in 1…%d", o.Workers, maxWorkers)
	case o.MaxIO < Align || o.MaxIO > maxIO || o.MaxIO%Align != 0:
		return fault.New(fault.ErrUsage, "largest read: %d bytes is not a multiple of %d up to %d", o.MaxIO, Align, maxIO)
	case o.Direct < DirectAuto || o.Direct > DirectNever:
		return fault.New(fault.ErrUsage, "direct I/O: no such mode: %v", o.Direct)
	}
	return nil
}
