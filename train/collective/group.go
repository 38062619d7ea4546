package collective

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/internal/fault"
)

// Group is one rank's connection to the others of a run. Its collective calls belong to one
// goroutine; Awaits, Context, Fail and Lost may be called from any.
//
// When a rank is lost, the group ends on all others, with an error that names it.
type Group struct {
	rank, world int
	peers       []*peer // of rank 0 those from 1 on, of the others rank 0
	limits      Limits
	number      uint64 // of the next call
	step        atomic.Pointer[step]
	doing       atomic.Uint64 // the number in beats: doingSteps or 0
	awaited     atomic.Int32  // 1 + the rank that a call waits for; 0: none

	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once // of lose
	said   sync.WaitGroup

	mu      sync.Mutex
	watch   watch
	stepsAt time.Time // when the latest step ended, or the first began

	beats  sync.WaitGroup
	closed bool

	listener net.Listener // refuses late ranks until the group ends; nil: none
}

// doingSteps means that a rank takes steps, one after the other; 0 means work of any duration.
const doingSteps = 1

// newGroup makes a rank's group over joined connections.
func newGroup(rank, world int, peers []*peer, limits Limits) *Group {
	g := &Group{rank: rank, world: world, peers: peers, limits: limits, watch: newWatch(limits)}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	for _, p := range peers {
		p.heardAt(time.Now())
		p.group.Store(g)
		if !p.attended {
			p.attended = true
			go func() {
				defer fault.Crash()
				p.attend(nil, nil)
			}()
		}
		select {
		case <-p.ended: // before it had a group
			g.without(p)
		default:
		}
	}
	g.beats.Add(1)
	go func() {
		defer fault.Crash()
		g.beat()
	}()
	return g
}

// One returns the group of a run with one rank. It neither waits nor sends, and loses nobody.
func One() *Group {
	g := &Group{world: 1}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

// Local returns the connected groups of world ranks within this process, by rank.
func Local(world int, limits Limits) []*Group {
	if world == 1 {
		return []*Group{One()}
	}
	groups, peers := make([]*Group, world), make([]*peer, 0, world)
	for rank := 1; rank < world; rank++ {
		here, there := net.Pipe()
		peers = append(peers, newPeer(rank, "", here))
		groups[rank] = newGroup(rank, world, []*peer{newPeer(0, "", there)}, limits)
	}
	groups[0] = newGroup(0, world, peers, limits)
	return groups
}

// Rank returns the number of this rank, from 0.
func (g *Group) Rank() int { return g.rank }

// World returns the number of ranks.
func (g *Group) World() int { return g.world }

// Bytes returns the number of bytes that this rank has sent and received so far.
func (g *Group) Bytes() int64 {
	n := int64(0)
	for _, p := range g.peers {
		n += p.bytes.Load()
	}
	return n
}

// Context returns a context that ends when the group ends, such as by the loss of a rank.
func (g *Group) Context() context.Context { return g.ctx }

// Lost returns why the group ended before Close, nil if it did not.
func (g *Group) Lost() error {
	if err := context.Cause(g.ctx); err != nil && !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// Awaits returns the rank that a call of this rank waits for at the moment; waits is false if it waits for
// none. It may be called from any goroutine.
func (g *Group) Awaits() (rank int, waits bool) {
	n := g.awaited.Load()
	return int(n) - 1, n > 0
}

// Steps announces to the other ranks whether this rank now takes steps, which have a time limit, or
// does work of any duration.
func (g *Group) Steps(now bool) {
	g.mu.Lock()
	g.stepsAt = time.Now()
	g.mu.Unlock()
	if now {
		g.doing.Store(doingSteps)
	} else {
		g.doing.Store(0)
	}
}

// stepped records the duration of a step.
func (g *Group) stepped() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.watch.waiting = -1
	g.watch.stepped(now.Sub(g.stepsAt))
	g.stepsAt = now
}

// prepare makes room for steps.
func (g *Group) prepare(s *step, each int) {
	for _, p := range g.peers {
		if g.rank != 0 {
			break
		}
		p.free = make(chan []float32, each)
		for range each {
			p.free <- make([]float32, s.elements)
		}
	}
	g.step.Store(s)
}

// send sends a frame to one peer, toAll to all peers. A failure ends the group.
func (g *Group) send(p *peer, k kind, parts ...[]byte) error {
	if err := g.Lost(); err != nil {
		return err
	}
	if err := p.send(k, parts...); err != nil {
		return g.broken(p, err)
	}
	return nil
}

func (g *Group) toAll(k kind, parts ...[]byte) error {
	for _, p := range g.peers {
		if err := g.send(p, k, parts...); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for a frame of this call; in place of an ask it may be a contribution. Within a
// step it waits at most the time limit of a step.
func (g *Group) receive(p *peer, want kind, inStep bool) (received, error) {
	if inStep {
		p.expect(g.number, 0)
		g.mu.Lock()
		g.watch.waiting, g.watch.since = p.rank, time.Now()
		g.mu.Unlock()
	}
	g.awaited.Store(int32(p.rank) + 1)
	defer g.awaited.Store(0)
	var m received
	select {
	case m = <-p.inbox:
	case <-p.ended:
		select {
		case m = <-p.inbox: // frames that came before the peer's end
		default:
			return m, g.broken(p, io.EOF)
		}
	case <-g.ctx.Done():
		select {
		case m = <-p.inbox: // frames that came before the group's end
		default:
			return m, g.Lost()
		}
	}
	switch {
	case m.number != g.number:
		return m, g.lose(g.lost(p, "it takes part in another call of the run"))
	case m.kind != want && !(want == ask && m.kind == contribution):
		return m, g.lose(g.lost(p, "it takes part in another operation of the run"))
	}
	return m, nil
}

// without returns after the end of a peer's reader: with an error unless the peer is done.
func (g *Group) without(p *peer) {
	switch {
	case p.left.Load() && g.rank != 0: // rank 0 ends when all is done
	case errors.Is(p.err, errDone):
	default:
		_ = g.broken(p, p.err) // and notifies the others
	}
}

// lost returns the error of a lost peer.
func (g *Group) lost(p *peer, why string) *Lost {
	return &Lost{Rank: p.rank, World: g.world, Address: p.address, Why: why}
}

// broken ends the group after an error of a peer's connection.
func (g *Group) broken(p *peer, err error) error {
	if lost := g.Lost(); lost != nil {
		return lost
	}
	if p.left.Load() {
		return g.lose(g.lost(p, "it ended before the run did"))
	}
	select { // the peer's own reason precedes the end of the connection
	case <-p.ended:
		if p.err != nil && !errors.Is(p.err, errDone) {
			err = p.err
		}
	case <-time.After(g.limits.Drain / 2):
	}
	return g.lose(g.lost(p, describe(err)))
}

// lose ends the group, once, and sends the reason to the others. It returns the group's reason.
func (g *Group) lose(l *Lost) error {
	g.once.Do(func() {
		g.cancel(l)
		said := *l
		said.Why = short(l.Why)
		b, _ := json.Marshal(&said) // which always can be
		for _, p := range g.peers {
			g.said.Add(1)
			go func() {
				defer fault.Crash()
				defer g.said.Done()
				_ = p.conn.SetDeadline(time.Now().Add(g.limits.Drain))
				_ = p.send(lost, b) // a rank that does not get it notices the closed connection
			}()
		}
	})
	return g.Lost()
}

// Fail ends the group because this rank cannot continue: the others end with this reason. It does
// nothing after the group has ended.
func (g *Group) Fail(why error) {
	_ = g.lose(&Lost{Rank: g.rank, World: g.world, Why: why.Error()})
}

// Close ends this rank's part, after its last call or after the group's end.
func (g *Group) Close() {
	if g.closed {
		return
	}
	g.closed = true
	if g.Lost() == nil {
		for _, p := range g.peers {
			_ = p.conn.SetDeadline(time.Now().Add(g.limits.Drain))
			_ = p.send(bye)
		}
	}
	g.once.Do(func() { g.cancel(errDone) }) // or waits until lose has begun to tell the others
	g.said.Wait()
	if g.listener != nil {
		_ = g.listener.Close() // again: the next run at this address finds it free
	}
	for _, p := range g.peers {
		if c, ok := p.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			select {
			case <-p.ended:
			case <-time.After(g.limits.Drain):
			}
		}
		_ = p.conn.Close()
	}
	g.beats.Wait()
}

// beat sends a beat every second, and checks the other ranks.
func (g *Group) beat() {
	defer g.beats.Done()
	tick := time.NewTicker(g.limits.Beat)
	defer tick.Stop()
	var busy sync.Map // peers to which a beat is on its way: another would only queue
	for {
		select {
		case <-g.ctx.Done():
			return
		case now := <-tick.C:
			g.look(now)
			for _, p := range g.peers {
				if _, under := busy.LoadOrStore(p, true); under {
					continue
				}
				go func() {
					defer fault.Crash()
					defer busy.Delete(p)
					_ = p.send(beat, binary.LittleEndian.AppendUint64(nil, g.doing.Load())) // the reader reports a broken connection
				}()
			}
		}
	}
}

// look loses a rank that is silent, or that exceeds the time limit of a step.
func (g *Group) look(now time.Time) {
	for _, p := range g.peers {
		if p.left.Load() {
			continue
		}
		why := ""
		g.mu.Lock()
		if !p.held.Load() {
			why = g.watch.silent(time.Unix(0, p.heard.Load()), now)
		}
		if why == "" && g.watch.waiting == p.rank {
			switch {
			case g.rank == 0:
				why = g.watch.late(now)
			case p.doing.Load() != doingSteps:
				g.watch.since = now // it does something that may take its time
			default:
				// Rank 0 names the rank that it waits for first.
				why = g.watch.late(now.Add(-g.limits.Step / 4))
			}
		}
		g.mu.Unlock()
		if why != "" {
			_ = g.lose(g.lost(p, why))
			return
		}
	}
}
