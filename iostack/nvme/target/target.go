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
	Kind  string   // soft
	Parts []string // what the kind calls drives: files
}

// Soft is the kind of drives that are files.
const Soft = "soft"

// Kinds are the kinds of targets.
var Kinds = []string{Soft}

// Prefix is what says that an operand or a value is a target, where it could be something else.
const Prefix = "nvme:"

// Parse reads a target. One that makes no sense is an error of kind fault.ErrUsage.
func Parse(text string) (Target, error) {
	kind, parts, ok := strings.Cut(strings.TrimPrefix(text, Prefix), ":")
	if !ok || !slices.Contains(Kinds, kind) {
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

// String returns the target as it is named.
func (t Target) String() string { return t.Kind + ":" + strings.Join(t.Parts, ",") }

// Open reaches the drives. Transports are closed by their user; if one cannot be had, those
// before are closed.
func (t Target) Open(fsys vfs.FS, readOnly bool) (transports []nvme.Transport, err error) {
	for _, p := range t.Parts {
		d, err := soft.Open(fsys, p, soft.Options{ReadOnly: readOnly})
		if err != nil {
			for _, t := range transports {
				err = errors.Join(err, t.Close())
			}
			return nil, fmt.Errorf("open %s:%s: %w", t.Kind, p, err)
		}
		transports = append(transports, d)
	}
	return transports, nil
}

// Up opens the drives and brings their controllers up, which are closed by their user.
func (t Target) Up(ctx context.Context, fsys vfs.FS, readOnly bool, o nvme.Options) (controllers []*nvme.Controller, err error) {
	transports, err := t.Open(fsys, readOnly)
	if err != nil {
		return nil, err
	}
	for i, transport := range transports {
		c, err := nvme.Open(ctx, transport, o) // which closes the transport if it fails
		if err != nil {
			for _, t := range transports[i+1:] {
				err = errors.Join(err, t.Close())
			}
			for _, c := range controllers {
				err = errors.Join(err, c.Close())
			}
			return nil, err
		}
		controllers = append(controllers, c)
	}
	return controllers, nil
}
