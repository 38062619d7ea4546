// Package all is the registry of storage stacks: it lists every backend of this
// build, opens one by its kind, and for "auto" chooses the best that works here. It also
// finds the reads, through a backend, that suit a drive best.
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

// Auto is the kind that takes the best backend that works here.
const Auto = "auto"

// backends lists the backends, best first, then those that only a user who names them
// gets.
var backends = []struct {
	kind  string
	named bool // left alone by Auto
	// open starts the backend and describes it, or says why it does not work
	// here; chosen tells that the user named it.
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
// reads and, for Auto, which better ones do not work here and why. Beside Kinds there is the kind
// nvme:TARGET, which reads the volume of NVMe drives (see packages target and volume). A kind that does not
// exist is an error of kind fault.ErrUsage. Under Auto, options that make no sense are reported as such.
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
	return nil, "", fault.New(fault.ErrUsage, "no such I/O backend: %q (there are %s, nvme:TARGET)", kind, strings.Join(Kinds(), ", "))
}

// openUring starts io_uring, which tries itself out by reading something. Reads
// through the page cache are better left to pread, whose workers copy side by
// side; --io uring uses it all the same.
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

// openCuFile starts the backend that reads into a GPU's memory. For host memory it is no better than
// pread, so Auto takes no notice of it.
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
