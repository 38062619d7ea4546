package collective

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

// Dial joins the group as a rank other than 0. It tries the addresses of rank 0 in turn, until rank
// 0 accepts or refuses the rank, or m.Limits.Join has passed.
func Dial(ctx context.Context, m Member, addresses []string) (*Group, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	s := seeker{member: m, told: make(map[string]bool)}
	if m.Secret.Given() {
		var err error
		if s.tls, err = m.Secret.Dialer(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.Limits.Join, errJoin)
	defer cancel()
	m.Note("rank %d of %d looks for rank 0 at %s", m.Rank, m.World, addresses[0])
	last := errors.New("nobody listens")
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		for _, a := range addresses {
			g, again, err := s.dial(ctx, a)
			if err == nil {
				return g, nil
			}
			if !again {
				return nil, err
			}
			if ctx.Err() == nil {
				last = err
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

// errTaken reports that another process has the place of a rank.
var errTaken = errors.New("its place is taken")

// seeker is a rank that looks for rank 0.
type seeker struct {
	member Member
	tls    *tls.Config     // nil: connections are open
	told   map[string]bool // the reasons for another attempt that the user has read
}

// tell reports once to the user why the rank still looks for rank 0.
func (s *seeker) tell(address string, err error) {
	if m := &s.member; !s.told[err.Error()] {
		s.told[err.Error()] = true
		m.Note("rank %d of %d goes on looking for rank 0: at %s: %v", m.Rank, m.World, address, err)
	}
}

// dial tries one address. again reports whether the address may be tried again.
func (s *seeker) dial(ctx context.Context, address string) (g *Group, again bool, err error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, true, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	conn := raw
	if s.tls != nil {
		conn = tls.Client(raw, s.tls)
	}
	p := newPeer(0, raw.RemoteAddr().String(), conn)
	r, err := s.ask(p)
	m := &s.member
	if err == nil && r == nil && stop() {
		return newGroup(m.Rank, m.World, []*peer{p}, m.Limits), false, nil
	}
	defer conn.Close()
	if ctx.Err() != nil {
		return nil, true, ctx.Err()
	}
	if r != nil {
		if err, again = r.refusal(m, address); again && !r.Other {
			s.tell(address, err)
		}
		return nil, again, err
	}
	if l, ok := errors.AsType[*Lost](err); ok {
		return nil, false, l
	}
	err = s.wrong(err)
	s.tell(address, err)
	return nil, true, err
}

// refusal returns the error of a rank that is refused, and whether the rank keeps looking.
func (r *refused) refusal(m *Member, address string) (err error, again bool) {
	kind, why := fault.ErrUsage, short(r.Why) // the listener's text, which is not trusted
	switch {
	case r.Other:
		return errors.New(why), true
	case r.Later:
		return fmt.Errorf("%w: %s", errTaken, why), true
	case r.Ended:
		kind = fault.ErrInterrupted
	}
	return fault.New(kind, "rank %d of %d was refused by rank 0 at %s: %s", m.Rank, m.World, address, why), false
}

// wrong explains an answer that is not a frame of this protocol.
func (s *seeker) wrong(err error) error {
	if s.tls != nil {
		return fmt.Errorf("the process that listens there does not prove that it has the secret: %s", describe(err))
	}
	return fmt.Errorf("the process that listens there is not rank 0 of this program, or requires a secret: %s", describe(err))
}

// ask requests the rank's place from rank 0. It returns once the run begins, or with the refusal.
func (s *seeker) ask(p *peer) (*refused, error) {
	limits := &s.member.Limits
	_ = p.conn.SetDeadline(time.Now().Add(limits.Greeting))
	b, _ := json.Marshal(s.member.greeting()) // which always can be
	if err := p.send(hello, b); err != nil {
		return nil, err
	}
	there := false
	for {
		h, err := readHeader(p.conn)
		if err != nil {
			return nil, err
		}
		b, err := h.readPayload(p.conn)
		switch {
		case err != nil:
			return nil, err
		case h.kind == refusal:
			r := new(refused)
			if err := json.Unmarshal(b, r); err != nil {
				return nil, bad("rank 0's refusal cannot be decoded: %v", err)
			}
			return r, nil
		case h.kind == welcome && there:
			return nil, p.conn.SetDeadline(time.Time{})
		case h.kind == welcome:
			there = true
			_ = p.conn.SetDeadline(time.Time{})
			defer p.keepBeating(limits.Beat)()
		case h.kind == lost && there:
			l := &Lost{World: s.member.World}
			if err := json.Unmarshal(b, l); err != nil {
				return nil, bad("who is lost: %v", err)
			}
			return nil, l
		case h.kind == beat && there:
		default:
			return nil, bad("a frame of kind %d arrived instead of a welcome", h.kind)
		}
		_ = p.conn.SetReadDeadline(time.Now().Add(limits.Silence))
	}
}

// keepBeating sends a beat at every interval until stop is called.
func (p *peer) keepBeating(every time.Duration) (stop func()) {
	end := make(chan struct{})
	go func() {
		defer fault.Crash()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = p.send(beat, make([]byte, 8)) // the reader reports a broken connection
			}
		}
	}()
	return func() { close(end) }
}
