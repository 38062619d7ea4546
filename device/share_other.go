//go:build !linux

package device

import (
	"errors"
	"os"
)

// Shared is memory that another process can map, which only Linux has.
type Shared struct{}

// Share returns an error that wraps errors.ErrUnsupported.
func Share([]byte, int) (*Shared, error) { return nil, errors.ErrUnsupported }

// File returns nil.
func (*Shared) File() *os.File { return nil }

// More returns nothing.
func (*Shared) More() ([]byte, int64) { return nil, 0 }

// Close does nothing.
func (*Shared) Close() {}
