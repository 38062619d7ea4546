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
// A ring's thread sleeps in io_uring_enter, where both completions and the
// eventfd wake it; nothing spins. What a ring is told from outside (a file to
// register, memory to pin) is run by its thread, because the kernel serves one
// thread per ring fastest when no other ever touches it.
//
// Files and memory are registered with the kernel as far as it permits, which
// saves it looking up each file and pinning the pages of each read. Registration
// that is refused (locked memory is limited) costs time, nothing else.
//
// A read that has begun is awaited when its group is given up: the kernel cannot
// take back what a drive has been asked for, and it is over within milliseconds.
package uring
