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

// Listen makes the group of rank 0: it waits on l, which it takes over, for all others. The next
// process of the same rank replaces one that dies meanwhile. A process that cannot be part of the
// run is refused, and Listen waits on. After the run has begun, processes are refused until it
// ends.
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

var errJoin = errors.New("not all ranks joined")

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

// wait returns once all ranks have joined.
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

// anyGone frees the places of ranks with an ended connection, and reports whether there are any.
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

// seat gives a rank its place, if the place is free.
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

// free takes a rank's place away, if the rank still has it.
func (h *host) free(p *peer, why string) bool {
	p.conn.Close()
	if h.peers[p.rank] != p {
		return false
	}
	h.peers[p.rank] = nil
	h.member.Note("rank %d of %d (%s) has gone before the run began: %s; another process may take its place", p.rank, h.member.World, p.address, why)
	return true
}

// beat sends a beat to the joined ranks, and frees the places of silent ones. It returns the number
// of freed places.
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
			_ = p.send(beat, make([]byte, 8)) // the reader reports a broken connection
		}
	}
	return freed
}

// accept greets every connection, until the listener is closed. Other errors are temporary, such as
// a lack of descriptors.
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

// answer admits a rank of the run.
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
		p.refuse(refused{Why: "the run has already begun with all of its ranks", Later: true})
	}
}

// greet makes a connection prove that it is a rank of this run.
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
		h.member.Note("rank %d (%s) cannot join the run of %d ranks: %s", g.Rank, address, h.want.World, why)
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

// unfitted returns why a rank cannot be part of the run, "" if it can.
func (h *host) unfitted(g *greeting) string {
	switch {
	case g.Program != h.want.Program:
		return fmt.Sprintf("it runs the program %s, rank 0 runs %s", short(g.Program), h.want.Program)
	case g.World != h.want.World:
		return fmt.Sprintf("it was started for %d ranks, rank 0 for %d", g.World, h.want.World)
	case g.Rank < 1 || g.Rank >= g.World:
		return fmt.Sprintf("it is rank %d, and ranks that join are 1 to %d", g.Rank, g.World-1)
	}
	return ""
}

// dismiss closes all connections.
func (h *host) dismiss(why error) {
	for _, p := range h.peers {
		if p != nil {
			p.refuse(refused{Why: why.Error(), Ended: true})
		}
	}
}

// missing names the ranks that did not join.
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
	return fault.New(fault.ErrInterrupted, "of the %d ranks, %s did not join within %s", h.member.World, strings.Join(list, ", "), units.Seconds(h.member.Limits.Join.Seconds()))
}

// lobbySeats is the most connections without proof of the run, if the run has few ranks.
const lobbySeats = 64

// lobby has the connections that have not yet proven to be of the run, at most most: the oldest one
// is closed for the next. So strangers who hold connections open neither exhaust descriptors and
// memory, nor keep out ranks, which prove themselves in milliseconds.
type lobby struct {
	most int

	mu    sync.Mutex
	conns []net.Conn // the oldest first
}

// newLobby returns the lobby of a run with world ranks, which may all connect at the same moment.
func newLobby(world int) *lobby { return &lobby{most: max(lobbySeats, 2*world)} }

// enter adds a connection.
func (l *lobby) enter(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) == l.most {
		l.conns[0].Close()
		l.conns = slices.Delete(l.conns, 0, 1)
	}
	l.conns = append(l.conns, c)
}

// leave removes a connection that has proven itself, or was closed.
func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
}
