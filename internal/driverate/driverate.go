// Package driverate measures how fast a drive takes what is written to it. Its
// reading counterparts, iostack.Sequential and iostack.Random, need a stack.
package driverate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	chunk = 4 << 20 // bytes of one write

	// syncEvery is after how many bytes what was written is made durable, so
	// that a cancelled measurement ends within a second on any drive of today.
	syncEvery = 128 << 20
)

// Write makes a file of the given size in large writes of bytes that no drive
// can compress, makes it durable, and returns the rate in bytes per second. What
// an error leaves of the file is for the caller to remove, as is the file.
func Write(ctx context.Context, fsys vfs.FS, name string, size int64) (bytesPerSecond float64, err error) {
	if size <= 0 {
		return 0, fault.New(fault.ErrUsage, "write rate: a file of %d bytes", size)
	}
	f, err := fsys.Create(name)
	if err != nil {
		return 0, fmt.Errorf("write rate: %w", err)
	}
	defer func() {
		if closed := f.Close(); closed != nil {
			bytesPerSecond, err = 0, errors.Join(err, fmt.Errorf("write rate: %w", closed))
		}
	}()
	buf := make([]byte, min(chunk, size))
	_, _ = rand.NewChaCha8([32]byte{1}).Read(buf)

	begin := time.Now()
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("write rate: %w", err)
		}
		for page := 0; page+8 <= len(buf); page += 4096 { // no two pages alike
			binary.LittleEndian.PutUint64(buf[page:], uint64(at)+uint64(page))
		}
		n, err := f.Write(buf[:min(int64(len(buf)), size-at)])
		if err != nil {
			return 0, fmt.Errorf("write rate: write %s: %w", name, err)
		}
		at += int64(n)
		if at%syncEvery == 0 || at == size {
			if err := f.Sync(); err != nil {
				return 0, fmt.Errorf("write rate: sync %s: %w", name, err)
			}
		}
	}
	return float64(size) / time.Since(begin).Seconds(), nil
}
