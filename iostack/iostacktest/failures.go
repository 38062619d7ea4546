package iostacktest

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// waitForFailure waits for a group in which a request must have failed.
func waitForFailure(t testing.TB, s iostack.Stack, g *iostack.Group) *iostack.ReadError {
	t.Helper()
	err := s.Wait(context.Background(), g)
	var read *iostack.ReadError
	if !errors.As(err, &read) {
		t.Fatalf("Wait: %v, want a ReadError", err)
	}
	return read
}

// checkTruncated checks that an error names the request and the available bytes.
func checkTruncated(t testing.TB, err *iostack.ReadError, r iostack.Request, index int, text string) {
	t.Helper()
	if !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%v: not of kind fault.ErrCorrupt", err)
	}
	if err.File != r.File.Name() || err.Offset != r.Offset || err.Length != len(r.Buf) || err.Index != index {
		t.Errorf("%v (request %d): want request %d for %d bytes at %d of %s", err, err.Index, index, len(r.Buf), r.Offset, r.File.Name())
	}
	if !strings.Contains(err.Error(), r.File.Name()) || !strings.Contains(err.Error(), text) {
		t.Errorf("%q does not say %q of %s", err, text, r.File.Name())
	}
}

// testEndOfFile reads up to the end of files and beyond.
func testEndOfFile(t *testing.T, s iostack.Stack) {
	for _, size := range []int{1, 511, 4095, 4096, 4097, 3*4096 + 904, s.Caps().MaxIO + 4096, s.Caps().MaxIO + 5} {
		path, content := WriteFile(t, size)
		f := OpenFile(t, s, path)
		a := newArena(t, 5*size+256<<10)
		var g iostack.Group

		last := size &^ 4095 // the last page, be it partial
		if last == size {
			last -= 4096
		}
		reqs := []iostack.Request{
			{File: f, Offset: 0, Buf: a.buf(0, size)},
			{File: f, Offset: 0, Buf: a.buf(1, size)},
			{File: f, Offset: int64(last), Buf: a.buf(0, size-last)},
			{File: f, Offset: int64(size - 1), Buf: a.buf((size-1)&4095, 1)},
			{File: f, Offset: int64(size), Buf: a.buf(0, 0)},
		}
		submit(t, s, &g, reqs...)
		wait(t, s, &g)
		for _, r := range reqs {
			compare(t, r, content)
		}

		for _, c := range []struct {
			request iostack.Request
			text    string
		}{
			{iostack.Request{File: f, Offset: int64(size), Buf: a.buf(size&4095, 1)}, "0 of 1 bytes"},
			{iostack.Request{File: f, Offset: int64(size - 1), Buf: a.buf((size-1)&4095, 9000)}, "1 of 9000 bytes"},
			{iostack.Request{File: f, Offset: int64(last), Buf: a.buf(5, size-last+1)}, "bytes available"},
			{iostack.Request{File: f, Offset: int64(size) + 1<<30, Buf: a.buf(0, 10000)}, "0 of 10000 bytes"},
		} {
			submit(t, s, &g, c.request)
			checkTruncated(t, waitForFailure(t, s, &g), c.request, 0, c.text)
		}
		a.check(t)
	}
}

// testShrunkFile truncates a file that is open.
func testShrunkFile(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	const left = 300<<10 + 1
	if err := os.Truncate(path, left); err != nil {
		t.Fatal(err)
	}
	a := newArena(t, 2<<20)
	var g iostack.Group
	whole := iostack.Request{File: f, Offset: 0, Buf: a.buf(0, 1<<20)}
	rest := iostack.Request{File: f, Offset: 0, Buf: a.buf(0, left)}
	submit(t, s, &g, whole, rest)
	checkTruncated(t, waitForFailure(t, s, &g), whole, 0, "307201 of 1048576 bytes")
	compare(t, rest, content)
	a.check(t)
}

func testEmptyFile(t *testing.T, s iostack.Stack) {
	path, _ := WriteFile(t, 0)
	f := OpenFile(t, s, path)
	if f.Size() != 0 {
		t.Errorf("Size %d", f.Size())
	}
	a := newArena(t, 64<<10)
	var g iostack.Group
	submit(t, s, &g, iostack.Request{File: f, Buf: nil})
	wait(t, s, &g)
	r := iostack.Request{File: f, Offset: 0, Buf: a.buf(0, 4096)}
	submit(t, s, &g, r)
	checkTruncated(t, waitForFailure(t, s, &g), r, 0, "0 of 4096 bytes")
	a.check(t)
}

// testFailedRequests mixes good requests with bad ones, over two micro-batches: the first bad one is
// reported, all good ones are carried out, and the group can be reused.
func testFailedRequests(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 4<<20)
	var g iostack.Group
	for _, bad := range [][]int{{0}, {7}, {31}, {20, 3, 12}, {16, 30}} {
		a.reset()
		var reqs []iostack.Request
		for i := range 32 {
			reqs = append(reqs, iostack.Request{File: f, Offset: int64(i * 10000), Buf: a.buf(i*100, 9000)})
		}
		first := len(reqs)
		for _, i := range bad {
			reqs[i].Offset = int64(len(content) - 100 - i)
			first = min(first, i)
		}
		submit(t, s, &g, reqs[:16]...)
		submit(t, s, &g, reqs[16:]...)
		checkTruncated(t, waitForFailure(t, s, &g), reqs[first], first, "of 9000 bytes")
		for i, r := range reqs {
			if r.Offset == int64(i*10000) {
				compare(t, r, content)
			}
		}
		a.check(t)

		good := iostack.Request{File: f, Offset: 1, Buf: reqs[0].Buf}
		submit(t, s, &g, good)
		wait(t, s, &g)
		compare(t, good, content)
	}
}

// testBadRequests submits invalid requests among good ones. None may be queued.
func testBadRequests(t *testing.T, s iostack.Stack) {
	path, _ := WriteFile(t, 9000)
	f := OpenFile(t, s, path)
	a := newArena(t, 64<<10)
	good := iostack.Request{File: f, Buf: a.buf(0, 0)}
	for name, bad := range map[string]iostack.Request{
		"no file":           {Buf: make([]byte, 10)},
		"a stranger's file": {File: strangeFile{}, Buf: make([]byte, 10)},
		"a negative offset": {File: f, Offset: -1, Buf: make([]byte, 10)},
		"the least offset":  {File: f, Offset: math.MinInt64, Buf: make([]byte, 10)},
		"the last offset":   {File: f, Offset: math.MaxInt64, Buf: make([]byte, 10)},
	} {
		var g iostack.Group
		if err := s.Submit(&g, []iostack.Request{good, bad, good}); err == nil {
			t.Errorf("%s: submitted", name)
		}
		wait(t, s, &g)
	}
	a.check(t)
}

// testNoDevice: a stack for host memory refuses requests for device memory.
func testNoDevice(t *testing.T, s iostack.Stack) {
	if s.Caps().Device {
		return // RunOnDevice is for those
	}
	path, _ := WriteFile(t, 9000)
	f := OpenFile(t, s, path)
	mem := newDeviceMemory(t, cudatest.Open(t), 1<<20)
	var g iostack.Group
	bad := iostack.Request{File: f, Device: mem.arena.Slice(0, 100)}
	if err := s.Submit(&g, []iostack.Request{{File: f, Buf: make([]byte, 10)}, bad}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("into device memory: %v", err)
	}
	wait(t, s, &g)
	if err := errors.Join(iostack.RegisterDevice(s, bad.Device), iostack.UnregisterDevice(s, bad.Device)); err != nil {
		t.Errorf("a hint that is of no use: %v", err)
	}
}

type strangeFile struct{}

func (strangeFile) Name() string           { return "stranger" }
func (strangeFile) Size() int64            { return 1 << 20 }
func (strangeFile) Direct() (bool, string) { return true, "" }
func (strangeFile) Close() error           { return nil }
