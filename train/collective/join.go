package collective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

// Member says which rank of which run this is.
type Member struct {
	Rank, World int
	// Run is what all ranks of a run know of it, and other runs do not: ranks of another are
	// left alone. Program is the version of the program, which has to be the same.
	Run, Program string
	Limits       Limits
	// Note tells the user what is waited for; nil: nothing is told.
	Note func(format string, args ...any)
}

// greeting is a hello.
type greeting struct {
	Run     string `json:"run"`
	Program string `json:"program"`
	Rank    int    `json:"rank"`
	World   int    `json:"world"`
}

// refused is why a rank is no part of a run.
type refused struct {
	Why string `json:"why"`
	// Other says that the listener is another run's: the rank goes on looking for its own.
	Other bool `json:"other,omitempty"`
	// Later says that another process has the rank's place. It may have died, which rank 0 sees
	// later than a scheduler that replaced it: the rank goes on looking.
	Later bool `json:"later,omitempty"`
	// Ended says that rank 0 ends, and that the run can be resumed.
	Ended bool `json:"ended,omitempty"`
}

func (m *Member) check() error {
	if m.World < 2 || m.Rank < 0 || m.Rank >= m.World {
		return fault.New(fault.ErrUsage, "rank %d of %d", m.Rank, m.World)
	}
	if m.Note == nil {
		m.Note = func(string, ...any) {}
	}
	return nil
}

// greeting returns how long an answer to a hello may take: what listens may be no rank at all.
func (l *Limits) greeting() time.Duration { return min(l.Silence, 5*time.Second) }

func (m *Member) greeting() greeting { return greeting{m.Run, m.Program, m.Rank, m.World} }

// Listen is rank 0's way into its group: it waits on l, which it takes over, for all others. A
// rank that is of the run and cannot be part of it ends the waiting. Who comes later is refused for
// as long as the run lasts.
func Listen(ctx context.Context, m Member, l net.Listener) (g *Group, err error) {
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := m.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.Limits.Join, errJoin)
	defer cancel()
	h := host{member: m, want: m.greeting(), peers: make([]*peer, m.World), came: make(chan arrival), over: make(chan struct{})}
	defer close(h.over)
	go func() {
		defer fault.Crash()
		h.accept(l)
	}()
	waiting := m.World - 1
	m.Note("rank 0 of %d waits for the others at %s", m.World, l.Addr())
	for waiting > 0 {
		select {
		case <-ctx.Done():
			err := h.missing(context.Cause(ctx))
			h.dismiss(err)
			return nil, err
		case a := <-h.came:
			if a.err != nil {
				h.dismiss(a.err)
				h.linger(a.err)
				return nil, a.err
			}
			if was := h.peers[a.peer.rank]; was != nil {
				a.peer.refuse(refused{Why: fmt.Sprintf("rank %d of the run is there already, at %s", a.peer.rank, was.address), Later: true})
				continue
			}
			h.peers[a.peer.rank] = a.peer
			waiting--
		}
	}
	for _, p := range h.peers[1:] {
		if err := p.send(welcome); err != nil {
			err = &Lost{Rank: p.rank, World: m.World, Address: p.address, Why: describe(err)}
			h.dismiss(err)
			return nil, err
		}
	}
	g = newGroup(0, m.World, h.peers[1:], m.Limits)
	context.AfterFunc(g.ctx, func() { l.Close() })
	return g, nil
}

var errJoin = errors.New("not all ranks came")

// errTaken says that the place of a rank is another process's.
var errTaken = errors.New("its place is taken")

// host is rank 0 while it waits.
type host struct {
	member Member
	want   greeting
	peers  []*peer // by rank; nil: not there yet
	came   chan arrival
	over   chan struct{} // the waiting is
}

// arrival is a rank that came, or one that ends the waiting.
type arrival struct {
	peer *peer
	err  error
}

// accept greets whoever connects.
func (h *host) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer fault.Crash()
			a, ok := h.greet(conn)
			if !ok {
				return
			}
			select {
			case h.came <- a:
			case <-h.over:
				if a.peer != nil {
					a.peer.refuse(refused{Why: "the run began before, with all of its ranks", Later: true})
				}
			}
		}()
	}
}

// greet reads a hello. What is no rank of this run is refused, and nothing comes of it.
func (h *host) greet(conn net.Conn) (a arrival, ok bool) {
	_ = conn.SetDeadline(time.Now().Add(h.member.Limits.greeting()))
	p := newPeer(-1, conn.RemoteAddr().String(), conn)
	var g greeting
	if err := readJSON(conn, hello, &g); err != nil {
		conn.Close()
		return a, false
	}
	refuse := func(other bool, format string, args ...any) {
		p.refuse(refused{Why: fmt.Sprintf(format, args...), Other: other})
	}
	switch {
	case g.Run != h.want.Run:
		refuse(true, "another run listens there")
		return a, false
	case g.Program != h.want.Program:
		refuse(false, "it is version %s of the program, rank 0 is %s", g.Program, h.want.Program)
	case g.World != h.want.World:
		refuse(false, "it is of %d ranks, rank 0 of %d", g.World, h.want.World)
	case g.Rank < 1 || g.Rank >= g.World:
		refuse(false, "it is rank %d of %d", g.Rank, g.World)
	default:
		if p.send(welcome) != nil {
			conn.Close()
			return a, false
		}
		_ = conn.SetDeadline(time.Time{})
		p.rank = g.Rank
		return arrival{peer: p}, true
	}
	why := ""
	switch {
	case g.Program != h.want.Program:
		why = fmt.Sprintf("it is version %s of the program, rank 0 is %s", g.Program, h.want.Program)
	case g.World != h.want.World:
		why = fmt.Sprintf("it says that there are %d ranks", g.World)
	default:
		return a, false
	}
	return arrival{err: fault.New(fault.ErrUsage, "rank %d (%s) cannot be part of the run of %d: %s", g.Rank, p.address, h.want.World, why)}, true
}

// refuse tells a rank why it is none, and ends its connection.
func (p *peer) refuse(r refused) {
	b, _ := json.Marshal(r) // which always can be
	_ = p.send(refusal, b)
	p.conn.Close()
}

// dismiss ends what has come.
func (h *host) dismiss(why error) {
	for _, p := range h.peers {
		if p != nil {
			p.refuse(refused{Why: why.Error(), Ended: !errors.Is(why, fault.ErrUsage)})
		}
	}
}

// linger tells those who come at the same time, too.
func (h *host) linger(why error) {
	for over := time.After(drainTime / 2); ; {
		select {
		case a := <-h.came:
			if a.peer != nil {
				a.peer.refuse(refused{Why: why.Error()})
			}
		case <-over:
			return
		}
	}
}

// missing names the ranks that did not come.
func (h *host) missing(cause error) error {
	if !errors.Is(cause, errJoin) {
		return cause
	}
	var list []string
	for rank, p := range h.peers {
		if rank > 0 && p == nil {
			list = append(list, fmt.Sprint(rank))
		}
	}
	return fault.New(fault.ErrInterrupted, "of the %d ranks, %s did not come within %s", h.member.World, strings.Join(list, ", "), units.Seconds(h.member.Limits.Join.Seconds()))
}

// Dial is the others' way into their group: rank 0 listens at one of the addresses, now or soon.
func Dial(ctx context.Context, m Member, addresses []string) (*Group, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.Limits.Join, errJoin)
	defer cancel()
	m.Note("rank %d of %d looks for rank 0 at %s", m.Rank, m.World, addresses[0])
	last, told := errors.New("nobody listens"), false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		for _, a := range addresses {
			g, again, err := m.dial(ctx, a)
			if err == nil {
				return g, nil
			}
			if !again {
				return nil, err
			}
			if ctx.Err() == nil {
				last = err
			}
			if errors.Is(err, errTaken) && !told {
				m.Note("rank %d of %d waits for that to change: %v", m.Rank, m.World, err)
				told = true
			}
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			if cause := context.Cause(ctx); !errors.Is(cause, errJoin) {
				return nil, cause
			}
			return nil, fault.New(fault.ErrInterrupted, "rank 0 was not found at %s within %s: %v", addresses[0], units.Seconds(m.Limits.Join.Seconds()), last)
		}
	}
}

// dial tries one address. Where it may be tried again, that is said.
func (m *Member) dial(ctx context.Context, address string) (g *Group, again bool, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, true, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	p := newPeer(0, conn.RemoteAddr().String(), conn)
	b, _ := json.Marshal(m.greeting()) // which always can be
	if err := p.send(hello, b); err != nil {
		conn.Close()
		return nil, true, err
	}
	_ = conn.SetDeadline(time.Now().Add(m.Limits.greeting()))
	h, err := readHeader(conn)
	if err == nil && h.kind == welcome && h.length == 0 {
		_ = conn.SetDeadline(time.Time{})
		h, err = readHeader(conn) // once all ranks are there
	}
	if err == nil && h.kind == welcome && h.length == 0 {
		if !stop() {
			conn.Close()
			return nil, true, ctx.Err()
		}
		return newGroup(m.Rank, m.World, []*peer{p}, m.Limits), false, nil
	}
	defer conn.Close()
	if err != nil {
		return nil, true, err
	}
	var r refused
	if h.kind != refusal {
		return nil, true, bad("a frame of kind %d in place of a welcome", h.kind)
	}
	if b, err = h.readPayload(conn, mostSmall); err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, true, err
	}
	kind := fault.ErrUsage
	switch {
	case r.Other:
		return nil, true, errors.New(r.Why)
	case r.Later:
		return nil, true, fmt.Errorf("%w: %s", errTaken, r.Why)
	case r.Ended:
		kind = fault.ErrInterrupted
	}
	return nil, false, fault.New(kind, "rank %d of %d was refused by rank 0 at %s: %s", m.Rank, m.World, address, r.Why)
}

// readJSON reads a frame of a kind.
func readJSON(conn net.Conn, k kind, to any) error {
	h, err := readHeader(conn)
	if err != nil {
		return err
	}
	if h.kind != k {
		return bad("a frame of kind %d, not %d", h.kind, k)
	}
	b, err := h.readPayload(conn, mostSmall)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}
