// Package iostacktest is the conformance suite of storage stacks: tests of the contract of iostack.Stack,
// for every backend and wrapper.
//
// A backend's own tests add cases of its own, such as short reads and interrupted system calls.
package iostacktest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// Trait is a property in which a stack differs from the usual.
type Trait int

// Copies is the trait of a stack with copies of the files: later changes in the file system do not change
// its reads.
const Copies Trait = 1

// Run runs the suite as subtests, each on a new stack of open, which the suite closes. Files are made in
// t.TempDir, so TMPDIR chooses the file system.
func Run(t *testing.T, open func(t *testing.T) iostack.Stack, traits ...Trait) {
	copies := slices.Contains(traits, Copies)
	for _, c := range []struct {
		name string
		test func(*testing.T, iostack.Stack)
	}{
		{"Contents", testContents},
		{"Alignments", testAlignments},
		{"LongerThanMaxIO", testLongerThanMaxIO},
		{"BeyondTwoGiB", testBeyondTwoGiB},
		{"EndOfFile", testEndOfFile},
		{"ShrunkFile", func(t *testing.T, s iostack.Stack) {
			if copies {
				t.Skip("files of this stack do not shrink")
			}
			testShrunkFile(t, s)
		}},
		{"EmptyFile", testEmptyFile},
		{"FailedRequests", testFailedRequests},
		{"NothingToRead", testNothingToRead},
		{"ManyGroups", testManyGroups},
		{"FullQueue", testFullQueue},
		{"Goroutines", testGoroutines},
		{"SharedGroup", testSharedGroup},
		{"Cancel", testCancel},
		{"CancelOneOfTwo", testCancelOneOfTwo},
		{"Close", testClose},
		{"CloseInFlight", testCloseInFlight},
		{"CloseFile", testCloseFile},
		{"BadRequests", testBadRequests},
		{"NoDevice", testNoDevice},
		{"Open", testOpen},
		{"Stats", testStats},
		{"Registered", testRegistered},
		{"Striped", func(t *testing.T, s iostack.Stack) { testStriped(t, s, copies) }},
		{"Scattered", testScattered},
		{"Sequential", testSequential},
		{"Random", testRandom},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			c.test(t, s)
		})
	}
}

func testOpen(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 5000)
	f := OpenFile(t, s, path)
	if f.Name() != path || f.Size() != int64(len(content)) {
		t.Errorf("Name %q, Size %d, want %q, %d", f.Name(), f.Size(), path, len(content))
	}
	if direct, reason := f.Direct(); direct == (reason != "") {
		t.Errorf("Direct: %v, reason %q", direct, reason)
	}
	if _, err := s.Open(path + ".missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a missing file: %v", err)
	}
	if _, err := s.Open(t.TempDir()); !errors.Is(err, fault.ErrInput) {
		t.Errorf("open a directory: %v", err)
	}
	if caps := s.Caps(); caps.Align < 1 || caps.MaxIO < caps.Align || caps.Depth < 1 {
		t.Errorf("Caps: %+v", caps)
	}
	if s.Name() == "" {
		t.Error("the stack has no name")
	}
}

// testRegistered reads into memory that is registered, partly registered, and unregistered.
func testRegistered(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 200<<10)
	f := OpenFile(t, s, path)
	a := newArena(t, 1<<20)
	var reqs []iostack.Request
	for i := range 20 {
		reqs = append(reqs, iostack.Request{File: f, Offset: int64(i * 9000), Buf: a.buf(i%3, 20000)})
	}
	half := a.mem[:a.used/2+1]
	for name, change := range map[string]func() error{
		"nothing":  func() error { return s.Register(nil, half[:0]) },
		"half":     func() error { return s.Register(half) },
		"twice":    func() error { return s.Register(half, a.mem) },
		"no more":  func() error { return s.Unregister(a.mem, nil) },
		"heap too": func() error { return s.Register(make([]byte, 8192), half) },
	} {
		if err := change(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range reqs {
			clear(r.Buf)
		}
		var g iostack.Group
		submit(t, s, &g, reqs...)
		wait(t, s, &g)
		for _, r := range reqs {
			compare(t, r, content)
		}
		a.check(t)
	}
}

func testStats(t *testing.T, s iostack.Stack) {
	path, _ := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 1<<20)
	before := s.Stats()
	var g iostack.Group
	submit(t, s, &g,
		iostack.Request{File: f, Offset: 0, Buf: a.buf(0, 8192)},
		iostack.Request{File: f, Offset: 9999, Buf: a.buf(0, 1)},
		iostack.Request{File: f, Offset: 4096, Buf: a.buf(3, 100000)})
	wait(t, s, &g)
	done := s.Stats().Sub(before)
	if done.Requests != 3 || done.BytesAsked != 8192+1+100000 {
		t.Errorf("%+v, want 3 requests for %d bytes", done, 8192+1+100000)
	}
	if done.DeviceReads < 1 || done.BytesRead < done.BytesAsked {
		t.Errorf("%+v: less was read than asked", done)
	}
	if done.InFlight <= 0 || done.InFlight != s.Stats().Sub(before).InFlight {
		t.Errorf("%+v: in flight for no time, or still after the last read", done)
	}
	if direct, _ := f.Direct(); direct && done.BytesRead%int64(s.Caps().Align) != 0 {
		t.Errorf("%+v: direct reads of partial pages", done)
	}
}

func testSequential(t *testing.T, s iostack.Stack) {
	ctx := context.Background()
	path, content := WriteFile(t, 1<<20+1)
	second, _ := WriteFile(t, 100)
	empty, _ := WriteFile(t, 0)
	once := driverate.Effort{}
	asked := func(paths []string, e driverate.Effort) int64 {
		t.Helper()
		before := s.Stats()
		rate, err := iostack.Sequential(ctx, s, iostack.Reads{Paths: paths, Bytes: 64 << 10, Depth: 4, Load: e})
		if err != nil || rate.PerSecond <= 0 {
			t.Errorf("rate %+v, %v", rate, err)
		}
		return s.Stats().Sub(before).BytesAsked
	}
	if n, want := asked([]string{path, empty, second}, once), int64(len(content)+100); n != want {
		t.Errorf("%d bytes asked, want %d", n, want)
	}
	// A file is read again until the time is over: a single pass takes less time.
	if n := asked([]string{second}, driverate.Effort{Drain: 2 * time.Millisecond, For: 2 * time.Millisecond}); n <= 400 {
		t.Errorf("%d bytes asked: no more than one pass with four buffers", n)
	}
	before := s.Stats()
	if _, err := iostack.Sequential(ctx, s, iostack.Reads{Paths: []string{path}, Most: 5000, Bytes: 4096, Depth: 2}); err != nil || s.Stats().Sub(before).BytesAsked != 5000 {
		t.Errorf("%d bytes asked of the first 5000, %v", s.Stats().Sub(before).BytesAsked, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := iostack.Sequential(cancelled, s, iostack.Reads{Paths: []string{path}, Bytes: 4096, Depth: 64}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := iostack.Sequential(ctx, s, iostack.Reads{Paths: []string{empty}, Bytes: 4096, Depth: 1}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := iostack.Sequential(ctx, s, iostack.Reads{Bytes: 4096, Depth: 1}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("no file: %v", err)
	}
	if _, err := iostack.Sequential(ctx, s, iostack.Reads{Paths: []string{path}, Depth: 1}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("buffers of no bytes: %v", err)
	}
	if _, err := iostack.Sequential(ctx, s, iostack.Reads{Paths: []string{path, path + ".missing"}, Bytes: 4096, Depth: 1}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func testRandom(t *testing.T, s iostack.Stack) {
	ctx := context.Background()
	path, _ := WriteFile(t, 1<<20+1)
	once := driverate.Effort{}
	before := s.Stats()
	rate, err := iostack.Random(ctx, s, path, 4096, 1, once)
	if err != nil || rate.PerSecond <= 0 {
		t.Errorf("rate %+v, %v", rate, err)
	}
	if done := s.Stats().Sub(before); done.Requests != 256 || done.BytesAsked != 1<<20 {
		t.Errorf("%+v, want each of 256 blocks once", done)
	}
	small, _ := WriteFile(t, 4096)
	before = s.Stats()
	if _, err := iostack.Random(ctx, s, small, 4096, 1, driverate.Effort{For: 2 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if done := s.Stats().Sub(before); done.Requests <= 1 {
		t.Errorf("%+v: a file of one block was not read again", done)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := iostack.Random(cancelled, s, path, 4096, 1, once); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	less, _ := WriteFile(t, 4095)
	if _, err := iostack.Random(ctx, s, less, 4096, 1, once); !errors.Is(err, fault.ErrInput) {
		t.Errorf("less than a block: %v", err)
	}
	before = s.Stats()
	if d, err := iostack.Latency(ctx, s, small, 4096, 1, 3); err != nil || d <= 0 {
		t.Errorf("latency %v, %v", d, err)
	}
	if done := s.Stats().Sub(before); done.Requests != 3 || done.BytesAsked != 3*4096 {
		t.Errorf("%+v, want one block three times", done)
	}
	if _, err := iostack.Latency(cancelled, s, path, 4096, 1, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("latency, cancelled: %v", err)
	}
	if _, err := iostack.Latency(ctx, s, less, 4096, 1, 3); !errors.Is(err, fault.ErrInput) {
		t.Errorf("latency of less than a block: %v", err)
	}
	if _, err := iostack.Random(ctx, s, path, 0, 1, once); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("blocks of no bytes: %v", err)
	}
}
