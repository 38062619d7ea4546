package iostack

import (
	"context"
	"errors"
	"fmt"
	"math"

	"diskgnn/device"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
)

// Reads is the load of a measurement: reads of files from front to back, one file after the other.
type Reads struct {
	Paths []string
	Most  int64 // bytes of each file to read, from its beginning; 0: all of them
	Bytes int   // size of a request
	Depth int   // requests in flight
	Load  driverate.Effort
}

// Sequential carries the reads out and returns the rate through the stack in bytes per second. With the
// zero effort it reads the files once. Otherwise it begins again with the first, without a pause, until the
// effort is over. It holds Depth × Bytes of host memory, and all files open. If reads are buffered
// (File.Direct), the rate may be the rate of the page cache. If all files are empty, the error is of kind
// fault.ErrInput.
func Sequential(ctx context.Context, s Stack, o Reads) (r driverate.Rate, err error) {
	if o.Bytes < 1 || o.Depth < 1 || o.Bytes > mostHeld/o.Depth || o.Most < 0 {
		return r, fault.New(fault.ErrUsage, "sequential rate: %d buffers of %d bytes, for %d bytes of a file, are not possible", o.Depth, o.Bytes, o.Most)
	}
	l := sequence{stack: s, size: o.Bytes, most: o.Most}
	if l.most == 0 {
		l.most = math.MaxInt64
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.open(o.Paths); err != nil {
		return r, fmt.Errorf("sequential rate: %w", err)
	}
	mem, err := device.NewHost(o.Depth * o.Bytes)
	if err != nil {
		return r, fmt.Errorf("sequential rate: %w", err)
	}
	defer mem.Free()
	_ = s.Register(mem.Bytes()) // a hint
	defer func() { _ = s.Unregister(mem.Bytes()) }()

	meter := driverate.NewMeter(o.Load)
	if err := l.read(ctx, mem.Bytes(), o.Depth, meter, o.Load.Once()); err != nil {
		return r, fmt.Errorf("sequential rate: %w", err)
	}
	return meter.Rate(), nil
}

// mostHeld bounds the memory of a measurement: it fits an int of 32 bits.
const mostHeld = 1 << 30

// sequence is a sequential load on files.
type sequence struct {
	stack Stack
	size  int   // of a request, in bytes
	most  int64 // of a file, in bytes
	files []File

	file   int   // of files, the next request's
	offset int64 // in it
}

// open opens the files that are not empty.
func (l *sequence) open(paths []string) error {
	for _, path := range paths {
		f, err := l.stack.Open(path)
		if err != nil {
			return err
		}
		if f.Size() > 0 {
			l.files = append(l.files, f)
		} else if err := f.Close(); err != nil {
			return err
		}
	}
	if len(l.files) == 0 {
		return fault.New(fault.ErrInput, "the files %q are empty", paths)
	}
	return nil
}

func (l *sequence) close() (err error) {
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// next returns the next request, with buf as its destination; false after the last request of a single
// pass.
func (l *sequence) next(buf []byte, once bool) (Request, bool) {
	if l.file == len(l.files) {
		if once {
			return Request{}, false
		}
		l.file = 0
	}
	f := l.files[l.file]
	end := min(f.Size(), l.most)
	n := min(int64(len(buf)), end-l.offset)
	r := Request{File: f, Offset: l.offset, Buf: buf[:n]}
	if l.offset += n; l.offset == end {
		l.file, l.offset = l.file+1, 0
	}
	return r, true
}

// read reads through mem as a ring of depth buffers until the meter ends the load. No read
// is in flight once it returns.
func (l *sequence) read(ctx context.Context, mem []byte, depth int, meter *driverate.Meter, once bool) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	groups, asked := make([]Group, depth), make([]int64, depth)
	defer func() {
		cancel() // after an error, the rest need not be read
		for i := range groups {
			_ = l.stack.Wait(ctx, &groups[i])
		}
	}()
	req := make([]Request, 1)
	// wait waits until buffer i is free, and reports whether the load continues.
	wait := func(i int) (bool, error) {
		// Reads from memory never wait, so ctx is checked separately.
		if err := errors.Join(ctx.Err(), l.stack.Wait(ctx, &groups[i])); err != nil {
			return false, err
		}
		n := asked[i]
		asked[i] = 0
		return n == 0 || meter.Done(n), nil
	}
	for i := 0; ; i = (i + 1) % depth {
		more, err := wait(i)
		if !more || err != nil {
			return err
		}
		var ok bool
		if req[0], ok = l.next(mem[i*l.size:(i+1)*l.size], once); !ok {
			break
		}
		if err := l.stack.Submit(&groups[i], req); err != nil {
			return err
		}
		asked[i] = int64(len(req[0].Buf))
	}
	for i := range groups {
		if _, err := wait(i); err != nil {
			return err
		}
	}
	return nil
}
