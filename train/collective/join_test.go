package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"diskgnn/internal/fault"
)

// What cannot be a rank of the run is refused in one message, and ends the waiting of all.
func TestRefusals(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Member)
		want   []string // by rank
	}{
		"another world": {func(m *Member) {
			if m.Rank == 1 {
				m.World = 4
			}
		}, []string{"rank 1 (", "rank 1 of 4 was refused by rank 0", "refused"}},
		"another program": {func(m *Member) {
			if m.Rank == 2 {
				m.Program = "2"
			}
		}, []string{"it is version 2 of the program, rank 0 is 1", "refused", "it is version 2 of the program, rank 0 is 1"}},
	} {
		_, errs := tryJoin(t, 3, c.change)
		for rank, err := range errs {
			if !errors.Is(err, fault.ErrUsage) || !strings.Contains(fmt.Sprint(err), c.want[rank]) || strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("%s: rank %d: %v", what, rank, err)
			}
		}
	}
}

// A rank that comes while another process has its place is told so, and goes on looking: it gets in
// once the group that it was too late for has ended, and another begins at the same address.
func TestTooLate(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	member := func(rank int) Member {
		return Member{Rank: rank, World: 2, Run: "run", Program: "1", Limits: quick}
	}
	groups := make([]*Group, 2)
	var joined [2]error
	var wg sync.WaitGroup
	wg.Go(func() { groups[0], joined[0] = Listen(ctx, member(0), l) })
	wg.Go(func() { groups[1], joined[1] = Dial(ctx, member(1), []string{address}) })
	wg.Wait()
	if err := errors.Join(joined[:]...); err != nil {
		t.Fatal(err)
	}

	waits := make(chan string, 8)
	late := member(1)
	late.Note = func(format string, args ...any) { waits <- fmt.Sprintf(format, args...) }
	second := make([]*Group, 2)
	wg.Go(func() { second[1], joined[1] = Dial(ctx, late, []string{address}) })
	<-waits // looks for rank 0
	if note := <-waits; !strings.Contains(note, "its place is taken: the run began before, with all of its ranks") {
		t.Error(note)
	}
	for _, err := range each(groups, func(g *Group) error { _, err := g.Broadcast(nil); return err }) {
		if err != nil {
			t.Error(err) // the run goes on without it
		}
	}
	closeAll(groups)
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() { second[0], joined[0] = Listen(ctx, member(0), again) })
	wg.Wait()
	if err := errors.Join(joined[:]...); err != nil {
		t.Fatal(err)
	}
	if len(waits) > 0 {
		t.Errorf("told twice: %s", <-waits)
	}
	closeAll(second)
}

// When rank 0 ends while it waits, a rank that is there ends so that it can be resumed, and one
// whose place it had does not end.
func TestDismissed(t *testing.T) {
	l := listen(t)
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if g, err := Listen(stop, Member{World: 3, Run: "run", Program: "1", Limits: quick}, l); g != nil || !strings.Contains(fmt.Sprint(err), "enough") {
			t.Error(g, err)
		}
	})
	waits := make(chan int, 2)
	var errs [2]error
	var leave [2]context.CancelFunc
	for i := range errs {
		m := Member{Rank: 1, World: 3, Run: "run", Program: "1", Limits: quick}
		m.Note = func(format string, args ...any) {
			if strings.Contains(fmt.Sprintf(format, args...), "rank 1 of the run is there already, at 127.0.0.1:") {
				waits <- i
			}
		}
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		leave[i] = cancel
		wg.Go(func() { _, errs[i] = Dial(own, m, []string{l.Addr().String()}) })
	}
	second := <-waits
	cancel(fault.New(fault.ErrInterrupted, "enough"))
	leave[second]()
	wg.Wait()
	if err := errs[1-second]; !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "was refused by rank 0 at") || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
	if err := errs[second]; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A rank whose place stays taken ends so that it can be resumed, and says why it did not get in.
func TestStaysTaken(t *testing.T) {
	l := listen(t)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var g greeting
			if err := readJSON(conn, hello, &g); err != nil {
				conn.Close()
				continue
			}
			newPeer(1, "", conn).refuse(refused{Why: "somebody has it", Later: true})
		}
	}()
	limits := quick
	limits.Join = time.Second
	_, err := Dial(ctx, Member{Rank: 1, World: 2, Limits: limits}, []string{l.Addr().String()})
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "within 1.00 s: its place is taken: somebody has it") {
		t.Error(err)
	}
}

// A rank looks past another run's listener, and past what is no rank at all.
func TestFindsItsRun(t *testing.T) {
	other, own, silent := listen(t), listen(t), listen(t)
	defer silent.Close()
	limits := quick
	limits.Silence = 20 * time.Millisecond // for an answer
	go func() {
		for {
			conn, err := silent.Accept() // and says nothing
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	stop, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if g, err := Listen(stop, Member{World: 2, Run: "other", Program: "1", Limits: quick}, other); g != nil || !errors.Is(err, context.Canceled) {
			t.Error(g, err)
		}
	})
	groups := make([]*Group, 2)
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() {
		groups[0], errs[0] = Listen(ctx, Member{World: 2, Run: "run", Program: "1", Limits: quick}, own)
	})
	both.Go(func() {
		addresses := []string{silent.Addr().String(), other.Addr().String(), own.Addr().String()}
		groups[1], errs[1] = Dial(ctx, Member{Rank: 1, World: 2, Run: "run", Program: "1", Limits: limits}, addresses)
	})
	both.Wait()
	cancel()
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	closeAll(groups)
}

// Ranks that do not come are named when the time is over; and a signal ends the waiting.
func TestNobodyComes(t *testing.T) {
	limits := quick
	limits.Join = time.Millisecond
	_, err := Listen(ctx, Member{World: 3, Limits: limits}, listen(t))
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "of the 3 ranks, 1, 2 did not come") {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = Dial(ctx, Member{Rank: 1, World: 3, Limits: limits}, []string{l.Addr().String()})
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "rank 0 was not found at") {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Dial(ended, Member{Rank: 1, World: 3, Limits: quick}, []string{l.Addr().String()}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
