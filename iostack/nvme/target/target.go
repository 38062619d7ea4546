// Package target parses the names of NVMe drives on the command line, and opens the drives:
//
//	soft:FILE        a file, served by a controller in software
//	sysfs:ADDRESS    a PCI function of this machine, such as 0000:01:00.0, which is taken from
//	                 the kernel's driver and given back
//	libnvm:NODE      a drive behind BaM's kernel module, such as /dev/libnvm0
//	dmabuf:ADDRESS   a PCI function as of sysfs, with memory of the module dmabuf-import
//
// Several drives of one kind are separated by commas. They are one array, in the given order. A comma in a
// name has a backslash before it, as in soft:/data/a\,b/drive; names that look as if the backslash were
// missing are refused. The last two kinds are unproven on hardware, as nvme.Caution says of their
// transports.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/dmabuf"
	"diskgnn/iostack/nvme/libnvm"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/sysfs"
)

// Target names one or several drives of one kind.
type Target struct {
	Kind  string   // kind of the transport
	Parts []string // names of the drives: files, addresses or nodes
}

// The kinds of targets.
const (
	Soft   = "soft"
	Sysfs  = "sysfs"
	Libnvm = "libnvm"
	DMABuf = "dmabuf"
)

// Prefix marks an operand or a value as a target, if it could also be something else.
const Prefix = "nvme:"

// How has the options for opening drives.
type How struct {
	FS vfs.FS // file system of the drives that are files
	// ReadOnly opens the drives for reading only. A file can then be shared with other readers; a drive of
	// the machine is always for one process.
	ReadOnly bool
	// Force also takes a drive of the machine with a partition table, or without a driver. A drive in use
	// is never taken.
	Force bool
	// Soft has the options of controllers in software, except ReadOnly.
	Soft soft.Options
}

// kind is a kind of targets: the form of a drive's name, and the transport to it.
type kind struct {
	name, part string
	open       func(h How, part string) (nvme.Transport, error)
}

var kinds = []kind{
	{Soft, "FILE", serve},
	{Sysfs, "ADDRESS", take},
	{Libnvm, "NODE", func(_ How, node string) (nvme.Transport, error) { return libnvm.Open(node) }},
	{DMABuf, "ADDRESS", func(h How, address string) (nvme.Transport, error) {
		return dmabuf.Open(address, func() (nvme.Transport, error) { return take(h, address) })
	}},
}

// serve opens a file as a drive. The file is locked as long as the drive is open.
func serve(h How, file string) (nvme.Transport, error) {
	h.Soft.ReadOnly = h.ReadOnly
	d, err := soft.Open(h.FS, file, h.Soft)
	if err != nil {
		return nil, err
	}
	l := locked{Drive: d}
	if h.ReadOnly {
		l.lock, err = vfs.Share(file)
	} else {
		l.lock, err = h.FS.Lock(file)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return l, nil
}

// locked is a drive in a locked file: no other process can write to it and, if it is writable, no other
// process can use it.
type locked struct {
	*soft.Drive
	lock io.Closer
}

func (l locked) Close() error   { return errors.Join(l.Drive.Close(), l.lock.Close()) }
func (l locked) Abandon() error { return errors.Join(l.Drive.Abandon(), l.lock.Close()) }

func take(h How, address string) (nvme.Transport, error) {
	return sysfs.Open(address, sysfs.Options{Force: h.Force})
}

func find(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Forms returns the form of a name for each kind, such as soft:FILE.
func Forms() (all []string) {
	for _, k := range kinds {
		all = append(all, k.name+":"+k.part)
	}
	return all
}

// Parse parses a target, with or without Prefix. An invalid one is an error of kind fault.ErrUsage.
func Parse(text string) (Target, error) {
	name, parts, _ := strings.Cut(strings.TrimPrefix(text, Prefix), ":")
	k, known := find(name)
	if !known {
		return Target{}, fault.New(fault.ErrUsage, "%q names no NVMe drive: give %s; several of a kind with commas between them", text, strings.Join(Forms(), ", "))
	}
	t := Target{Kind: name, Parts: split(parts)}
	if t.Kind == Soft {
		if err := unescaped(t.Parts); err != nil {
			return Target{}, fault.New(fault.ErrUsage, "%q: %w", text, err)
		}
	}
	for i, p := range t.Parts {
		switch {
		case p == "":
			return Target{}, fault.New(fault.ErrUsage, "%q: the name of drive %d is missing: give %s:%s", text, i, k.name, k.part)
		case slices.Contains(t.Parts[:i], p):
			return Target{}, fault.New(fault.ErrUsage, "%q: %s is named twice", text, p)
		}
	}
	return t, nil
}

// String returns the target in the form that Parse reads, without Prefix.
func (t Target) String() string {
	names := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		names[i] = strings.ReplaceAll(p, separator, escaped)
	}
	return t.Kind + ":" + strings.Join(names, separator)
}

// The separator of names, and its escape within a name.
const (
	separator = ","
	escaped   = `\` + separator
)

func split(list string) (names []string) {
	whole := true
	parts := strings.Split(list, separator)
	for i, part := range parts {
		joins := i < len(parts)-1 && strings.HasSuffix(part, `\`)
		if joins {
			part = strings.TrimSuffix(part, `\`) + separator
		}
		if whole {
			names = append(names, part)
		} else {
			names[len(names)-1] += part
		}
		whole = !joins
	}
	return names
}

// unescaped refuses two names of files that are probably one name with a comma in it: a relative path after
// an absolute one, or two names that, joined with a comma, are an existing file or a path in an existing
// directory.
func unescaped(names []string) error {
	for i := range len(names) - 1 {
		a, b := names[i], names[i+1]
		if a == "" || b == "" {
			continue
		}
		together := a + separator + b
		_, err := os.Stat(together)
		if dir := filepath.Dir(together); err != nil && strings.Contains(dir[min(len(dir), len(filepath.Dir(a))):], separator) {
			_, err = os.Stat(dir)
		}
		if err == nil {
			return fmt.Errorf("%s and %s are the names of two drives: write %s for a comma in a name", a, b, escaped)
		}
		if filepath.IsAbs(a) && !filepath.IsAbs(b) && !strings.HasPrefix(b, ".") {
			return fmt.Errorf("%s and %s are the names of two drives: write %s for a comma in a name, ./%s for a file of the working directory", a, b, escaped, b)
		}
	}
	return nil
}

// Open opens a transport to each drive. The caller closes the transports; if one cannot be opened, Open
// closes the earlier ones. A drive that is absent, not permitted or in use is an error of kind
// fault.ErrInput, fault.ErrUsage or fault.ErrLocked.
func (t Target) Open(h How) (transports []nvme.Transport, err error) {
	k, known := find(t.Kind)
	if !known {
		return nil, fault.New(fault.ErrUsage, "%s: unknown kind of drives", t)
	}
	for _, p := range t.Parts {
		d, err := k.open(h, p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s:%s: %w", t.Kind, p, err), closeAll(transports))
		}
		transports = append(transports, d)
	}
	return transports, nil
}

// Up opens the drives and brings their controllers up. The caller closes the controllers.
func (t Target) Up(ctx context.Context, h How, o nvme.Options) (controllers []*nvme.Controller, err error) {
	transports, err := t.Open(h)
	if err != nil {
		return nil, err
	}
	for i, transport := range transports {
		c, err := nvme.Open(ctx, transport, o) // which closes the transport if it fails
		if err != nil {
			return nil, errors.Join(err, closeAll(controllers), closeAll(transports[i+1:]))
		}
		controllers = append(controllers, c)
	}
	return controllers, nil
}

// Cautions returns the warnings about the controllers' transports, each once; see nvme.Caution.
func Cautions(controllers []*nvme.Controller) (all []string) {
	for _, c := range controllers {
		if caution := nvme.Caution(c.Transport()); caution != "" && !slices.Contains(all, caution) {
			all = append(all, caution)
		}
	}
	return all
}

func closeAll[T interface{ Close() error }](all []T) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
