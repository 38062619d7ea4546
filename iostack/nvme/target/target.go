// Package target is how NVMe drives are named on the command line, and how they are reached by
// that name:
//
//	soft:FILE[,FILE…]   files, each served by a controller in software
//
// Several drives are one array, in the order in which they are named.
package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
)

// Target is drives by name.
type Target struct {
	Kind  string   // of transport
	Parts []string // what that calls the drives: files
}

// Soft is the kind of drives that are files.
const Soft = "soft"

// Prefix is what says that an operand or a value is a target, where it could be something else.
const Prefix = "nvme:"

// kinds are the kinds of targets, each with what reaches a drive.
var kinds = map[string]func(fsys vfs.FS, part string, readOnly bool) (nvme.Transport, error){
	Soft: func(fsys vfs.FS, file string, readOnly bool) (nvme.Transport, error) {
		return soft.Open(fsys, file, soft.Options{ReadOnly: readOnly})
	},
}

// Parse reads a target, with or without Prefix. One that makes no sense is an error of kind
// fault.ErrUsage.
func Parse(text string) (Target, error) {
	kind, parts, _ := strings.Cut(strings.TrimPrefix(text, Prefix), ":")
	if kinds[kind] == nil {
		return Target{}, fault.New(fault.ErrUsage, "%q names no NVMe drive: want soft:FILE, or soft:FILE,FILE for several", text)
	}
	t := Target{Kind: kind, Parts: strings.Split(parts, ",")}
	for i, p := range t.Parts {
		switch {
		case p == "":
			return Target{}, fault.New(fault.ErrUsage, "%q: the name of drive %d is missing", text, i)
		case slices.Contains(t.Parts[:i], p):
			return Target{}, fault.New(fault.ErrUsage, "%q: %s is named twice", text, p)
		}
	}
	return t, nil
}

// String returns the target as it is named, without Prefix.
func (t Target) String() string { return t.Kind + ":" + strings.Join(t.Parts, ",") }

// Open reaches the drives; fsys has those that are files, and with readOnly nothing is written to
// them. Their user closes the transports; if one cannot be had, those before
// it are closed.
func (t Target) Open(fsys vfs.FS, readOnly bool) (transports []nvme.Transport, err error) {
	for _, p := range t.Parts {
		d, err := kinds[t.Kind](fsys, p, readOnly)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s:%s: %w", t.Kind, p, err), closeAll(transports))
		}
		transports = append(transports, d)
	}
	return transports, nil
}

// Up opens the drives and brings their controllers up, which their user closes.
func (t Target) Up(ctx context.Context, fsys vfs.FS, readOnly bool, o nvme.Options) (controllers []*nvme.Controller, err error) {
	transports, err := t.Open(fsys, readOnly)
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

func closeAll[T interface{ Close() error }](all []T) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
