//go:build !linux

package uring

import (
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Stack is never made here.
type Stack struct{ iostack.Stack }

// New fails: only Linux has io_uring.
func New(iostack.Options) (*Stack, error) {
	return nil, fault.New(fault.ErrUsage, "only Linux has io_uring")
}
