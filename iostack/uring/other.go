//go:build !linux

package uring

import (
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Stack does not exist on this system: New fails.
type Stack struct{ iostack.Stack }

// New returns an error of kind fault.ErrUsage: only Linux has io_uring.
func New(iostack.Options) (*Stack, error) {
	return nil, fault.New(fault.ErrUsage, "only Linux has io_uring")
}
