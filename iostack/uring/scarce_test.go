//go:build linux

package uring

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

// holdings is what stacks hold of the machine.
type holdings struct {
	memory       int64
	files, rings int
}

func held(t testing.TB) holdings {
	t.Helper()
	return holdings{device.HostBytes(), len(limittest.OpenFiles(t, "")), limittest.Mapped(t, "[io_uring]")}
}

// TestStartWithoutDescriptors fails at every descriptor that the start of one ring or two
// takes, says at which, and leaves nothing behind.
func TestStartWithoutDescriptors(t *testing.T) {
	newStack(t, iostack.Options{}).Close() // what the runtime opens once
	was := held(t)
	for _, c := range []struct {
		workers int
		// What the n-th free descriptor is too few for: a ring keeps an eventfd and itself,
		// and opens /dev/zero for a moment.
		fails []string
	}{
		{16, []string{"eventfd", "io_uring_setup", "/dev/zero"}},
		{256, []string{"eventfd", "io_uring_setup", "/dev/zero", "io_uring_setup", "/dev/zero"}},
	} {
		for n := range len(c.fails) + 1 {
			limittest.Files(t, n, func() {
				s, err := New(iostack.Options{Workers: c.workers})
				if n == len(c.fails) {
					if err != nil {
						t.Errorf("%d workers, %d descriptors: %v", c.workers, n, err)
						return
					}
					s.Close()
					return
				}
				if !errors.Is(err, unix.EMFILE) || s != nil || !strings.Contains(err.Error(), c.fails[n]) || !strings.Contains(err.Error(), "ulimit -n") {
					t.Errorf("%d workers, %d descriptors: %v, want that of %s", c.workers, n, err, c.fails[n])
				}
			})
			if got := held(t); got != was {
				t.Errorf("%d workers, %d descriptors: %+v are held, %+v before", c.workers, n, got, was)
			}
		}
	}
}

// TestStartWithoutMemory fails at the bounce buffers, then at each mapping of a ring's
// queues, and leaves nothing behind.
func TestStartWithoutMemory(t *testing.T) {
	newStack(t, iostack.Options{}).Close()
	was := held(t)
	limittest.Memory(t, func() {
		if s, err := New(iostack.Options{Workers: 4096}); !errors.Is(err, fault.ErrBudget) || s != nil {
			t.Errorf("512 MiB of bounce buffers: %v, %v", s, err)
		}
	})
	defer func() { mmap = unix.Mmap }()
	for n, what := range []string{"map the rings", "map the submission entries", "map the rings", "map the submission entries"} {
		var calls atomic.Int64
		mmap = func(fd int, offset int64, length, prot, flags int) ([]byte, error) {
			if calls.Add(1) == int64(n+1) {
				return nil, unix.ENOMEM
			}
			return unix.Mmap(fd, offset, length, prot, flags)
		}
		s, err := New(iostack.Options{Workers: 256})
		if !errors.Is(err, unix.ENOMEM) || s != nil || !strings.Contains(err.Error(), what) {
			t.Errorf("mapping %d: %v, want that of %s", n, err, what)
		}
		if got := held(t); got != was {
			t.Errorf("mapping %d: %+v are held, %+v before", n, got, was)
		}
	}
}

// TestOptionsThatMakeNoSense are refused before anything is taken.
func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []iostack.Options{{Workers: -1}, {MaxIO: 4095}, {Direct: 7}} {
		if s, err := New(o); !errors.Is(err, fault.ErrUsage) || s != nil {
			t.Errorf("%+v: %v, %v", o, s, err)
		}
	}
}

// TestQueuedWhileFallingAsleep queues a read after the ring found nothing, before it says
// that it sleeps: nobody wakes it then, so it must look again.
func TestQueuedWhileFallingAsleep(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 8192)
	var s *Stack
	var f iostack.File
	var g iostack.Group
	var ready, queued, missed atomic.Bool
	buf := iostacktest.HostBuffer(t, 4096)
	s = startStack(t, iostack.Options{Workers: 2}, seams{
		drowsy: func() {
			if ready.CompareAndSwap(true, false) {
				if err := s.Submit(&g, []iostack.Request{{File: f, Offset: 4096, Buf: buf}}); err != nil {
					t.Error(err)
				}
				queued.Store(true)
			}
		},
		enter: func(fd int, submit, wait uint32) error {
			if queued.CompareAndSwap(true, false) && s.queue.Len() > 0 {
				missed.Store(true)
				s.rings[0].kick() // lest the test hangs
			}
			return enter(fd, submit, wait)
		},
	})
	f = iostacktest.OpenFile(t, s, path)
	ready.Store(true)
	if err := iostacktest.Read(s, iostack.Request{File: f, Buf: make([]byte, 10)}); err != nil { // wakes the ring
		t.Fatal(err)
	}
	s.rings[0].do(func() {}) // it has been round since
	for ready.Load() {
		s.rings[0].do(func() {})
	}
	if err := s.Wait(t.Context(), &g); err != nil || string(buf) != string(content[4096:]) {
		t.Errorf("%v, or wrong bytes", err)
	}
	if missed.Load() {
		t.Error("the ring fell asleep over a read that was queued")
	}
}
