package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"diskgnn/device"
	"diskgnn/train/engine"
)

// onDevice is an engine of a device that notes what it is told.
type onDevice struct {
	engine.Engine
	notes []string
}

func (o *onDevice) note(format string, args ...any) error {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
	return nil
}

func (o *onDevice) Share(first int) error { return o.note("from %d on", first) }
func (o *onDevice) Apply() error          { return o.note("apply") }
func (o *onDevice) Reduce(ctx context.Context, r engine.Reducer, labelled int64, batches int) error {
	_ = o.note("%d seed nodes, %d batches", labelled, batches)
	return r.AllReduce(ctx, nil, device.Buffer{})
}

// link is a communicator that does nothing, or fails, and knows when it was given up.
type link struct {
	mu     sync.Mutex
	fails  error
	known  error
	lost   error
	ended  chan struct{}
	closed bool
}

func (l *link) AllReduce(context.Context, device.Stream, device.Buffer) error { return l.fails }
func (l *link) Check() error                                                  { return l.known }
func (l *link) Close(context.Context) error                                   { l.closed = true; return nil }
func (l *link) Abort(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = why
	close(l.ended)
}

func newLink() *link { return &link{ended: make(chan struct{})} }

// TestDevices: what all ranks have of a step reaches every engine, of which the second has no
// batch in the last step.
func TestDevices(t *testing.T) {
	groups := Local(2, quick)
	defer closeAll(groups)
	engines := []*onDevice{{}, {}}
	links := []*link{newLink(), newLink()}
	for _, err := range each(groups, func(g *Group) error {
		e := engines[g.Rank()]
		d, err := NewDevices(g, links[g.Rank()], e, 4, 2)
		if err != nil {
			return err
		}
		defer d.Close()
		if _, err := g.Gather(nil, 0); err != nil { // all are ready
			return err
		}
		if _, err := g.Broadcast(nil, 0); err != nil {
			return err
		}
		for step, batches := range []int{2, 2 - 2*g.Rank()} {
			for k := range batches {
				if err := d.Add(e, 10*step+k+1); err != nil {
					return err
				}
			}
			ask := Signals(0)
			if step == 1 && g.Rank() == 1 {
				ask = Stop
			}
			if got, err := d.Step(e, ask); err != nil || got != Signals(step)*Stop {
				return fmt.Errorf("step %d of rank %d: %v, %w", step, g.Rank(), got, err)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	for rank, e := range engines {
		want := fmt.Sprintf("from %d on; 6 seed nodes, 4 batches; apply; 23 seed nodes, 2 batches; apply", 2*rank)
		if got := strings.Join(e.notes, "; "); got != want {
			t.Errorf("rank %d: %s, want %s", rank, got, want)
		}
		if links[rank].lost != nil {
			t.Errorf("rank %d: given up: %v", rank, links[rank].lost)
		}
	}
}

// TestDevicesLost: a rank that ends gives the others' communicators up, which so do not wait for
// its device; what they return names it. A communicator that fails ends the step.
func TestDevicesLost(t *testing.T) {
	groups := Local(2, quick)
	defer closeAll(groups)
	l := newLink()
	e := &onDevice{}
	d, err := NewDevices(groups[0], l, e, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	died := errors.New("out of memory")
	groups[1].Fail(died)
	<-l.ended
	if !strings.Contains(l.lost.Error(), "rank 1") {
		t.Errorf("given up: %v", l.lost)
	}
	_, err = d.Step(e, 0)
	if lost, ok := errors.AsType[*Lost](err); !ok || lost.Rank != 1 || len(e.notes) > 1 {
		t.Errorf("%v, %v", err, e.notes)
	}

	for _, known := range []bool{false, true} {
		groups := Local(1, quick)
		boom := errors.New("boom")
		l := newLink()
		if l.fails = boom; known {
			l.known = boom
		}
		e := &onDevice{}
		d, err := NewDevices(groups[0], l, e, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Add(e, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Step(e, 0); !errors.Is(err, boom) || strings.Contains(fmt.Sprint(e.notes), "apply") {
			t.Errorf("known %t: %v, %v", known, err, e.notes)
		}
		d.Close()
		closeAll(groups)
		if l.lost != nil {
			t.Errorf("given up after the end: %v", l.lost)
		}
	}
	groups = Local(1, quick)
	defer closeAll(groups)
	if _, err := NewDevices(groups[0], newLink(), &adder{}, 2, 2); err == nil {
		t.Error("an engine that has no sums on a device")
	}
}

// A run with one replica has its engine's step, and where nothing is computed none.
func TestAlone(t *testing.T) {
	e := &onDevice{}
	for _, err := range []error{Alone{}.Add(e, 3), Alone{}.Add(nil, 3)} {
		if err != nil {
			t.Error(err)
		}
	}
	if got, err := (Alone{}).Step(e, Save); got != Save || err != nil || strings.Join(e.notes, "; ") != "apply" {
		t.Errorf("%v, %v, %v", got, err, e.notes)
	}
	if got, err := (Alone{}).Step(nil, Stop); got != Stop || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
