// Package all is the registry of storage stacks: it lists every backend of this build, opens one by its
// kind, and for "auto" chooses the best that works here. It also measures the shape of reads, through a
// backend, that is fastest on a drive.
package all

import (
	"errors"
	"fmt"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/iostack"
	"diskgnn/iostack/cufile"
	"diskgnn/iostack/pread"
	"diskgnn/iostack/uring"
)

// Auto is the kind that stands for the best backend that works on this machine.
const Auto = "auto"

// backends lists the backends, best first. Auto never takes the last ones.
var backends = []struct {
	kind  string
	named bool // left alone by Auto
	// open starts the backend and describes it. The error is the reason why it does not work here. chosen
	// means that the user named the backend.
	open func(_ iostack.Options, chosen bool) (s iostack.Stack, description string, err error)
}{
	{kind: "uring", open: openUring},
	{kind: "pread", open: openPread},
	{kind: cufile.Name, named: true, open: openCuFile},
}

// Kinds returns the kinds that Open accepts: Auto, the backends from best to worst, and then the
// backends that Auto never takes.
func Kinds() []string {
	kinds := []string{Auto}
	for _, b := range backends {
		kinds = append(kinds, b.kind)
	}
	return kinds
}

// Open starts the backend of the given kind. The reason is one printable line naming the backend, how it
// reads and, for Auto, which better ones do not work here and why. The kind nvme:TARGET, which is not in
// Kinds, reads the volume of NVMe drives (see packages target and volume). An unknown kind and invalid
// options are errors of kind fault.ErrUsage. The caller closes the stack.
func Open(kind string, options iostack.Options) (s iostack.Stack, reason string, err error) {
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return nil, "", err
	}
	if IsNVMe(kind) {
		if s, reason, err = openNVMe(kind, options); err != nil {
			return nil, "", fmt.Errorf("open the nvme I/O backend: %w", err)
		}
		return s, reason, nil
	}
	var failures []string
	for _, b := range backends {
		if kind != b.kind && (kind != Auto || b.named) {
			continue
		}
		s, reason, err = b.open(options, kind == b.kind)
		switch {
		case err == nil:
			return s, strings.Join(append([]string{reason}, failures...), "; "), nil
		case kind == b.kind:
			return nil, "", fmt.Errorf("open the %s I/O backend: %w", kind, err)
		}
		failures = append(failures, fmt.Sprintf("no %s: %v", b.kind, err))
	}
	if kind == Auto {
		return nil, "", fmt.Errorf("open an I/O backend: %w", err) // the last one's, which needs the least
	}
	return nil, "", fault.New(fault.ErrUsage, "no such I/O backend: %q is not one of %s, nvme:TARGET", kind, strings.Join(Kinds(), ", "))
}

// Beside returns the kind of a stack that reads files into the host's memory, beside a stack of the given kind: the same,
// or Auto where that reads into a GPU's memory, or reads raw drives.
func Beside(kind string) string {
	if kind == cufile.Name || IsNVMe(kind) {
		return Auto
	}
	return kind
}

// openUring starts io_uring, which tests itself with a read. Without direct reads it refuses, unless the
// user chose it: pread is faster there, since its workers copy from the page cache in parallel.
func openUring(options iostack.Options, chosen bool) (iostack.Stack, string, error) {
	if !chosen && options.Direct == iostack.DirectNever {
		return nil, "", errors.New("buffered reads are faster with pread")
	}
	s, err := uring.New(options)
	if err != nil {
		return nil, "", err
	}
	return s, fmt.Sprintf("uring: %s in flight, %s", units.Of(options.Workers, "read"), how(options.Direct)), nil
}

func openPread(options iostack.Options, _ bool) (iostack.Stack, string, error) {
	s, err := pread.New(options)
	if err != nil {
		return nil, "", err
	}
	return s, fmt.Sprintf("pread: %s, %s", units.Of(options.Workers, "worker"), how(options.Direct)), nil
}

// openCuFile starts the backend that reads into a GPU's memory. For host memory it is no better than pread,
// so Auto does not take it.
func openCuFile(options iostack.Options, _ bool) (iostack.Stack, string, error) {
	s, verdict, err := cufile.Open(options)
	if err != nil {
		return nil, "", err
	}
	return s, fmt.Sprintf("cufile: %s, %s; GPUDirect Storage: %s", units.Of(options.Workers, "worker"), how(options.Direct), verdict), nil
}

func how(d iostack.Direct) string {
	switch d {
	case iostack.DirectAlways:
		return "O_DIRECT"
	case iostack.DirectNever:
		return "buffered"
	}
	return "O_DIRECT where the file system takes it"
}
