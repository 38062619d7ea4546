package collective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/secret"
)

// A process that cannot be a rank of the run is refused, once, with the reason; the others go on
// waiting for the rank that it said to be.
func TestRefusals(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Member)
		want   string
	}{
		"another world":   {func(m *Member) { m.World = 4 }, "it was started for 4 ranks, rank 0 for 3"},
		"another program": {func(m *Member) { m.Program = "2" }, "it runs the program 2, rank 0 runs 1"},
		"no such rank":    {func(m *Member) { m.Rank, m.World = 3, 4 }, "it was started for 4 ranks, rank 0 for 3"},
	} {
		w := newWaiting(t, 3)
		wrong := w.member(1)
		c.change(&wrong)
		_, err := Dial(ctx, wrong, w.addresses)
		if want := fmt.Sprintf("rank %d of %d was refused by rank 0 at %s: %s", wrong.Rank, wrong.World, w.addresses[0], c.want); !errors.Is(err, fault.ErrUsage) || fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
		w.dial(1)
		w.dial(2)
		w.together(t)
		if !strings.Contains(w.notes(), "cannot join the run of 3 ranks: "+c.want) {
			t.Errorf("%s: rank 0 says\n%s", what, w.notes())
		}
	}
}

// Who was refused is named with the reason, where the rank never comes.
func TestRefusedAndMissing(t *testing.T) {
	limits := quick
	limits.Join = time.Second
	l := listen(t)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = Listen(ctx, Member{World: 3, Run: "run", Program: "1", Limits: limits}, l) })
	_, refused := Dial(ctx, Member{Rank: 2, World: 3, Run: "run", Program: "2", Limits: quick}, []string{l.Addr().String()})
	wg.Wait()
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(fmt.Sprint(err), "of the 3 ranks, 1, 2 (refused: it runs the program 2, rank 0 runs 1) did not join within 1.00 s") || refused == nil {
		t.Error(err, refused)
	}
}

// waiting is a run whose rank 0 waits for the others.
type waiting struct {
	world     int
	secret    secret.Secret
	addresses []string
	groups    []*Group
	errs      []error
	wg        sync.WaitGroup

	mu   sync.Mutex
	said []string      // by rank 0
	more chan struct{} // it said something
}

func newWaiting(t *testing.T, world int, change ...func(*Member)) *waiting {
	t.Helper()
	return newWaitingAt(listen(t), world, change...)
}

func newWaitingAt(l net.Listener, world int, change ...func(*Member)) *waiting {
	w := &waiting{world: world, addresses: []string{l.Addr().String()}, groups: make([]*Group, world), errs: make([]error, world), more: make(chan struct{}, 100)}
	m := w.member(0)
	m.Note = func(format string, args ...any) {
		w.mu.Lock()
		w.said = append(w.said, fmt.Sprintf(format, args...))
		w.mu.Unlock()
		w.more <- struct{}{}
	}
	for _, c := range change {
		c(&m)
	}
	w.secret = m.Secret
	w.wg.Go(func() { w.groups[0], w.errs[0] = Listen(ctx, m, l) })
	return w
}

func (w *waiting) member(rank int) Member {
	return Member{Rank: rank, World: w.world, Run: "run", Program: "1", Secret: w.secret, Limits: quick}
}

// dial has a rank join, some time.
func (w *waiting) dial(rank int) {
	m := w.member(rank)
	w.wg.Go(func() { w.groups[rank], w.errs[rank] = Dial(ctx, m, w.addresses) })
}

func (w *waiting) notes() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, "\n")
}

// until waits for rank 0 to say something.
func (w *waiting) until(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(w.notes(), text) {
		select {
		case <-w.more:
		case <-time.After(time.Minute):
			t.Fatalf("rank 0 has not said %q, but\n%s", text, w.notes())
		}
	}
}

// together ends a run whose ranks are all there, after a call of all.
func (w *waiting) together(t *testing.T) {
	t.Helper()
	w.wg.Wait()
	if err := errors.Join(w.errs...); err != nil {
		t.Fatal(err)
	}
	for rank, err := range each(w.groups, func(g *Group) error { _, err := g.Gather(nil, 0); return err }) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	closeAll(w.groups)
}

// knock is a connection that says hello as a rank, and was let in.
func (w *waiting) knock(t *testing.T, rank int) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", w.addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	m := w.member(rank)
	p := newPeer(0, "", conn)
	b, err := json.Marshal(m.greeting())
	if err == nil {
		err = p.send(hello, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if h, err := readHeader(conn); err != nil || h.kind != welcome {
		t.Fatalf("%+v, %v", h, err)
	}
	return p
}

// A rank that dies while others are still missing loses its place at once, and its replacement
// takes it; so does one that says what has no place there, and one that says nothing at all.
func TestReplaced(t *testing.T) {
	for what, c := range map[string]struct {
		end   func(p *peer)
		why   string
		quiet bool
	}{
		"killed":  {func(p *peer) { p.conn.Close() }, "its connection closed without notice", false},
		"garbage": {func(p *peer) { _, _ = p.conn.Write([]byte(strings.Repeat("garbage ", 9))) }, "does not begin a frame of this version", false},
		"early":   {func(p *peer) { _ = p.send(message, make([]byte, 8)) }, "a frame of kind 4 arrived before the run began", false},
		"silent":  {func(*peer) {}, "it sent nothing for", true},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWaiting(t, 3, func(m *Member) {
				if c.quiet {
					m.Limits.Silence = 100 * time.Millisecond
				}
			})
			first := w.knock(t, 1)
			defer first.conn.Close()
			c.end(first)
			w.until(t, "rank 1 of 3 (127.0.0.1:")
			w.until(t, c.why)
			w.dial(1)
			w.dial(2)
			w.together(t)
			if n := strings.Count(w.notes(), "has gone before the run began"); n != 1 {
				t.Errorf("%d ranks have gone:\n%s", n, w.notes())
			}
		})
	}
}

// Ranks that wait for others hear of rank 0 meanwhile, and it of them: neither is silent.
func TestWaitingIsNotSilence(t *testing.T) {
	w := newWaiting(t, 3)
	p := w.knock(t, 1)
	defer p.conn.Close()
	for range 3 {
		h, err := readHeader(p.conn)
		if err != nil || h.kind != beat {
			t.Fatalf("%+v, %v", h, err)
		}
		if _, err := h.readPayload(p.conn); err != nil {
			t.Fatal(err)
		}
	}
	p.conn.Close()
	w.until(t, "has gone")

	l := listen(t)
	defer l.Close()
	heard := make(chan error)
	go func() { // a rank 0 that counts the beats of a rank
		conn, err := l.Accept()
		if err != nil {
			heard <- err
			return
		}
		defer conn.Close()
		p := newPeer(1, "", conn)
		if err = readJSON(conn, hello, new(greeting)); err == nil {
			err = p.send(welcome)
		}
		for range 3 {
			h, e := readHeader(conn)
			if e == nil && h.kind != beat {
				e = fmt.Errorf("%+v", h)
			}
			if e == nil {
				_, e = h.readPayload(conn)
			}
			err = errors.Join(err, e)
		}
		p.refuse(refused{Why: "enough", Ended: true})
		heard <- err
	}()
	_, err := Dial(ctx, w.member(1), []string{l.Addr().String()})
	if !errors.Is(err, fault.ErrInterrupted) || !strings.HasSuffix(err.Error(), ": enough") {
		t.Error(err)
	}
	if err := <-heard; err != nil {
		t.Error(err)
	}
	w.dial(1)
	w.dial(2)
	w.together(t)
}

// A rank that hears of another's end before the run begins ends, too, and can be resumed.
func TestLostBeforeItBegins(t *testing.T) {
	l := listen(t)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p := newPeer(1, "", conn)
		if readJSON(conn, hello, new(greeting)) == nil && p.send(welcome) == nil {
			_ = p.send(lost, []byte(`{"Rank": 2, "Why": "it burns"}`))
		}
	}()
	_, err := Dial(ctx, Member{Rank: 1, World: 3, Run: "run", Program: "1", Limits: quick}, []string{l.Addr().String()})
	if !errors.Is(err, fault.ErrInterrupted) || fmt.Sprint(err) != "rank 2 of 3 is lost: it burns" {
		t.Error(err)
	}
}

// A refusal fits into a frame, and is no reason to wait for who does not read it.
func TestRefusal(t *testing.T) {
	here, there := net.Pipe()
	why := strings.Repeat("why", 1e5)
	go newPeer(1, "", here).refuse(refused{Why: why})
	var r refused
	if err := readJSON(there, refusal, &r); err != nil || r.Why != short(why) {
		t.Errorf("%.50s, %v", r.Why, err)
	}
	here, _ = net.Pipe()
	newPeer(1, "", here).refuse(refused{Why: why})
}

// A rank that has gone is found as soon as all places are taken.
func TestGoneAtTheLastMoment(t *testing.T) {
	conn, _ := net.Pipe()
	p := newPeer(1, "", conn)
	p.err = io.EOF
	h := host{member: Member{World: 2}, peers: []*peer{nil, p}, gone: make(chan *peer, 2)}
	if err := h.member.check(); err != nil {
		t.Fatal(err)
	}
	missing := 0
	if h.anyGone(&missing) {
		t.Error("who is gone?")
	}
	h.gone <- p
	h.gone <- newPeer(1, "", conn) // which had the place before
	if !h.anyGone(&missing) || missing != 1 || h.peers[1] != nil {
		t.Errorf("%d are missing", missing)
	}
	// One that ends later, while the group is made, ends the group.
	p.attended = true
	close(p.ended)
	g := newGroup(0, 2, []*peer{p}, quick)
	<-g.Context().Done()
	if err := g.Lost(); err == nil || !strings.Contains(err.Error(), "rank 1 of 2 is lost: its connection closed") {
		t.Error(err)
	}
}

// A rank looks for rank 0 again when that is gone, or silent, before the run begins.
func TestLooksAgain(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	m := Member{Rank: 1, World: 2, Run: "run", Program: "1", Limits: quick}
	m.Limits.Silence = 100 * time.Millisecond
	notes := make(chan string, 10)
	m.Note = func(format string, args ...any) { notes <- fmt.Sprintf(format, args...) }
	groups, errs := make([]*Group, 2), make([]error, 2)
	var wg sync.WaitGroup
	wg.Go(func() { groups[1], errs[1] = Dial(ctx, m, []string{address}) })
	<-notes
	for _, silent := range []bool{true, false} {
		conn, err := l.Accept()
		if err == nil {
			err = readJSON(conn, hello, new(greeting))
		}
		if err == nil {
			err = newPeer(1, "", conn).send(welcome)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !silent {
			conn.Close()
		}
		if note := <-notes; !strings.Contains(note, "goes on looking for rank 0: at "+address) {
			t.Error(note)
		}
		conn.Close()
	}
	wg.Go(func() { groups[0], errs[0] = Listen(ctx, Member{World: 2, Run: "run", Program: "1", Limits: quick}, l) })
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	closeAll(groups)
}

// flaky is a listener that fails as often as it is told, as when no descriptor is left.
type flaky struct {
	net.Listener
	fail int
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.fail > 0 {
		f.fail--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

// Rank 0 is not deaf after it could not accept a connection for a moment, and says so once.
func TestAcceptFails(t *testing.T) {
	w := newWaitingAt(&flaky{listen(t), 3}, 2)
	w.dial(1)
	w.together(t)
	if n := strings.Count(w.notes(), "cannot accept a connection"); n != 1 {
		t.Errorf("said %d times:\n%s", n, w.notes())
	}
}

// Strangers that hold connections open are capped: the oldest is closed, and ranks get in.
func TestStrangersAreCapped(t *testing.T) {
	w := newWaiting(t, 3)
	w.dial(2)
	w.until(t, "rank 2 of 3 is there")
	var strangers []net.Conn
	for range lobbySeats + 8 {
		c, err := net.Dial("tcp", w.addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		strangers = append(strangers, c)
	}
	for i, c := range strangers[:8] {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("stranger %d is there still: %v", i, err)
		}
	}
	last := strangers[len(strangers)-1]
	_ = last.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the latest stranger was closed: %v", err)
	}
	w.dial(1)
	w.together(t)
	if strings.Contains(w.notes(), "has gone") {
		t.Errorf("a rank was closed as a stranger:\n%s", w.notes())
	}
	if l := newLobby(1000); l.most != 2000 {
		t.Errorf("%d seats for 1000 ranks", l.most)
	}
}

// A stranger that says nothing, or too much, is closed.
func TestStrangerIsClosed(t *testing.T) {
	for what, say := range map[string][]byte{
		"nothing":       nil,
		"a long hello":  forged(hello, mostText+1),
		"another frame": frame(message, make([]byte, 8)),
		"no JSON":       frame(hello, []byte("{")),
	} {
		w := newWaiting(t, 2, func(m *Member) { m.Limits.Greeting = 200 * time.Millisecond })
		c, err := net.Dial("tcp", w.addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(say); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: %d bytes, %v", what, n, err)
		}
		w.dial(1)
		w.together(t)
	}
}

// With a secret, ranks that have it make a run, and whoever has another one, or none, has no part in
// it; they go on looking, and so does a rank with a secret that finds an open listener.
func TestSecret(t *testing.T) {
	with := func(text string) secret.Secret {
		s, err := secret.New(text, "")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ours, other := with("0123456789abcdef"), with("0123456789abcdeX")
	for what, c := range map[string]struct {
		listens, looks secret.Secret
		note           string
	}{
		"another secret": {ours, other, "does not prove that it has the secret"},
		"no secret":      {ours, secret.Secret{}, "or requires a secret"},
		"an open rank 0": {secret.Secret{}, ours, "does not prove that it has the secret"},
	} {
		w := newWaiting(t, 2, func(m *Member) { m.Secret = c.listens })
		stranger := w.member(1)
		stranger.Secret = c.looks
		notes := make(chan string, 100)
		stranger.Note = func(format string, args ...any) { notes <- fmt.Sprintf(format, args...) }
		looks, leave := context.WithCancel(ctx)
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = Dial(looks, stranger, w.addresses) })
		<-notes // looks for rank 0
		if note := <-notes; !strings.Contains(note, c.note) {
			t.Errorf("%s: %s", what, note)
		}
		w.dial(1)
		w.together(t)
		leave()
		wg.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
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
	if note := <-waits; !strings.Contains(note, "its place is taken: the run has already begun with all of its ranks") {
		t.Error(note)
	}
	for _, err := range each(groups, func(g *Group) error { _, err := g.Broadcast(nil, 0); return err }) {
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
	for len(waits) > 0 {
		if note := <-waits; strings.Contains(note, "taken") {
			t.Errorf("told twice: %s", note)
		}
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
	limits.Greeting = 20 * time.Millisecond
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
	if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), "of the 3 ranks, 1, 2 did not join") {
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
