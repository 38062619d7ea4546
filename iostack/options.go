package iostack

import (
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
)

// Align is the alignment in bytes of direct reads: of file offset, length and memory address. It is
// a whole page, enough for every common drive and file system; a file with a stricter system is read
// buffered.
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

// EnsureDefaults replaces zero values by the defaults.
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

// Striping spreads a logical file over several, which may lie on different
// drives: its units go round, as in RAID 0.
//
//	logical   │ unit 0 │ unit 1 │ unit 2 │ unit 3 │ un…
//	file 0    │ unit 0 │ unit 2 │ un…
//	file 1    │ unit 1 │ unit 3 │
//
// A read ends at a unit's end, so units of MaxIO bytes or more keep reads long.
type Striping struct {
	Files int
	Unit  int // bytes, a multiple of Align
}

// Validate reports values that make no sense, as errors of kind fault.ErrUsage.
func (s Striping) Validate() error {
	const mostFiles, mostUnit = 1 << 10, 1 << 30
	if s.Files < 1 || s.Files > mostFiles {
		return fault.New(fault.ErrUsage, "striping: %d files are not 1…%d", s.Files, mostFiles)
	}
	if s.Unit < Align || s.Unit > mostUnit || s.Unit%Align != 0 {
		return fault.New(fault.ErrUsage, "striping: a unit of %d bytes is not a multiple of %d up to %d", s.Unit, Align, mostUnit)
	}
	return nil
}

// Locate returns where the logical file's byte at the given offset lies, and how
// many bytes from there on lie next to each other.
func (s Striping) Locate(offset int64) (file int, at int64, n int) {
	unit, within := offset/int64(s.Unit), offset%int64(s.Unit)
	return int(unit % int64(s.Files)), unit/int64(s.Files)*int64(s.Unit) + within, s.Unit - int(within)
}

// Size returns the size of one of the files of a logical file of size bytes.
func (s Striping) Size(size int64, file int) int64 {
	stripe := int64(s.Files) * int64(s.Unit)
	rest := size%stripe - int64(file)*int64(s.Unit)
	return size/stripe*int64(s.Unit) + min(max(rest, 0), int64(s.Unit))
}

// striper is implemented by stacks that read striped files.
type striper interface {
	OpenStriped(paths []string, unit int) (File, error)
}

// OpenStriped opens the files at paths as one, striped in that order in units of the given number of
// bytes. Sizes that do not fit one logical file are an error of kind fault.ErrInput. Its name is the
// paths joined with commas, and errors name offsets in the logical file; it is direct when all its
// files are.
func OpenStriped(s Stack, paths []string, unit int) (File, error) {
	if err := (Striping{len(paths), unit}).Validate(); err != nil {
		return nil, err
	}
	st, ok := s.(striper)
	if !ok {
		return nil, fmt.Errorf("%s: open striped files: %w", s.Name(), fault.New(fault.ErrUsage, "this backend does not support them"))
	}
	return st.OpenStriped(paths, unit)
}
