package cufile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

// openEmulated returns a device that the test closes.
func openEmulated(t testing.TB) *cuda.Device {
	t.Helper()
	d, err := emulated()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// newStack starts a stack on a library, and checks what is left of it.
func newStack(t testing.TB, d *cuda.Device, l library, o iostack.Options) *Stack {
	t.Helper()
	s, err := start(d, false, l, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if f, ok := l.(*fake); ok && f.live.Load() != 0 {
			t.Errorf("%d handles and pins are left", f.live.Load())
		}
	})
	return s
}

func newFake() library { return new(fake) }

func TestConformance(t *testing.T) { conformance(t, openEmulated(t), newFake) }

// conformance runs the suite on host memory and on device memory.
func conformance(t *testing.T, d *cuda.Device, open func() library) {
	t.Run("host", func(t *testing.T) {
		iostacktest.Run(t, func(t *testing.T) iostack.Stack { return newStack(t, d, open(), iostack.Options{}) })
	})
	for _, o := range []iostack.Options{{}, {Workers: 2, MaxIO: 8192, Direct: iostack.DirectNever}} {
		t.Run(fmt.Sprintf("device/workers=%d,maxio=%d,direct=%v", o.Workers, o.MaxIO, o.Direct), func(t *testing.T) {
			iostacktest.RunOnDevice(t, d, func(t *testing.T) iostack.Stack { return newStack(t, d, open(), o) })
		})
	}
}

// readOne reads a file of n bytes into device memory, 64 KiB at a time.
func readOne(t *testing.T, l library, n int) error {
	t.Helper()
	d := openEmulated(t)
	s := newStack(t, d, l, iostack.Options{Workers: 1, MaxIO: 64 << 10})
	path := filepath.Join(t.TempDir(), "content.bin")
	content := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	arena, err := d.NewArena(int64(n))
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Free()
	to, err := arena.Take(int64(n))
	if err != nil {
		t.Fatal(err)
	}
	var g iostack.Group
	if err := s.Submit(&g, []iostack.Request{{File: f, Device: to}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(context.Background(), &g); err != nil {
		return err
	}
	if !bytes.Equal(memory(to.Address(), n), content) {
		t.Error("wrong bytes")
	}
	return nil
}

func TestFaults(t *testing.T) { faults(t, newFake) }

// faults walks what the library may answer.
func faults(t *testing.T, open func() library) {
	const n = 200_000
	for _, c := range []struct {
		fault, want string
		kind        error
	}{
		{"", "", nil},
		{"short:read:7777", "", nil},
		{"short:read:0", "no data", nil},
		{"fail:register:5008", "cuFileHandleRegister: CU_FILE_IO_NOT_SUPPORTED (5008): the file system or the drive is not supported", nil},
		{"fail:register:5099", "cuFileHandleRegister: status 5099", nil},
		{"fail:register:5011", "CU_FILE_CUDA_DRIVER_ERROR (5011): the CUDA driver failed (CUDA result 999)", fault.ErrDevice},
		{"fail:read:5014", "cuFileRead: CU_FILE_CUDA_POINTER_RANGE_ERROR (5014)", nil},
		{"errno:read:5", "cuFileRead: input/output error", syscall.EIO},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Setenv("FAKE_CUFILE", c.fault)
			err := readOne(t, open(), n)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestEveryReadFails(t *testing.T) { everyRead(t, newFake) }

// everyRead fails one read after the other: the error names its place.
func everyRead(t *testing.T, open func() library) {
	for i := range 5 {
		t.Setenv("FAKE_CUFILE", fmt.Sprintf("nth:read:%d", i))
		err := readOne(t, open(), 200_000) // four pieces
		var read *iostack.ReadError
		switch {
		case i == 4 && err != nil:
			t.Errorf("no fault: %v", err)
		case i < 4 && (!errors.As(err, &read) || read.At != int64(i)<<16 || !strings.Contains(err.Error(), "CU_FILE_IO_ERROR")):
			t.Errorf("read %d failed: %v", i, err)
		}
	}
}

func TestPins(t *testing.T) {
	d := openEmulated(t)
	arena, err := d.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Free()
	all, _ := arena.Take(1 << 20)
	l := new(fake)
	s := newStack(t, d, l, iostack.Options{Workers: 1})
	low, high := all.Slice(4096, 8192), all.Slice(65536, 4096)
	if err := s.RegisterDevice(high, low, cuda.Buffer{}, low.Slice(100, 200), low); err != nil || l.live.Load() != 2 {
		t.Fatalf("%d pins, %v", l.live.Load(), err)
	}
	for i, c := range []struct{ b, base cuda.Buffer }{
		{all.Slice(0, 10), all}, {low, low}, {low.Slice(8000, 192), low}, {all.Slice(4096+8000, 193), all.Slice(4096+8000, 0)},
		{high.Slice(5, 5), high}, {all.Slice(1<<20-1, 1), all.Slice(1<<20-1, 1)},
	} {
		if got := s.pins.base(c.b); got != c.base.Address() {
			t.Errorf("case %d: %#x, want %#x", i, got, c.base.Address())
		}
	}
	if err := s.UnregisterDevice(low, low, all, cuda.Buffer{}); err != nil || l.live.Load() != 1 {
		t.Errorf("%d pins, %v", l.live.Load(), err)
	}
	t.Setenv("FAKE_CUFILE", "fail:pin:5036")
	if err := s.RegisterDevice(low); err == nil || !strings.Contains(err.Error(), "BAR1") {
		t.Errorf("refused: %v", err)
	}
}

// TestReadsAllocateNothing in steady state.
func TestReadsAllocateNothing(t *testing.T) {
	var p pins
	d := openEmulated(t)
	arena, err := d.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Free()
	all, _ := arena.Take(1 << 20)
	if err := p.add(all, func(uint64, int64) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { p.base(all.Slice(5, 5)) }); n > 0 {
		t.Errorf("%v allocations to find a pin", n)
	}
}
