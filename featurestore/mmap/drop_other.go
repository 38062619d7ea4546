//go:build !linux

package mmap

import "os"

// canDrop reports whether dropPages drops pages on this system.
const canDrop = false

// dropPages does nothing on this system.
func dropPages(*os.File, []byte) error { return nil }

// threadFaults counts no page faults on this system.
func threadFaults() int64 { return 0 }
