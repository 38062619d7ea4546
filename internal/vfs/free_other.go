//go:build !linux

package vfs

import "golang.org/x/sys/unix"

func fragment(s *unix.Statfs_t) int64 { return int64(s.Bsize) }
