// Package uring is the storage stack on Linux's io_uring: a few rings, each owned by one thread that keeps
// a window of reads at the device and refills it as they complete. It needs one system call for several
// reads, where pread needs one thread for each read. On other systems New returns an error.
//
//	Submit ─► queue ─► ring thread ─► submission queue ─► kernel ─► device
//	            │wakes       ▲                                        │
//	            └─ eventfd ──┴──────── completion queue ◄─────────────┘
//
// A ring's thread sleeps in io_uring_enter, where both completions and the eventfd wake it; nothing spins.
// The ring's thread also registers files and pins memory for other goroutines: the kernel is fastest if
// only one thread uses a ring.
//
// Files and memory are registered with the kernel as far as it permits: then it need not look up the file
// and pin the pages for each read. If it refuses (locked memory is limited), reads still work, but take
// more time.
//
// A read that has begun is awaited when its group is cancelled: the kernel cannot cancel a read that a
// drive has begun, and it ends within milliseconds.
package uring
