//go:build !linux

package sysfs

import (
	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
)

// Device is a PCI function that was taken: a transport.
type Device struct{ nvme.Transport }

// Open takes the PCI function with an address; only on Linux.
func Open(address string, _ Options) (*Device, error) {
	return nil, fault.New(fault.ErrUsage, "%s is not taken: sysfs is Linux's", address)
}
