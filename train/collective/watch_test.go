package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// By hand: a step may take a minute, or twenty times the median of the latest.
func TestWatch(t *testing.T) {
	began := time.Unix(1000, 0)
	w := newWatch(Usual)
	if got := w.late(began.Add(time.Hour)); got != "" {
		t.Error("nobody is waited for:", got)
	}
	w.waiting, w.since = 2, began
	late := func(after time.Duration) bool { return w.late(began.Add(after)) != "" }
	if late(time.Minute) || !late(time.Minute+1) {
		t.Error("the first step may take a minute")
	}
	for _, s := range []int{1, 2, 90} {
		w.stepped(time.Duration(s) * time.Second)
	}
	if late(time.Minute) || !late(time.Minute+1) {
		t.Error("twenty times a median of two seconds is less than a minute")
	}
	w.stepped(10 * time.Second)
	w.stepped(10 * time.Second)
	if late(200*time.Second) || !late(200*time.Second+1) {
		t.Error("the median is ten seconds")
	}
	for range medianOf {
		w.stepped(time.Second)
	}
	if len(w.took) != medianOf || !late(time.Minute+1) {
		t.Error("old steps count")
	}
	if w.silent(began, began.Add(30*time.Second)) != "" || w.silent(began, began.Add(30*time.Second+1)) == "" {
		t.Error("silence")
	}
}

// A rank whose step never ends, though it is there, is named to all others; one that waits for
// rank 0, which does something else than steps, is patient.
func TestHang(t *testing.T) {
	limits := quick
	limits.Step = 20 * time.Millisecond
	groups := join(t, 3, func(m *Member) {
		if m.Rank == 0 { // the others would name rank 0, but later
			m.Limits = limits
		}
	})
	defer closeAll(groups)
	l := layouts["plain"]
	for _, g := range groups {
		NewOrdered(g, &l, 3, 1)
		g.Steps(true)
	}
	errs := each(groups, func(g *Group) error {
		if g.Rank() == 2 { // hangs until it hears that it is lost
			<-g.Context().Done()
			return g.Lost()
		}
		_, err := g.agree(agreement{})
		return err
	})
	for rank, err := range errs {
		if err == nil || !strings.HasPrefix(err.Error(), "rank 2 of 3 (") || !strings.Contains(err.Error(), "its step takes longer than") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestPatience(t *testing.T) {
	limits := quick
	limits.Step = 10 * time.Millisecond
	groups := join(t, 2, func(m *Member) { m.Limits = limits })
	defer closeAll(groups)
	for _, g := range groups {
		g.prepareAgreement(1)
	}
	groups[1].Steps(true)
	beats := make(chan struct{})
	errs := each(groups, func(g *Group) error {
		if g.Rank() == 1 {
			go func() { // until many beats of rank 0 came: far more than a step may take
				defer close(beats)
				last, n := int64(0), 0
				for n < 20 {
					if now := g.peers[0].heard.Load(); now != last {
						last, n = now, n+1
					}
				}
			}()
			_, err := g.agree(agreement{})
			return err
		}
		<-beats
		_, err := g.agree(agreement{})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// A rank that says nothing any more, as on a host that is cut off, is named.
func TestSilence(t *testing.T) {
	groups := join(t, 3, func(m *Member) {
		if m.Rank == 0 {
			m.Limits.Silence = 50 * time.Millisecond
		}
		if m.Rank == 1 {
			m.Limits.Beat = time.Hour
		}
	})
	defer closeAll(groups)
	errs := each(groups, func(g *Group) error {
		<-g.Context().Done()
		return g.Lost()
	})
	for rank, err := range errs {
		if err == nil || !strings.Contains(fmt.Sprint(err), "rank 1 of 3") || !strings.Contains(err.Error(), "it sent nothing for") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
