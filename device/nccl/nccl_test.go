package nccl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/fault"
)

// TestJoinAndSum: the calls of a communicator that nothing befalls.
func TestJoinAndSum(t *testing.T) {
	f := &fake{number: 23007, joined: InProgress, states: []Status{InProgress, InProgress, Success}}
	l, err := checked(f)
	if err != nil || l.String() != "NCCL 2.30.7 (libfake.so)" {
		t.Fatalf("%v, %v", l, err)
	}
	f.joined = Success
	id, err := l.NewID()
	if err != nil {
		t.Fatal(err)
	}
	f.joined = InProgress
	c, err := l.Join(t.Context(), id, 2, 1, Options{Clock: new(ticking)})
	if err != nil || c.Rank() != 1 || c.World() != 2 {
		t.Fatal(err)
	}
	if want := (config{size: 24, magic: 0xcafebeef, version: 21400}); f.config != want {
		t.Errorf("joined with %+v, want %+v", f.config, want)
	}
	s, x := stream(t, 4000)
	if err := errors.Join(c.AllReduce(t.Context(), s, x), c.Broadcast(t.Context(), s, x.Slice(0, 10), 0)); err != nil {
		t.Fatal(err)
	}
	if want := []int{1000, -10}; !slices.Equal(f.reduced, want) {
		t.Errorf("%v, want %v", f.reduced, want)
	}
	left := 3
	if err := c.Wait(t.Context(), "sum", func() (bool, error) { left--; return left == 0, nil }); err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil || f.freed != 1 || f.aborted != 0 {
		t.Errorf("%v, freed %d times, aborted %d times", err, f.freed, f.aborted)
	}
	if err := c.AllReduce(t.Context(), s, x); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("after the end: %v", err)
	}
}

// joined returns a rank of a communicator of the library.
func joined(t *testing.T, f *fake, clock Clock) *Comm {
	t.Helper()
	was := *f
	f.joined, f.states = Success, []Status{Success}
	l, err := checked(f)
	if err != nil {
		t.Fatal(err)
	}
	id, err := l.NewID()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Join(t.Context(), id, 2, 0, Options{Patience: time.Minute, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	f.joined, f.states = was.joined, was.states
	return c
}

// TestNothingWaitsForever: a collective that never ends, and a rank that never joins, are given
// up when the patience ends, and not before.
func TestNothingWaitsForever(t *testing.T) {
	never := func() (bool, error) { return false, nil }
	for what, do := range map[string]func(c *Comm) error{
		"sum":        func(c *Comm) error { return c.Wait(t.Context(), "sum", never) },
		"all-reduce": func(c *Comm) error { s, x := stream(t, 4); return c.AllReduce(t.Context(), s, x) },
		"broadcast":  func(c *Comm) error { s, x := stream(t, 4); return c.Broadcast(t.Context(), s, x, 1) },
		"close":      func(c *Comm) error { return c.Close(t.Context()) },
	} {
		f, clock := hanging(), new(ticking)
		c := joined(t, f, clock)
		began := clock.now
		err := do(c)
		if !errors.Is(err, ErrDeadline) || !errors.Is(err, fault.ErrDevice) || !strings.Contains(err.Error(), "NCCL: "+what+": nothing came within the time given (1m0s)") {
			t.Errorf("%s: %v", what, err)
		}
		if waited := clock.now.Sub(began); waited <= time.Minute || waited > time.Minute+2*time.Millisecond || f.aborted != 1 {
			t.Errorf("%s: given up after %v, aborted %d times", what, waited, f.aborted)
		}
		if again := c.Wait(t.Context(), "again", never); again == nil || again.Error() != err.Error() || f.aborted != 1 {
			t.Errorf("%s, again: %v, aborted %d times", what, again, f.aborted)
		}
	}
	f := hanging()
	l, _ := checked(f)
	if _, err := l.Join(t.Context(), ID{0: 1, 127: 2}, 2, 0, Options{Clock: new(ticking)}); !errors.Is(err, ErrDeadline) || !strings.Contains(err.Error(), "join as rank 0 of 2: nothing came within the time given (2m0s)") || f.aborted != 1 {
		t.Errorf("join: %v", err)
	}
}

// TestErrorsOfOthers: what fails on another rank ends what waits on this one, by name.
func TestErrorsOfOthers(t *testing.T) {
	f := peaceful()
	f.states, f.text = []Status{Success, Success, RemoteError}, "socket closed by remote peer"
	c := joined(t, f, new(ticking))
	err := c.Wait(t.Context(), "sum", func() (bool, error) { return false, nil })
	if !errors.Is(err, RemoteError) || err.Error() != "NCCL: sum: ncclRemoteError (socket closed by remote peer)" || f.aborted != 1 {
		t.Errorf("%v, aborted %d times", err, f.aborted)
	}
	s, x := stream(t, 4)
	if again := c.AllReduce(t.Context(), s, x); again != err || len(f.reduced) != 0 {
		t.Errorf("again: %v", again)
	}
}

// TestEveryStatus: what a call returns is named, and gives the communicator up.
func TestEveryStatus(t *testing.T) {
	for s, name := range map[Status]string{
		1: "ncclUnhandledCudaError", 2: "ncclSystemError", 3: "ncclInternalError", 4: "ncclInvalidArgument", 5: "ncclInvalidUsage",
		6: "ncclRemoteError", 8: "ncclTimeout", 9: "status 9", -1: "status -1",
	} {
		says := func(err error) bool { return errors.Is(err, s) && strings.Contains(err.Error(), ": "+name) }
		f := peaceful()
		f.joined = s
		l, _ := checked(f)
		if _, err := l.NewID(); !says(err) {
			t.Errorf("id: %v", err)
		}
		if _, err := l.Join(t.Context(), ID{0: 1, 127: 2}, 2, 0, Options{}); !says(err) {
			t.Errorf("join: %v", err)
		}
		f = peaceful()
		c := joined(t, f, nil)
		f.given = s
		st, x := stream(t, 4)
		if err := c.AllReduce(t.Context(), st, x); !says(err) || f.aborted != 1 {
			t.Errorf("all-reduce: %v", err)
		}
		f = peaceful()
		c = joined(t, f, nil)
		f.asked = s
		if err := c.Wait(t.Context(), "sum", func() (bool, error) { return false, nil }); !says(err) || f.aborted != 1 {
			t.Errorf("asking: %v", err)
		}
		f = peaceful()
		c = joined(t, f, nil)
		f.given = s
		if err := c.Close(t.Context()); !says(err) || f.aborted != 1 {
			t.Errorf("close: %v", err)
		}
	}
}

// TestCancel: a context that ends, another goroutine's Abort and what done returns end waiting.
func TestCancel(t *testing.T) {
	f := hanging()
	c := joined(t, f, new(ticking))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Wait(ctx, "sum", func() (bool, error) { cancel(); return false, nil })
	if !fault.EndedBy(ctx, err) || f.aborted != 1 {
		t.Errorf("cancelled: %v", err)
	}
	f = hanging()
	c = joined(t, f, new(ticking))
	died, at := errors.New("rank 1 died"), 0
	err = c.Wait(t.Context(), "sum", func() (bool, error) {
		if at++; at == 5 {
			c.Abort(died)
		}
		return false, nil
	})
	if !errors.Is(err, died) || f.aborted != 1 {
		t.Errorf("aborted: %v", err)
	}
	c.Abort(errors.New("later"))
	if c.Close(t.Context()) != err || f.aborted != 1 {
		t.Error("the first reason does not stay")
	}
	f = peaceful()
	c = joined(t, f, nil)
	boom := errors.New("boom")
	if err := c.Wait(t.Context(), "sum", func() (bool, error) { return false, boom }); !errors.Is(err, boom) || f.aborted != 1 {
		t.Errorf("the event's error: %v", err)
	}
	l, _ := checked(peaceful())
	for _, r := range [][2]int{{0, 0}, {2, 2}, {2, -1}} {
		if _, err := l.Join(t.Context(), ID{}, r[0], r[1], Options{}); err == nil {
			t.Errorf("rank %d of %d", r[1], r[0])
		}
	}
}

// TestVersions: older libraries are refused by name; numbers changed their form with 2.9.
func TestVersions(t *testing.T) {
	for number, name := range map[int32]string{2804: "2.8.4", 21403: "2.14.3", 22303: "2.23.3"} {
		if _, err := checked(&fake{number: number}); !errors.Is(err, ErrNoLibrary) || !strings.HasPrefix(err.Error(), "NCCL "+name+" (libfake.so) is too old: 2.23.4 or later") {
			t.Errorf("%d: %v", number, err)
		}
	}
	if _, err := checked(&fake{number: 22304}); err != nil {
		t.Error(err)
	}
}
