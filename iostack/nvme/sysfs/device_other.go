//go:build !linux

package sysfs

import (
	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
)

// Device does not exist on this system: Open fails.
type Device struct{ nvme.Transport }

// Open returns an error of kind fault.ErrUsage: the package needs Linux.
func Open(address string, _ Options) (*Device, error) {
	return nil, fault.New(fault.ErrUsage, "%s is not taken: sysfs is Linux's", address)
}
