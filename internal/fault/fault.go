// Package fault defines the kinds of failure that callers branch on. Every
// error that leaves a package wraps at most one of these sentinels; main maps
// them to exit codes once.
package fault

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrCorrupt: bytes that a finished stage wrote have changed.
	ErrCorrupt = errors.New("corrupt")
	// ErrVersion: a directory in a format this program does not read.
	ErrVersion = errors.New("unsupported format version")
	// ErrLineage: a directory made from something else than the given inputs.
	ErrLineage = errors.New("made from something else")
	// ErrInput: input of the user's that cannot be used as it is.
	ErrInput = errors.New("bad input")
	// ErrUsage: flags or configuration that make no sense.
	ErrUsage = errors.New("usage")
	// ErrExists: an output that exists and was made with other parameters.
	ErrExists = errors.New("output exists")
	// ErrBudget: the work does not fit in the memory or disk it was given.
	ErrBudget = errors.New("over budget")
	// ErrLocked: another process works on the same directory.
	ErrLocked = errors.New("locked by another process")
	// ErrDevice: a GPU that does not do its work.
	ErrDevice = errors.New("device failed")
	// ErrInterrupted: stopped by a signal; running the command again resumes.
	ErrInterrupted = errors.New("interrupted")
)

// New returns an error of the given kind that reads as the formatted text alone,
// so that a message does not repeat the kind in words.
func New(kind error, format string, args ...any) error {
	return &kinded{fmt.Errorf(format, args...), kind}
}

type kinded struct {
	err  error
	kind error
}

func (k *kinded) Error() string   { return k.err.Error() }
func (k *kinded) Unwrap() []error { return []error{k.err, k.kind} }

// Starved reports whether an error says that the process could have no more descriptors or memory:
// nothing is known then of the file or directory that it names.
func Starved(err error) bool {
	for _, want := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// EndedBy reports whether an error says that the context has ended. It is false for nil and
// for another failure, whether the context has ended or not.
func EndedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
