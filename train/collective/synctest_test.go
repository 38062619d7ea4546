package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"diskgnn/internal/fault"
)

// pipes is a listener within the process. Its connections are net.Pipes, so that the clock of
// testing/synctest is the clock of all limits.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), over: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 29500} }

// connect returns a connection to the listener.
func (l *pipes) connect() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// member is a rank of the run with the limits of every run.
func usual(rank, world int) Member {
	return Member{Rank: rank, World: world, Run: "run", Program: "1", Limits: Usual}
}

// join asks rank 0 for a place, once.
func (l *pipes) join(m Member) (*Group, error) {
	conn, err := l.connect()
	if err != nil {
		return nil, err
	}
	p := newPeer(0, "", conn)
	r, err := (&seeker{member: m}).ask(p)
	if err == nil && r != nil {
		err, _ = r.refusal(&m, "here")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return newGroup(m.Rank, m.World, []*peer{p}, m.Limits), nil
}

// late starts ranks at the given times after rank 0, which begins now. It returns the groups, with nil for
// ranks that did not join, and how long each waited.
func late(l *pipes, world int, after map[int]time.Duration) (groups []*Group, errs []error, ended []time.Duration) {
	began := time.Now()
	groups, errs, ended = make([]*Group, world), make([]error, world), make([]time.Duration, world)
	var wg sync.WaitGroup
	wg.Go(func() {
		groups[0], errs[0] = Listen(context.Background(), usual(0, world), l)
		ended[0] = time.Since(began)
	})
	for rank, wait := range after {
		wg.Go(func() {
			time.Sleep(wait)
			groups[rank], errs[rank] = l.join(usual(rank, world))
			ended[rank] = time.Since(began)
		})
	}
	wg.Wait()
	return groups, errs, ended
}

// TestJoinsLate: ranks may join minutes apart, within ten minutes. Those that wait are not silent, and all
// begin at once.
func TestJoinsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups, errs, ended := late(newPipes(), 3, map[int]time.Duration{1: 20 * time.Second, 2: 9 * time.Minute})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for rank, at := range ended {
			if at != 9*time.Minute {
				t.Errorf("rank %d began after %v", rank, at)
			}
		}
		for rank, err := range each(groups, func(g *Group) error { _, err := g.Gather(nil, 0); return err }) {
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
		closeTogether(groups)
	})
}

// closeTogether closes all groups, each on a goroutine: the ends of a pipe wait for each other.
func closeTogether(groups []*Group) {
	_ = each(groups, func(g *Group) error { g.Close(); return nil })
}

// TestNeverJoins: without the last rank, the run ends after ten minutes to the second, for all.
func TestNeverJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, errs, ended := late(newPipes(), 3, map[int]time.Duration{1: time.Minute})
		if !errors.Is(errs[0], fault.ErrInterrupted) || !strings.Contains(fmt.Sprint(errs[0]), "of the 3 ranks, 2 did not join within 10") || ended[0] != 10*time.Minute {
			t.Errorf("rank 0 after %v: %v", ended[0], errs[0])
		}
		if errs[1] == nil || ended[1] < 10*time.Minute || ended[1] > 10*time.Minute+refusalTime {
			t.Errorf("rank 1 after %v: %v", ended[1], errs[1])
		}
	})
}

// begun returns the groups of a run that has begun.
func begun(t *testing.T, world int) []*Group {
	after := make(map[int]time.Duration)
	for rank := 1; rank < world; rank++ {
		after[rank] = 0
	}
	groups, errs, _ := late(newPipes(), world, after)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return groups
}

// lostAfter waits until every rank in ranks has lost another, and returns when each did.
func lostAfter(groups []*Group, ranks ...int) map[int]time.Duration {
	began := time.Now()
	took := make(map[int]time.Duration)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range ranks {
		wg.Go(func() {
			<-groups[r].Context().Done()
			mu.Lock()
			defer mu.Unlock()
			took[r] = time.Since(began)
		})
	}
	wg.Wait()
	return took
}

// TestCutOff: a host that is cut off neither sends nor receives. Rank 0 names its rank after thirty seconds,
// within a beat, and the other ranks know it at once.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		var dead *peer
		go func() {
			conn, err := l.connect()
			if err != nil {
				return
			}
			dead = newPeer(0, "", conn)
			_, _ = (&seeker{member: usual(1, 3)}).ask(dead)
		}()
		groups, errs, _ := late(l, 3, map[int]time.Duration{2: time.Second})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for r, took := range lostAfter(groups, 0, 2) {
			if took < Usual.Silence-2*Usual.Beat || took > Usual.Silence+2*Usual.Beat {
				t.Errorf("rank %d is told after %v", r, took)
			}
			if err := groups[r].Lost(); !strings.HasPrefix(fmt.Sprint(err), "rank 1 of 3") || !strings.Contains(fmt.Sprint(err), "it sent nothing for 30") {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		dead.conn.Close()
		closeTogether([]*Group{groups[0], groups[2]})
	})
}

// TestWorksLong: work between steps may take any time, and a step a minute: then rank 0 names the rank that it
// waits for. A rank that waits does not name rank 0.
func TestWorksLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := begun(t, 3)
		for _, g := range groups {
			g.prepareAgreement(3)
		}
		step := func(g *Group) error { _, err := g.agree(agreement{}); return err }
		errs := each(groups, func(g *Group) error {
			if g.Rank() == 2 {
				time.Sleep(10 * time.Minute) // judges an epoch
			}
			_, err := g.Gather(nil, 0)
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		errs = each(groups, func(g *Group) error {
			g.Steps(true)
			if g.Rank() == 2 {
				time.Sleep(Usual.Step - time.Second)
			}
			return step(g)
		})
		if err := errors.Join(errs...); err != nil || time.Since(began) != Usual.Step-time.Second {
			t.Fatal(err, time.Since(began))
		}
		errs = each(groups, func(g *Group) error {
			if g.Rank() == 2 { // hangs
				<-g.Context().Done()
				return g.Lost()
			}
			return step(g)
		})
		for rank, err := range errs {
			if !strings.HasPrefix(fmt.Sprint(err), "rank 2 of 3") || !strings.Contains(fmt.Sprint(err), "its step takes longer than") {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
		closeTogether(groups)
	})
}

// stumbling is a listener that fails to accept a number of times before each of its first connections.
type stumbling struct {
	*pipes
	fails []int // by connection
}

func (l *stumbling) Accept() (net.Conn, error) {
	if len(l.fails) > 0 && l.fails[0] > 0 {
		l.fails[0]--
		return nil, errors.New("no descriptor is left")
	}
	c, err := l.pipes.Accept()
	l.fails = l.fails[min(1, len(l.fails)):]
	return c, err
}

// TestAcceptPauses: by hand, rank 0 tries again after 5 ms, then after twice the pause before, at most a second;
// after a connection the pauses begin anew, and so does the report.
func TestAcceptPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stumbling{newPipes(), []int{10, 2}}
		m := usual(0, 3)
		var mu sync.Mutex // two goroutines of Listen make notes
		var said []string
		m.Note = func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf(format, args...))
		}
		groups, errs := make([]*Group, 3), make([]error, 3)
		began := time.Now()
		joined := make([]time.Duration, 3)
		var wg sync.WaitGroup
		wg.Go(func() { groups[0], errs[0] = Listen(context.Background(), m, l) })
		for rank := 1; rank < 3; rank++ {
			conn, err := l.connect()
			if err != nil {
				t.Fatal(err)
			}
			joined[rank] = time.Since(began)
			wg.Go(func() {
				p := newPeer(0, "", conn)
				if _, errs[rank] = (&seeker{member: usual(rank, 3)}).ask(p); errs[rank] == nil {
					groups[rank] = newGroup(rank, 3, []*peer{p}, Usual)
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if want := (5 + 10 + 20 + 40 + 80 + 160 + 320 + 640 + 1000 + 1000) * time.Millisecond; joined[1] != want || joined[2] != want+15*time.Millisecond {
			t.Errorf("%v; want %v, and 15 ms", joined, want)
		}
		if n := strings.Count(strings.Join(said, "\n"), "cannot accept a connection"); n != 2 {
			t.Errorf("said %d times: %q", n, said)
		}
		closeTogether(groups)
	})
}

// TestListensNoLonger: a rank that comes after the end of a group, though rank 0 has yet to close it, finds nobody.
func TestListensNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		groups, errs, _ := late(l, 2, map[int]time.Duration{1: 0})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		groups[0].Fail(errors.New("the disk is full"))
		synctest.Wait()
		select {
		case <-l.over:
		default:
			t.Error("rank 0 listens still")
		}
		closeTogether(groups)
	})
}

// mute is a connection that takes a number of writes, and fails the next ones.
type mute struct {
	net.Conn
	writes int
}

func (c *mute) Write(b []byte) (int, error) {
	if c.writes--; c.writes < 0 {
		return 0, errors.New("no route to host")
	}
	return c.Conn.Write(b)
}

// TestBeginFails: a run does not begin if its last rank cannot be told.
func TestBeginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		var g *Group
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { g, err = Listen(context.Background(), usual(0, 2), l) })
		here, there := net.Pipe()
		l.conns <- &mute{there, 1}
		_, joined := (&seeker{member: usual(1, 2)}).ask(newPeer(0, "", here))
		wg.Wait()
		if lost, ok := errors.AsType[*Lost](err); g != nil || !ok || lost.Rank != 1 || lost.World != 2 {
			t.Errorf("%v, %v", g, err)
		}
		if joined == nil {
			t.Error("the rank has begun")
		}
		here.Close()
	})
}
