package vfs

import "golang.org/x/sys/unix"

// fragment returns the bytes that statfs(2) counts in. It is f_frsize: f_bsize is the block size
// that the file system prefers for reads and writes, and on FUSE, where a server reports both,
// another one.
func fragment(s *unix.Statfs_t) int64 {
	if s.Frsize > 0 {
		return s.Frsize
	}
	return s.Bsize // a file system that knows of no fragments
}
