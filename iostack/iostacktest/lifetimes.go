package iostacktest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"diskgnn/iostack"
)

// testNothingToRead waits for groups of no requests, and of requests of no bytes.
func testNothingToRead(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 5000)
	f := OpenFile(t, s, path)
	a := newArena(t, 64<<10)
	var g iostack.Group
	wait(t, s, &g)
	wait(t, s, &g)
	submit(t, s, &g)
	wait(t, s, &g)
	submit(t, s, &g, iostack.Request{File: f}, iostack.Request{File: f, Offset: 1 << 40, Buf: a.buf(9, 0)})
	wait(t, s, &g)
	r := iostack.Request{File: f, Offset: 100, Buf: a.buf(0, 4000)}
	submit(t, s, &g, iostack.Request{File: f}, r, iostack.Request{File: f})
	wait(t, s, &g)
	compare(t, r, content)
	a.check(t)

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Wait(cancelled, &g); err != nil {
		t.Errorf("an empty group has nothing to cancel: %v", err)
	}
}

// testManyGroups keeps many groups in flight and waits for the last one first.
func testManyGroups(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 24<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	const groups, each = 100, 8
	var gs [groups]iostack.Group
	var reqs [groups][each]iostack.Request
	for i := range gs {
		for j := range reqs[i] {
			n := 1 + rng.IntN(20000)
			reqs[i][j] = iostack.Request{File: f, Offset: rng.Int64N(int64(len(content) - n)), Buf: a.buf(rng.IntN(4096), n)}
		}
		submit(t, s, &gs[i], reqs[i][:]...)
	}
	for i := groups - 1; i >= 0; i-- {
		wait(t, s, &gs[i])
		for _, r := range reqs[i] {
			compare(t, r, content)
		}
	}
	a.check(t)
}

// testFullQueue submits many times the number of reads that the device takes at once, before any wait.
func testFullQueue(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 64<<10)
	f := OpenFile(t, s, path)
	n := max(4096, 4*s.Caps().Depth)
	mem := make([]byte, 2*n*16)
	var gs [2]iostack.Group
	var reqs [2][]iostack.Request
	for i := range gs {
		for j := range n {
			at := (i*n + j) * 16
			reqs[i] = append(reqs[i], iostack.Request{File: f, Offset: int64(at * 7 % (64<<10 - 16)), Buf: mem[at : at+16]})
		}
		submit(t, s, &gs[i], reqs[i]...)
	}
	for i := range gs {
		wait(t, s, &gs[i])
		for _, r := range reqs[i] {
			compare(t, r, content)
		}
	}
}

// testGoroutines uses the stack from several goroutines, each with a group that it reuses.
func testGoroutines(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	var users sync.WaitGroup
	for user := range 6 {
		a := newArena(t, 1<<20)
		users.Go(func() {
			e := &reporter{T: t}
			rng := rand.New(rand.NewPCG(uint64(user), 0))
			var g iostack.Group
			for range 20 {
				a.reset()
				var reqs []iostack.Request
				for range 8 {
					n := 1 + rng.IntN(30000)
					reqs = append(reqs, iostack.Request{File: f, Offset: rng.Int64N(int64(len(content) - n)), Buf: a.buf(rng.IntN(4096), n)})
				}
				submit(e, s, &g, reqs...)
				wait(e, s, &g)
				for _, r := range reqs {
					compare(e, r, content)
				}
				a.check(e)
			}
		})
	}
	users.Wait()
}

// reporter is a testing.T for goroutines other than the test's: failures do not end the goroutine.
type reporter struct{ *testing.T }

func (r *reporter) Fatalf(format string, args ...any) {
	r.Helper()
	r.Errorf(format, args...)
}

// testSharedGroup submits to one group from several goroutines.
func testSharedGroup(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 256<<10)
	f := OpenFile(t, s, path)
	a := newArena(t, 4<<20)
	var (
		g     iostack.Group
		reqs  [8][16]iostack.Request
		users sync.WaitGroup
	)
	for i := range reqs {
		for j := range reqs[i] {
			reqs[i][j] = iostack.Request{File: f, Offset: int64(i*16+j) * 1000, Buf: a.buf(j, 5000)}
		}
	}
	for i := range reqs {
		users.Go(func() {
			for j := range reqs[i] {
				submit(&reporter{T: t}, s, &g, reqs[i][j])
			}
		})
	}
	users.Wait()
	wait(t, s, &g)
	for i := range reqs {
		for _, r := range reqs[i] {
			compare(t, r, content)
		}
	}
	a.check(t)
}

// testCancel waits under a context that has ended. All reads must be over when Wait returns: the test then
// changes the buffers, and checks them after closing the stack.
func testCancel(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 4<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 72<<20)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var g iostack.Group
	var reqs []iostack.Request
	for i := range 16 {
		reqs = append(reqs, iostack.Request{File: f, Buf: a.buf(i%2, len(content))})
	}
	var err error
	for range 100 { // on a busy machine all reads may land before Wait looks
		submit(t, s, &g, reqs...)
		if err = s.Wait(ctx, &g); err != nil {
			break
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait: %v, want it to wrap context.Canceled", err)
	}
	a.reset()

	mem := make([]byte, 10000)
	again := iostack.Request{File: f, Offset: 77, Buf: mem}
	submit(t, s, &g, again)
	wait(t, s, &g)
	compare(t, again, content)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	a.check(t)
}

// testCancelOneOfTwo cancels one group; the other must succeed.
func testCancelOneOfTwo(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 48<<20)
	ctx, cancel := context.WithCancel(context.Background())
	var keep, give iostack.Group
	var kept []iostack.Request
	for i := range 20 {
		kept = append(kept, iostack.Request{File: f, Buf: a.buf(i, len(content))})
		submit(t, s, &keep, kept[i])
		submit(t, s, &give, iostack.Request{File: f, Buf: a.buf(0, len(content))})
	}
	cancel()
	if err := s.Wait(ctx, &give); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("the group given up: %v", err)
	}
	wait(t, s, &keep)
	for _, r := range kept {
		compare(t, r, content)
	}
	a.check(t)
}

// testClose closes twice and uses the stack after.
func testClose(t *testing.T, s iostack.Stack) {
	path, _ := WriteFile(t, 5000)
	f := OpenFile(t, s, path)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var g iostack.Group
	for _, reqs := range [][]iostack.Request{{{File: f, Buf: make([]byte, 10)}}, {{File: f}}, nil} {
		if err := s.Submit(&g, reqs); !errors.Is(err, iostack.ErrClosed) {
			t.Errorf("Submit of %d requests after Close: %v", len(reqs), err)
		}
	}
	wait(t, s, &g)
	if _, err := s.Open(path); !errors.Is(err, iostack.ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
	s.Stats()
}

// testCloseInFlight closes with reads in flight. Each group ends, complete or with ErrClosed, and no buffer
// is written after Close.
func testCloseInFlight(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 48<<20)
	var gs [40]iostack.Group
	var reqs [len(gs)]iostack.Request
	for i := range gs {
		reqs[i] = iostack.Request{File: f, Buf: a.buf(i, len(content))}
		submit(t, s, &gs[i], reqs[i])
	}
	var closers sync.WaitGroup
	for range 2 {
		closers.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	closers.Wait()
	seen := bytes.Clone(a.mem)
	for i := range gs {
		err := s.Wait(context.Background(), &gs[i])
		switch {
		case err == nil:
			compare(t, reqs[i], content)
		case !errors.Is(err, iostack.ErrClosed):
			t.Errorf("group %d: %v", i, err)
		}
	}
	if !bytes.Equal(a.mem, seen) {
		t.Error("a buffer was written after Close")
	}
	a.check(t)
}

// testCloseFile reads from a file that is closed, or being closed.
func testCloseFile(t *testing.T, s iostack.Stack) {
	path, content := WriteFile(t, 1<<20)
	f := OpenFile(t, s, path)
	a := newArena(t, 40<<20)
	var g iostack.Group
	var reqs []iostack.Request
	for i := range 32 {
		reqs = append(reqs, iostack.Request{File: f, Buf: a.buf(i, len(content))})
	}
	submit(t, s, &g, reqs...)
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(context.Background(), &g); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file was closed in flight: %v", err)
	}
	submit(t, s, &g, reqs[3])
	if err := s.Wait(context.Background(), &g); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is closed: %v", err)
	}
	a.check(t)
}
