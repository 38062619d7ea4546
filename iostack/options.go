package iostack

import (
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/fault"
)

// Align is the alignment in bytes of direct reads: of file offset, length and memory address. It is a whole
// page, enough for every common drive and file system. If a file system needs a larger alignment, reads are
// buffered.
const Align = 4096

// Direct is the choice between direct I/O (O_DIRECT) and buffered reads.
type Direct int

const (
	DirectAuto   Direct = iota // direct if the file system supports it, else buffered
	DirectAlways               // direct; an error if the file system does not support it
	DirectNever                // buffered: through the page cache
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

	// MaxIO is the largest single device read in bytes, a multiple of Align; 0 means 1 MiB: large enough
	// for the full rate of drives, and a read still ends within milliseconds.
	MaxIO int

	// Direct chooses direct or buffered reads.
	Direct Direct

	// Device opens the GPU for the memory that a stack with Caps.Device reads into. The device must stay
	// open until the stack is closed. Only such a stack calls it, after all other conditions are fulfilled.
	// If it is nil, the stack opens the machine's first GPU and closes it.
	Device func() (device.GPU, error)
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

// Validate returns an error of kind fault.ErrUsage for invalid values. EnsureDefaults must come first.
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

// Striping divides a logical file among several files, which may be on different drives: unit i is in file
// i mod Files, as in RAID 0.
//
//	logical   │ unit 0 │ unit 1 │ unit 2 │ unit 3 │ un…
//	file 0    │ unit 0 │ unit 2 │ un…
//	file 1    │ unit 1 │ unit 3 │
//
// A device read ends at the end of a unit, so units should have MaxIO bytes or more.
type Striping struct {
	Files int
	Unit  int // bytes, a multiple of Align
}

// Validate returns an error of kind fault.ErrUsage for invalid values.
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

// Locate returns the file with the logical file's byte at the given offset, the offset in it, and the
// number of contiguous bytes from there to the end of the unit.
func (s Striping) Locate(offset int64) (file int, at int64, n int) {
	unit, within := offset/int64(s.Unit), offset%int64(s.Unit)
	return int(unit % int64(s.Files)), unit/int64(s.Files)*int64(s.Unit) + within, s.Unit - int(within)
}

// Size returns the size in bytes of the given file, from 0, of a logical file of size bytes.
func (s Striping) Size(size int64, file int) int64 {
	stripe := int64(s.Files) * int64(s.Unit)
	rest := size%stripe - int64(file)*int64(s.Unit)
	return size/stripe*int64(s.Unit) + min(max(rest, 0), int64(s.Unit))
}

// striper is implemented by stacks that read striped files.
type striper interface {
	OpenStriped(paths []string, unit int) (File, error)
}

// OpenStriped opens the files at paths as one, striped in that order in units of the given number of bytes.
// Sizes that do not fit one logical file are an error of kind fault.ErrInput. Its name is the paths joined
// with commas, and errors have offsets of the logical file. It is direct if all its files are. The caller
// closes it.
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
