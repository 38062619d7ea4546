package iostacktest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"unsafe"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// RunOnDevice runs the suite on stacks that read into memory of the device: all tests of Run with the
// destinations in device memory, and the tests for device memory. open returns a new stack, which the suite
// closes.
func RunOnDevice(t *testing.T, device *cuda.Device, open func(t *testing.T) iostack.Stack) {
	mem := newDeviceMemory(t, device, 80<<20) // one test after the other
	t.Run("Mirrored", func(t *testing.T) {
		Run(t, func(t *testing.T) iostack.Stack {
			mem.t = t
			return &mirror{Stack: open(t), mem: mem, copies: make(map[*iostack.Group][]reflection)}
		})
	})
	mem.t = t
	t.Run("Destinations", func(t *testing.T) {
		s := open(t)
		defer s.Close()
		testDestinations(t, s, mem)
	})
}

// deviceMemory is device memory of a test, and a stream to fill and read it.
type deviceMemory struct {
	t      testing.TB
	device *cuda.Device
	stream *cuda.Stream
	arena  cuda.Buffer
	used   int64
}

func newDeviceMemory(t testing.TB, device *cuda.Device, size int64) *deviceMemory {
	t.Helper()
	m := &deviceMemory{t: t, device: device}
	detach, err := device.Attach()
	if err != nil {
		t.Fatal(err)
	}
	defer detach()
	if m.stream, err = device.NewStream(); err != nil {
		t.Fatal(err)
	}
	arena, err := device.NewArena(size)
	if err != nil {
		m.stream.Free()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if detach, err := device.Attach(); err == nil {
			defer detach()
		}
		arena.Free()
		m.stream.Free()
	})
	if m.arena, err = arena.Take(size); err != nil {
		t.Fatal(err)
	}
	return m
}

// attached does something with the device, and waits for the stream's work.
func (m *deviceMemory) attached(do func() error) {
	detach, err := m.device.Attach()
	if err == nil {
		defer detach()
		if err = do(); err == nil {
			err = m.stream.Synchronize()
		}
	}
	if err != nil {
		m.t.Errorf("device memory: %v", err)
	}
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// margin is the number of guard bytes on either side of a destination.
const margin = 64

// take returns n bytes at an address skip bytes after a multiple of 4096, and the range that includes the
// margins.
func (m *deviceMemory) take(skip, n int64) (to, within cuda.Buffer) {
	base := int64(m.arena.Address() % 4096)
	from := (base+m.used+margin+4095)&^4095 - base + skip
	if m.used = from + n + margin; m.used > m.arena.Bytes() {
		panic("iostacktest: too little device memory")
	}
	return m.arena.Slice(from, n), m.arena.Slice(from-margin, n+2*margin)
}

// read copies device memory to the host.
func (m *deviceMemory) read(b cuda.Buffer) []byte {
	out := make([]byte, b.Bytes())
	m.attached(func() error { return m.stream.CopyOut(out, b) })
	return out
}

// mirror is a stack for host memory that reads through a stack for device memory: every request reads into
// device memory of the same alignment, and after Wait the bytes are copied to the request's destination. So
// the tests of host memory test device memory.
type mirror struct {
	iostack.Stack
	mem *deviceMemory

	mu     sync.Mutex
	copies map[*iostack.Group][]reflection
	closed bool
}

// reflection is the device memory of a request for host memory.
type reflection struct {
	buf    []byte
	within cuda.Buffer // with margins
}

// Register does nothing: the inner stack does not read into this memory.
func (s *mirror) Register(...[]byte) error   { return nil }
func (s *mirror) Unregister(...[]byte) error { return nil }

func (s *mirror) OpenStriped(paths []string, unit int) (iostack.File, error) {
	return iostack.OpenStriped(s.Stack, paths, unit)
}

func (s *mirror) Submit(g *iostack.Group, reqs []iostack.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.copies) == 0 {
		s.mem.used = 0
	}
	var mirrored []iostack.Request
	var added []reflection
	s.mem.attached(func() error {
		for _, r := range reqs {
			if len(r.Buf) > 0 {
				to, within := s.mem.take(int64(addressOf(r.Buf)%4096), int64(len(r.Buf)))
				added = append(added, reflection{r.Buf, within})
				if err := s.mem.stream.Fill(within, guard); err != nil {
					return err
				}
				r.Buf, r.Device = nil, to
			}
			mirrored = append(mirrored, r)
		}
		return nil
	})
	if err := s.Stack.Submit(g, mirrored); err != nil {
		return err
	}
	if len(added) > 0 {
		s.copies[g] = append(s.copies[g], added...)
	}
	return nil
}

func (s *mirror) Wait(ctx context.Context, g *iostack.Group) error {
	err := s.Stack.Wait(ctx, g)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.copyOut(s.copies[g])
	}
	delete(s.copies, g)
	return err
}

// Close copies the bytes read so far: nothing may be written to a destination after Close.
func (s *mirror) Close() error {
	err := s.Stack.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		for _, copies := range s.copies {
			s.copyOut(copies)
		}
	}
	return err
}

// copyOut copies the bytes read to their destinations, and checks the margins.
func (s *mirror) copyOut(copies []reflection) {
	for _, c := range copies {
		got := s.mem.read(c.within)
		n := copy(c.buf, got[margin:])
		if !bytes.Equal(got[:margin], guards[:margin]) || !bytes.Equal(got[margin+n:], guards[:margin]) {
			s.mem.t.Errorf("device memory beside a destination of %d bytes was written", n)
		}
	}
}

// testDestinations mixes host and device memory in one group, registered and not.
func testDestinations(t *testing.T, s iostack.Stack, mem *deviceMemory) {
	if !s.Caps().Device {
		t.Fatal("the stack does not read into device memory")
	}
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	registered := mem.arena.Slice(0, 2<<20)
	host := newArena(t, 1<<20)
	round := func() {
		t.Helper()
		host.reset()
		mem.used = 0
		var g iostack.Group
		var reqs []iostack.Request
		for i := range 24 {
			offset := int64(i * 9001)
			to, _ := mem.take(offset%4096*int64(i%2), 100_000)
			reqs = append(reqs, iostack.Request{File: f, Offset: offset, Device: to},
				iostack.Request{File: f, Offset: offset, Buf: host.buf(i, 20_000)})
		}
		submit(t, s, &g, reqs...)
		wait(t, s, &g)
		for _, r := range reqs {
			if r.Device != (cuda.Buffer{}) {
				r.Buf = mem.read(r.Device)
			}
			compare(t, r, content)
		}
		host.check(t)
	}
	round()
	if err := iostack.RegisterDevice(s, registered, cuda.Buffer{}); err != nil {
		t.Error(err)
	}
	round()
	if err := iostack.UnregisterDevice(s, registered, cuda.Buffer{}); err != nil {
		t.Error(err)
	}
	round()

	var g iostack.Group
	two := iostack.Request{File: f, Buf: make([]byte, 10), Device: mem.arena.Slice(0, 10)}
	if err := s.Submit(&g, []iostack.Request{{File: f, Device: mem.arena.Slice(0, 10)}, two}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("two destinations: %v", err)
	}
	submit(t, s, &g, iostack.Request{File: f, Device: mem.arena.Slice(5, 0)})
	wait(t, s, &g)
}
