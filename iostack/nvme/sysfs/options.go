package sysfs

// Options are how a function is taken.
type Options struct {
	// Force takes a drive that has a partition table, or that no driver has. One that is in
	// use is not taken even so.
	Force bool

	root  tree
	pause func() bool // waits for block devices; false: long enough
}
