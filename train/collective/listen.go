package collective

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

// Listen is rank 0's way into its group: it waits on l, which it takes over, for all others. A
// rank that dies meanwhile loses its place to the next process that says to be that rank, and one
// that cannot be part of the run is refused; the waiting goes on. Who comes when the run has begun
// is refused for as long as it lasts.
func Listen(ctx context.Context, m Member, l net.Listener) (g *Group, err error) {
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := m.check(); err != nil {
		return nil, err
	}
	h := host{member: m, want: m.greeting(), peers: make([]*peer, m.World), unfit: make([]string, m.World),
		came: make(chan *peer), gone: make(chan *peer), over: make(chan struct{}), lobby: newLobby(m.World)}
	defer close(h.over)
	if m.Secret.Given() {
		if h.tls, err = m.Secret.Listener(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.Limits.Join, errJoin)
	defer cancel()
	go func() {
		defer fault.Crash()
		h.accept(l)
	}()
	m.Note("rank 0 of %d waits for the others at %s", m.World, l.Addr())
	if err := h.wait(ctx); err != nil {
		h.dismiss(err)
		return nil, err
	}
	g = newGroup(0, m.World, h.peers[1:], m.Limits)
	if err := g.toAll(welcome); err != nil {
		g.Close()
		return nil, err
	}
	g.listener = l
	context.AfterFunc(g.ctx, func() { l.Close() })
	return g, nil
}

var errJoin = errors.New("not all ranks came")

// host is rank 0 while it waits.
type host struct {
	member Member
	want   greeting
	tls    *tls.Config // nil: connections are open
	lobby  *lobby
	peers  []*peer // by rank; nil: not there
	came   chan *peer
	gone   chan *peer
	over   chan struct{} // closed when the waiting is over

	mu    sync.Mutex
	unfit []string // why the latest process of a rank was refused, "" for none
}

// wait returns once all ranks are there.
func (h *host) wait(ctx context.Context) error {
	beats := time.NewTicker(h.member.Limits.Beat)
	defer beats.Stop()
	for missing := h.member.World - 1; missing > 0 || h.anyGone(&missing); {
		select {
		case <-ctx.Done():
			return h.missing(context.Cause(ctx))
		case p := <-h.came:
			if h.seat(p) {
				missing--
			}
		case p := <-h.gone:
			if h.free(p, describe(p.err)) {
				missing++
			}
		case now := <-beats.C:
			missing += h.beat(now)
		}
	}
	return nil
}

// anyGone frees the places of those that are known to be gone, and reports whether there are any.
func (h *host) anyGone(missing *int) bool {
	for {
		select {
		case p := <-h.gone:
			if h.free(p, describe(p.err)) {
				*missing++
			}
		default:
			return *missing > 0
		}
	}
}

// seat gives a rank its place, if that is free.
func (h *host) seat(p *peer) bool {
	if was := h.peers[p.rank]; was != nil {
		p.refuse(refused{Why: fmt.Sprintf("rank %d of the run is there already, at %s", p.rank, was.address), Later: true})
		return false
	}
	if p.send(welcome) != nil {
		p.conn.Close()
		return false
	}
	_ = p.conn.SetDeadline(time.Time{})
	h.peers[p.rank] = p
	h.member.Note("rank %d of %d is there, at %s", p.rank, h.member.World, p.address)
	p.heardAt(time.Now())
	p.attended = true
	go func() {
		defer fault.Crash()
		p.attend(h.gone, h.over)
	}()
	return true
}

// free takes a rank's place away, if it has it still.
func (h *host) free(p *peer, why string) bool {
	p.conn.Close()
	if h.peers[p.rank] != p {
		return false
	}
	h.peers[p.rank] = nil
	h.member.Note("rank %d of %d (%s) has gone before the run began: %s; another process may take its place", p.rank, h.member.World, p.address, why)
	return true
}

// beat tells the ranks that are there that rank 0 is, and frees the places of those that are
// silent. It returns how many.
func (h *host) beat(now time.Time) (freed int) {
	limit := h.member.Limits.Silence
	for _, p := range h.peers {
		switch {
		case p == nil:
		case now.Sub(time.Unix(0, p.heard.Load())) > limit:
			if h.free(p, silentFor(limit)) {
				freed++
			}
		default:
			_ = p.send(beat, make([]byte, 8)) // the reader notices what is broken
		}
	}
	return freed
}

// accept greets whoever connects, until the listener is closed. Other errors pass, as when the
// process has no descriptor to spare for a moment.
func (h *host) accept(l net.Listener) {
	const first, longest = 5 * time.Millisecond, time.Second
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if pause == 0 {
				h.member.Note("rank 0 of %d cannot accept a connection, and tries again: %v", h.member.World, err)
			}
			pause = min(max(2*pause, first), longest)
			time.Sleep(pause)
			continue
		}
		pause = 0
		h.lobby.enter(conn)
		go func() {
			defer fault.Crash()
			h.answer(conn)
		}()
	}
}

// answer lets a rank of the run in.
func (h *host) answer(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(h.member.Limits.Greeting))
	p, ok := h.greet(conn)
	h.lobby.leave(conn)
	if !ok {
		conn.Close()
		return
	}
	select {
	case h.came <- p:
	case <-h.over:
		p.refuse(refused{Why: "the run began before, with all of its ranks", Later: true})
	}
}

// greet has a connection prove that it is a rank of this run.
func (h *host) greet(conn net.Conn) (p *peer, ok bool) {
	address := conn.RemoteAddr().String()
	if h.tls != nil {
		conn = tls.Server(conn, h.tls)
	}
	p = newPeer(-1, address, conn)
	var g greeting
	if err := readJSON(conn, hello, &g); err != nil {
		return nil, false
	}
	if g.Run != h.want.Run {
		p.refuse(refused{Why: "another run listens there", Other: true})
		return nil, false
	}
	if why := h.unfitted(&g); why != "" {
		h.member.Note("rank %d (%s) cannot be part of the run of %d: %s", g.Rank, address, h.want.World, why)
		if g.Rank > 0 && g.Rank < h.want.World {
			h.mu.Lock()
			h.unfit[g.Rank] = why
			h.mu.Unlock()
		}
		p.refuse(refused{Why: why})
		return nil, false
	}
	p.rank = g.Rank
	return p, true
}

// unfitted says why a rank cannot be part of the run, "" if it can.
func (h *host) unfitted(g *greeting) string {
	switch {
	case g.Program != h.want.Program:
		return fmt.Sprintf("it is %s, rank 0 is %s", short(g.Program), h.want.Program)
	case g.World != h.want.World:
		return fmt.Sprintf("it is of %d ranks, rank 0 of %d", g.World, h.want.World)
	case g.Rank < 1 || g.Rank >= g.World:
		return fmt.Sprintf("it is rank %d of %d", g.Rank, g.World)
	}
	return ""
}

// dismiss ends what has come.
func (h *host) dismiss(why error) {
	for _, p := range h.peers {
		if p != nil {
			p.refuse(refused{Why: why.Error(), Ended: true})
		}
	}
}

// missing names the ranks that did not come.
func (h *host) missing(cause error) error {
	if !errors.Is(cause, errJoin) {
		return cause
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for rank, p := range h.peers {
		if rank == 0 || p != nil {
			continue
		}
		text := fmt.Sprint(rank)
		if why := h.unfit[rank]; why != "" {
			text += " (refused: " + why + ")"
		}
		list = append(list, text)
	}
	return fault.New(fault.ErrInterrupted, "of the %d ranks, %s did not come within %s", h.member.World, strings.Join(list, ", "), units.Seconds(h.member.Limits.Join.Seconds()))
}

// lobbySeats is how many connections there may be that have not proven themselves, where a run has
// few ranks.
const lobbySeats = 64

// lobby has the connections that have not yet proven that they are of the run. There are never
// more than most: the oldest one is closed for the next. So strangers who hold connections open
// neither exhaust descriptors and memory, nor keep ranks out, which prove themselves in milliseconds.
type lobby struct {
	most int

	mu    sync.Mutex
	conns []net.Conn // the oldest first
}

// newLobby returns that of a run of so many ranks, which may all come at the same moment.
func newLobby(world int) *lobby { return &lobby{most: max(lobbySeats, 2*world)} }

// enter takes a connection in.
func (l *lobby) enter(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) == l.most {
		l.conns[0].Close()
		l.conns = slices.Delete(l.conns, 0, 1)
	}
	l.conns = append(l.conns, c)
}

// leave lets a connection out that has proven itself, or was closed.
func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
}
