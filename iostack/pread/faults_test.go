package pread

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

// TestShortAndInterruptedReads reads through a kernel that delivers as little
// as it may and is interrupted all the time; of direct reads it checks that
// they stay aligned, whatever happened before.
func TestShortAndInterruptedReads(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 300<<10+777)
	for _, mode := range []iostack.Direct{iostack.DirectAuto, iostack.DirectNever} {
		t.Run(mode.String(), func(t *testing.T) {
			s := newStack(t, iostack.Options{Workers: 2, MaxIO: 32 << 10, Direct: mode})
			f := iostacktest.OpenFile(t, s, path)
			direct, _ := f.Direct()
			mem := iostacktest.HostBuffer(t, 200<<10)
			var (
				mu   sync.Mutex
				rng  = rand.New(rand.NewPCG(3, 4))
				cuts = map[int64]int{} // in a row, by offset
			)
			// One delivery in four is cut; direct ones at a drive's sector, so
			// that a page may need several.
			s.pread = func(fd int, p []byte, offset int64) (int, error) {
				mu.Lock()
				interrupt, cut, share := rng.IntN(3) == 0, rng.IntN(4) == 0, rng.IntN(len(p))
				if cuts[offset]++; !cut || cuts[offset] > 4 {
					cut, cuts[offset] = false, 0
				}
				mu.Unlock()
				if at := uintptr(unsafe.Pointer(unsafe.SliceData(p))); direct && (offset|int64(len(p))|int64(at))%iostack.Align != 0 {
					t.Errorf("direct read of %d bytes at %d into %#x", len(p), offset, at)
				}
				switch {
				case interrupt:
					return -1, unix.EINTR
				case cut && direct:
					return unix.Pread(fd, p[:max(share&^511, 512)], offset)
				case cut:
					return unix.Pread(fd, p[:max(share, 1)], offset)
				}
				return unix.Pread(fd, p, offset)
			}
			iostacktest.ReadAnything(t, s, f, content, mem)
		})
	}
}

// TestReadsThatGetNowhere end with an error, not with a hang.
func TestReadsThatGetNowhere(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 20000)
	s := newStack(t, iostack.Options{Workers: 1})
	f := iostacktest.OpenFile(t, s, path)
	buf := iostacktest.HostBuffer(t, 8192)

	s.pread = func(int, []byte, int64) (int, error) { return 0, nil }
	err := iostacktest.Read(s, iostack.Request{File: f, Offset: 4096, Buf: buf})
	if !errors.Is(err, io.ErrNoProgress) || errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("nothing, though the file goes on: %v", err)
	}

	s.pread = func(int, []byte, int64) (int, error) { return -1, unix.EIO }
	err = iostacktest.Read(s, iostack.Request{File: f, Offset: 4096, Buf: buf})
	var readErr *iostack.ReadError
	if !errors.Is(err, unix.EIO) || !errors.As(err, &readErr) || readErr.Offset != 4096 || readErr.Length != 8192 || readErr.At != 4096 {
		t.Errorf("EIO: %v", err)
	}
	if want := "8192 bytes at 4096"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: does not say %q", err, want)
	}
}

// TestFirstFailureOfARequest is the one nearest its beginning, whichever piece
// ended first.
func TestFirstFailureOfARequest(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 64<<10)
	s := newStack(t, iostack.Options{Workers: 4, MaxIO: 4096})
	f := iostacktest.OpenFile(t, s, path)
	var failed sync.WaitGroup
	failed.Add(14)
	s.pread = func(_ int, p []byte, offset int64) (int, error) {
		switch {
		case offset == 0:
			return len(p), nil
		case offset == 4096: // fails last
			failed.Wait()
			return -1, unix.EIO
		}
		failed.Done()
		return -1, unix.ENXIO
	}
	err := iostacktest.Read(s, iostack.Request{File: f, Buf: iostacktest.HostBuffer(t, 64<<10)})
	if !errors.Is(err, unix.EIO) {
		t.Errorf("reported %v, want the second page's EIO", err)
	}
}

// TestCancelAwaitsWhatHasBegun holds one read inside the system call: Wait must
// await it, and must not begin the reads behind it.
func TestCancelAwaitsWhatHasBegun(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 64<<10)
	s := newStack(t, iostack.Options{Workers: 1, MaxIO: 4096})
	f := iostacktest.OpenFile(t, s, path)
	var (
		begun   = make(chan struct{})
		release = make(chan struct{})
		reads   atomic.Int64
		over    atomic.Bool
	)
	s.pread = func(fd int, p []byte, offset int64) (int, error) {
		if reads.Add(1) == 1 {
			close(begun)
			<-release
		}
		n, err := unix.Pread(fd, p, offset)
		over.Store(true)
		return n, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var g, other iostack.Group
	buf := iostacktest.HostBuffer(t, 64<<10)
	if err := s.Submit(&g, []iostack.Request{{File: f, Buf: buf[:32<<10]}, {File: f, Buf: buf[32<<10:]}}); err != nil {
		t.Fatal(err)
	}
	kept := make([]byte, 100)
	if err := s.Submit(&other, []iostack.Request{{File: f, Offset: 50, Buf: kept}}); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	waited := make(chan error)
	go func() { waited <- s.Wait(ctx, &g) }()
	for dropped := false; !dropped; { // until Wait has given up what is queued
		dropped = s.queue.Len() == 1
		select {
		case err := <-waited:
			t.Fatalf("Wait returned while a read was in flight: %v", err)
		default:
		}
		runtime.Gosched()
	}
	close(release)
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if !over.Load() {
		t.Error("Wait returned before the read was over")
	}
	if err := s.Wait(context.Background(), &other); err != nil || !bytes.Equal(kept, content[50:150]) {
		t.Errorf("the other group: %v", err)
	}
	if n := reads.Load(); n != 2 {
		t.Errorf("%d reads were begun, want the one in flight and the other group's", n)
	}
}

// TestStacksHoldNothingOnceClosed counts host memory.
func TestStacksHoldNothingOnceClosed(t *testing.T) {
	before := device.HostBytes()
	for _, c := range []struct {
		options iostack.Options
		want    int64
	}{
		{iostack.Options{Workers: 4}, 4 * 128 << 10},
		{iostack.Options{Workers: 4, MaxIO: 8192}, 4 * 8192},
		{iostack.Options{Workers: 4, Direct: iostack.DirectNever}, 0},
	} {
		s := newStack(t, c.options)
		if held := device.HostBytes() - before; held != c.want {
			t.Errorf("%+v holds %d bytes, want %d", c.options, held, c.want)
		}
		s.Close()
		if held := device.HostBytes() - before; held != 0 {
			t.Errorf("%+v holds %d bytes once closed", c.options, held)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	iostacktest.AllocatesNothing(t, newStack(t, iostack.Options{Workers: 4, MaxIO: 64 << 10}))
}
