//go:build linux

package uring

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
	"diskgnn/iostack/iostacktest"
)

// TestShortAndInterruptedReads reads through a kernel that delivers as little as
// it may, is interrupted and asks to be asked again all the time, in
// io_uring_enter and in completions; of direct reads it checks that they stay
// aligned, whatever happened before.
func TestShortAndInterruptedReads(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 300<<10+777)
	for _, mode := range []iostack.Direct{iostack.DirectAuto, iostack.DirectNever} {
		t.Run(mode.String(), func(t *testing.T) {
			// The ring's thread alone uses these.
			rng := rand.New(rand.NewPCG(3, 4))
			cuts := map[int64]int{} // in a row, by offset
			result := func(r *frontend.Read, res int32) int32 {
				_, buf, offset := r.Rest()
				direct, _ := r.File().Direct()
				if direct && (offset|int64(len(buf))|int64(address(buf)))%iostack.Align != 0 {
					t.Errorf("direct read of %d bytes at %d into %#x", len(buf), offset, address(buf))
				}
				if cuts[offset]++; cuts[offset] > 4 {
					cuts[offset] = 0
					return res
				}
				switch share := rng.Int32N(max(res, 1)); rng.IntN(4) {
				case 0:
					return -int32(unix.EINTR)
				case 1:
					return -int32(unix.EAGAIN)
				case 2:
					if direct { // a drive's sector, so that a page may need several
						return min(max(share&^511, 512), res)
					}
					return min(max(share, 1), res)
				}
				cuts[offset] = 0
				return res
			}
			calls := 0
			refuse := func(fd int, submit, wait uint32) error {
				switch calls++; calls % 50 {
				case 10:
					return unix.EINTR
				case 20:
					return unix.EAGAIN
				case 30:
					return unix.EBUSY
				}
				return enter(fd, submit, wait)
			}
			s := startStack(t, iostack.Options{Workers: 6, MaxIO: 32 << 10, Direct: mode}, seams{enter: refuse, result: result})
			f := iostacktest.OpenFile(t, s, path)
			mem := iostacktest.HostBuffer(t, 200<<10)
			if mode == iostack.DirectAuto {
				_ = s.Register(mem)
			}
			iostacktest.ReadAnything(t, s, f, content, mem)
		})
	}
}

// TestReadsThatGetNowhere end with an error, not with a hang.
func TestReadsThatGetNowhere(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 20000)
	for _, c := range []struct {
		name string
		res  int32
		want error
	}{
		{"nothing, though the file goes on", 0, io.ErrNoProgress},
		{"a broken drive", -int32(unix.EIO), unix.EIO},
		{"again, for ever", -int32(unix.EAGAIN), unix.EAGAIN},
	} {
		s := startStack(t, iostack.Options{Workers: 2}, seams{enter: enter, result: func(*frontend.Read, int32) int32 { return c.res }})
		f := iostacktest.OpenFile(t, s, path)
		err := iostacktest.Read(s, iostack.Request{File: f, Offset: 4096, Buf: iostacktest.HostBuffer(t, 8192)})
		failed, ok := errors.AsType[*iostack.ReadError](err)
		if !errors.Is(err, c.want) || errors.Is(err, fault.ErrCorrupt) || !ok || failed.Offset != 4096 || failed.Length != 8192 || failed.At != 4096 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestFirstFailureOfARequest is the one nearest its beginning, whichever piece
// ended first.
func TestFirstFailureOfARequest(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 64<<10)
	s := startStack(t, iostack.Options{Workers: 16, MaxIO: 4096}, seams{enter: enter, result: func(r *frontend.Read, res int32) int32 {
		switch _, _, offset := r.Rest(); offset {
		case 0:
			return res
		case 4096:
			return -int32(unix.EIO)
		}
		return -int32(unix.ENXIO)
	}})
	err := iostacktest.Read(s, iostack.Request{File: iostacktest.OpenFile(t, s, path), Buf: iostacktest.HostBuffer(t, 64<<10)})
	if !errors.Is(err, unix.EIO) {
		t.Errorf("reported %v, want the second page's EIO", err)
	}
}

// TestRefusedSubmissions gets an error from io_uring_enter that asking again
// will not mend: what the kernel did not take fails, and the stack goes on.
func TestRefusedSubmissions(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 64<<10)
	var refuse atomic.Bool
	s := startStack(t, iostack.Options{Workers: 4}, seams{enter: func(fd int, submit, wait uint32) error {
		if submit > 1 && refuse.CompareAndSwap(true, false) {
			return unix.EFAULT
		}
		return enter(fd, submit, wait)
	}})
	f := iostacktest.OpenFile(t, s, path)
	buf := iostacktest.HostBuffer(t, 64<<10)
	refuse.Store(true)
	var reqs []iostack.Request
	for i := range 8 {
		reqs = append(reqs, iostack.Request{File: f, Offset: int64(i) << 13, Buf: buf[i<<13 : (i+1)<<13]})
	}
	if err := iostacktest.Read(s, reqs...); !errors.Is(err, unix.EFAULT) {
		t.Errorf("refused: %v", err)
	}
	if err := iostacktest.Read(s, reqs...); err != nil || !bytes.Equal(buf, content) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestKernelThatAnswersNoMore has io_uring_enter fail for good: reads that the kernel has
// taken, and whose completions it would post inside io_uring_enter alone, end with an
// error, and so do those behind them, and Close.
func TestKernelThatAnswersNoMore(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 1<<20)
	for _, c := range []struct {
		name  string
		taken bool // by the kernel, of the first reads
		err   unix.Errno
	}{
		{"reads are in flight", true, unix.EPERM},
		{"nothing is taken", false, unix.EPERM},
		{"short of memory, in flight", true, unix.EAGAIN},
		{"short of memory for ever", false, unix.EBUSY},
	} {
		var broken atomic.Bool
		var took atomic.Int64
		s := startStack(t, iostack.Options{Workers: 8}, seams{patience: 20 * time.Millisecond, enter: func(fd int, submit, wait uint32) error {
			if !broken.Load() {
				return enter(fd, submit, wait)
			}
			if c.taken && submit > 1 {
				// It takes the entries, and does nothing of what it would for a thread that waits.
				n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), 0, 0, 0, 0)
				if errno == 0 {
					took.Add(int64(n))
				}
			}
			return c.err
		}})
		f := iostacktest.OpenFile(t, s, path)
		if direct, why := f.Direct(); !direct {
			t.Skip(why)
		}
		buf := iostacktest.HostBuffer(t, 1<<20)
		if err := iostacktest.Read(s, iostack.Request{File: f, Buf: buf}); err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		var reqs []iostack.Request
		for i := range 16 {
			reqs = append(reqs, iostack.Request{File: f, Offset: int64(i) << 16, Buf: buf[i<<16 : (i+1)<<16]})
		}
		if err := iostacktest.Read(s, reqs...); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := iostacktest.Read(s, reqs[:3]...); !errors.Is(err, c.err) {
			t.Errorf("%s, later: %v", c.name, err)
		}
		if c.taken && took.Load() == 0 {
			t.Errorf("%s: the kernel took nothing", c.name)
		}
		if err := errors.Join(f.Close(), s.Close()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestCancelAwaitsWhatHasBegun holds one completion back: Wait must await it,
// and must not begin the reads behind it.
func TestCancelAwaitsWhatHasBegun(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 64<<10)
	var (
		begun   = make(chan struct{})
		release = make(chan struct{})
		reads   atomic.Int64
	)
	s := startStack(t, iostack.Options{Workers: 1, MaxIO: 4096}, seams{enter: enter, result: func(_ *frontend.Read, res int32) int32 {
		if reads.Add(1) == 1 {
			close(begun)
			<-release
		}
		return res
	}})
	f := iostacktest.OpenFile(t, s, path)
	ctx, cancel := context.WithCancel(context.Background())
	var g, other iostack.Group
	buf, kept := iostacktest.HostBuffer(t, 64<<10), make([]byte, 100)
	if err := s.Submit(&g, []iostack.Request{{File: f, Buf: buf[:32<<10]}, {File: f, Buf: buf[32<<10:]}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Submit(&other, []iostack.Request{{File: f, Offset: 50, Buf: kept}}); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	waited := make(chan error)
	go func() { waited <- s.Wait(ctx, &g) }()
	for s.queue.Len() != 1 { // until Wait has given up what is queued
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
	if err := s.Wait(context.Background(), &other); err != nil || !bytes.Equal(kept, content[50:150]) {
		t.Errorf("the other group: %v", err)
	}
	if n := reads.Load(); n != 2 {
		t.Errorf("%d reads were carried out, want the one in flight and the other group's", n)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	iostacktest.AllocatesNothing(t, newStack(t, iostack.Options{Workers: 8, MaxIO: 64 << 10}))
}

// TestStacksHoldNothingOnceClosed counts host memory and descriptors.
func TestStacksHoldNothingOnceClosed(t *testing.T) {
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(names)
	}
	newStack(t, iostack.Options{}).Close() // what the runtime opens once
	memory, files := device.HostBytes(), open()
	for _, c := range []struct {
		options iostack.Options
		want    int64
	}{
		{iostack.Options{Workers: 4}, 4 * 128 << 10},
		{iostack.Options{Workers: 4, MaxIO: 8192}, 4 * 8192},
		{iostack.Options{Workers: 4, Direct: iostack.DirectNever}, 0},
	} {
		s := newStack(t, c.options)
		if held := device.HostBytes() - memory; held != c.want {
			t.Errorf("%+v holds %d bytes, want %d", c.options, held, c.want)
		}
		s.Close()
		if held, n := device.HostBytes()-memory, open()-files; held != 0 || n != 0 {
			t.Errorf("%+v holds %d bytes and %d descriptors once closed", c.options, held, n)
		}
	}
}
