// Package fault defines the kinds of failure that callers distinguish. Every error that leaves a package
// wraps at most one of these sentinels; main maps them to exit codes.
package fault

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrCorrupt: bytes of a finished stage have changed.
	ErrCorrupt = errors.New("corrupt")
	// ErrVersion: a directory has a format version that this program does not read.
	ErrVersion = errors.New("unsupported format version")
	// ErrLineage: a directory was not made from the given inputs.
	ErrLineage = errors.New("made from something else")
	// ErrInput: an input of the user cannot be used.
	ErrInput = errors.New("bad input")
	// ErrUsage: flags or the configuration are wrong.
	ErrUsage = errors.New("usage")
	// ErrExists: an output exists and was made with other parameters.
	ErrExists = errors.New("output exists")
	// ErrBudget: the work does not fit in the given memory or disk.
	ErrBudget = errors.New("over budget")
	// ErrLocked: another process works on the same directory.
	ErrLocked = errors.New("locked by another process")
	// ErrDevice: a GPU failed.
	ErrDevice = errors.New("device failed")
	// ErrInterrupted: a signal stopped the command; running it again resumes.
	ErrInterrupted = errors.New("interrupted")
)

// New returns an error that wraps kind, one of the sentinels. Its text is the formatted text, without the
// text of the kind.
func New(kind error, format string, args ...any) error {
	return &kinded{fmt.Errorf(format, args...), kind}
}

type kinded struct {
	err  error
	kind error
}

func (k *kinded) Error() string   { return k.err.Error() }
func (k *kinded) Unwrap() []error { return []error{k.err, k.kind} }

// Starved reports whether an error means that the process ran out of descriptors or memory. Such an
// error tells nothing about the file or directory that it names.
func Starved(err error) bool {
	for _, want := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// EndedBy reports whether an error is the end of the context. It is false for nil, and for any other
// failure, even if the context has ended.
func EndedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
