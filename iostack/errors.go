package iostack

import (
	"errors"
	"fmt"

	"diskgnn/internal/fault"
)

// ErrElsewhere is wrapped by what a stack answers that has files on drives of its own, and
// is to open one that is not there but may be read from the file system.
var ErrElsewhere = errors.New("the file is not on these drives")

// ReadError says which request failed. Err is of kind fault.ErrCorrupt when the
// file ended before the request did.
type ReadError struct {
	File   string // as File.Name
	Offset int64  // the request's
	Length int    // the request's, in bytes
	Index  int    // the request's place among those submitted to its group, from 0
	At     int64  // where in the file the failing part of the request began
	Err    error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("read %s: %d bytes at %d: %v", e.File, e.Length, e.Offset, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// before orders failures by submission, then by place in the request, so that
// which one is reported does not depend on which part ended first.
func (e *ReadError) before(f *ReadError) bool {
	if e.Index != f.Index {
		return e.Index < f.Index
	}
	return e.At < f.At
}

// Truncated returns the error of a request for wanted bytes of which the file
// holds only the first available ones. Files are finished before they are read,
// so this one lost its end.
func Truncated(wanted int, available, size int64) error {
	return fault.New(fault.ErrCorrupt, "file shrank or was truncated: %d of %d bytes available, file size %d",
		max(available, 0), wanted, size)
}
