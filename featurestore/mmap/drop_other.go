//go:build !linux

package mmap

import "os"

// canDrop says that dropPages does something.
const canDrop = false

// dropPages would drop the pages of a file from the page cache.
func dropPages(*os.File, []byte) error { return nil }

// threadFaults would count page faults.
func threadFaults() int64 { return 0 }
