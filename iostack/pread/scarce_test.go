//go:build linux

package pread

import (
	"errors"
	"testing"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

// TestNoMemoryForBounceBuffers is an error of the budget's, and leaves nothing behind.
func TestNoMemoryForBounceBuffers(t *testing.T) {
	before := device.HostBytes()
	limittest.Memory(t, func() {
		s, err := New(iostack.Options{Workers: 4096}) // 512 MiB
		if !errors.Is(err, fault.ErrBudget) || s != nil {
			t.Errorf("%v, %v", s, err)
		}
	})
	if held := device.HostBytes() - before; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestWorkersHaveABounceBufferEach, which ends where the next one's begins.
func TestWorkersHaveABounceBufferEach(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 64<<10)
	s := newStack(t, iostack.Options{Workers: 3, MaxIO: 4096})
	f := iostacktest.OpenFile(t, s, path)
	for i := range 3 {
		if b := s.bounceOf(i); len(b) != 4096 || cap(b) != 4096 || &b[0] != &s.bounce.Bytes()[i*4096] {
			t.Errorf("worker %d has %d bytes of %d", i, len(b), cap(b))
		}
	}
	buf := make([]byte, 40000)
	if err := iostacktest.Read(s, iostack.Request{File: f, Offset: 1, Buf: buf}); err != nil || string(buf) != string(content[1:40001]) {
		t.Errorf("%v, or wrong bytes", err)
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
