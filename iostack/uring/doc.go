// Package uring is the storage stack on Linux's io_uring: a few rings, each
// owned by one thread that keeps a window of reads at the device and refills it
// as they complete. Compared with pread it needs one system call per burst of
// reads rather than one thread per read. Only Linux has io_uring; elsewhere New
// says so.
//
//	Submit ─► queue ─► ring thread ─► submission queue ─► kernel ─► device
//	            │wakes       ▲                                        │
//	            └─ eventfd ──┴──────── completion queue ◄─────────────┘
//
// A ring's thread sleeps in io_uring_enter, where both completions and the eventfd wake it;
// nothing spins. Requests from outside (to register a file, to pin memory) are carried out by
// the ring's thread, because the kernel serves one thread per ring fastest when no other ever
// touches it.
//
// Files and memory are registered with the kernel as far as it permits, which
// saves it looking up each file and pinning the pages of each read. Registration
// that is refused (locked memory is limited) costs time, nothing else.
//
// A read that has begun is awaited when its group is given up: the kernel cannot cancel a read
// that a drive has begun, and it ends within milliseconds.
package uring
