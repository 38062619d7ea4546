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

// A rank that comes twice, and one that comes when the run has begun, are refused, and the run
// goes on without them.
func TestTooLate(t *testing.T) {
	l := listen(t)
	member := func(rank int) Member {
		return Member{Rank: rank, World: 2, Run: "run", Program: "1", Limits: quick}
	}
	groups := make([]*Group, 2)
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { groups[0], errs[0] = Listen(ctx, member(0), l) })
	wg.Go(func() { groups[1], errs[1] = Dial(ctx, member(1), []string{l.Addr().String()}) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	defer closeAll(groups)
	_, err := Dial(ctx, member(1), []string{l.Addr().String()})
	if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "the run began before, with all of its ranks") {
		t.Error(err)
	}
	for _, err := range each(groups, func(g *Group) error { _, err := g.Broadcast(nil); return err }) {
		if err != nil {
			t.Error(err)
		}
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
