package iostack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"diskgnn/device"
	"diskgnn/internal/fault"
)

// Sequential reads the whole file at path once, from front to back, with depth
// requests of bufBytes each in flight, and returns the rate in bytes per second:
// what the drive gives to the same stack at its best. It holds depth × bufBytes
// of host memory meanwhile. Where reads are buffered (File.Direct) the rate of a
// file in the page cache is that of memory. An empty file, of which there is no
// rate, is an error of kind fault.ErrInput.
func Sequential(ctx context.Context, s Stack, path string, bufBytes, depth int) (bytesPerSecond float64, err error) {
	return SequentialHead(ctx, s, path, bufBytes, depth, math.MaxInt64)
}

// SequentialHead is Sequential on the file's first bytes, as many as given.
func SequentialHead(ctx context.Context, s Stack, path string, bufBytes, depth int, bytes int64) (bytesPerSecond float64, err error) {
	if bufBytes < 1 || depth < 1 || bufBytes > mostHeld/depth {
		return 0, fault.New(fault.ErrUsage, "sequential rate: %d buffers of %d bytes", depth, bufBytes)
	}
	f, err := s.Open(path)
	if err != nil {
		return 0, fmt.Errorf("sequential rate: %w", err)
	}
	defer f.Close()
	size := min(f.Size(), bytes)
	if size <= 0 {
		return 0, fault.New(fault.ErrInput, "sequential rate: nothing to read: %s has %d bytes", path, f.Size())
	}
	mem, err := device.NewHost(depth * bufBytes)
	if err != nil {
		return 0, fmt.Errorf("sequential rate: %w", err)
	}
	defer mem.Free()
	_ = s.Register(mem.Bytes()) // a hint
	defer func() { _ = s.Unregister(mem.Bytes()) }()

	begin := time.Now()
	if err := readThrough(ctx, s, f, size, mem.Bytes(), depth); err != nil {
		return 0, fmt.Errorf("sequential rate: %w", err)
	}
	return float64(size) / time.Since(begin).Seconds(), nil
}

// mostHeld bounds the memory of a measurement where int is narrow.
const mostHeld = 1 << 30

// readThrough reads the first bytes of f through mem as a ring of depth buffers. No read is in
// flight once it returns.
func readThrough(ctx context.Context, s Stack, f File, bytes int64, mem []byte, depth int) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	groups := make([]Group, depth)
	defer func() {
		cancel() // after an error, the rest need not be read
		for i := range groups {
			_ = s.Wait(ctx, &groups[i])
		}
	}()
	size := len(mem) / depth
	req := make([]Request, 1)
	// Reads from memory never wait, so the end of ctx is looked for apart.
	for offset, i := int64(0), 0; offset < bytes; offset, i = offset+int64(size), (i+1)%depth {
		if err := errors.Join(ctx.Err(), s.Wait(ctx, &groups[i])); err != nil {
			return err
		}
		n := min(int64(size), bytes-offset)
		req[0] = Request{File: f, Offset: offset, Buf: mem[i*size : i*size+int(n)]}
		if err := s.Submit(&groups[i], req); err != nil {
			return err
		}
	}
	for i := range groups {
		if err := s.Wait(ctx, &groups[i]); err != nil {
			return err
		}
	}
	return nil
}
