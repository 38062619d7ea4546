package collective

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"diskgnn/internal/binio"
)

// received is a frame that a call of the group waits for.
type received struct {
	kind     kind
	number   uint64
	signals  Signals
	batches  int
	labelled int64
	floats   []float32 // of a contribution: the peer's, given back by release
	bytes    []byte    // of a message
}

// peer is the other end of a connection.
type peer struct {
	rank    int
	address string
	conn    net.Conn
	heard   atomic.Int64 // when something came, as time.Time.UnixNano
	doing   atomic.Uint64
	bytes   atomic.Int64 // sent and received
	left    atomic.Bool  // it said that it is done
	inbox   chan received
	free    chan []float32 // for contributions; nil before the first step was prepared
	ended   chan struct{}  // the reader is
	err     error          // why; to be read then
	// group is the run's group; nil before the run begins.
	group    atomic.Pointer[Group]
	attended bool // there is a reader
	// expected is the message of the latest call that waited for one.
	expected atomic.Pointer[expectation]
	posted   chan struct{} // has room for one: expected has changed
	held     atomic.Bool   // the reader waits for a call
	over     uint64        // number of calls with all frames received; only the reader uses it

	write sync.Mutex
}

// expectation is the number and the bound of a message, known before any of it is read.
type expectation struct {
	number uint64
	most   int64 // bytes
}

// heardConn notes the time of the latest bytes.
type heardConn struct{ p *peer }

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.p.conn.Read(b)
	if n > 0 {
		c.p.heard.Store(time.Now().UnixNano())
		c.p.bytes.Add(int64(n))
	}
	return n, err
}

func newPeer(rank int, address string, conn net.Conn) *peer {
	p := &peer{rank: rank, address: address, conn: conn, inbox: make(chan received, 4), ended: make(chan struct{}), posted: make(chan struct{}, 1)}
	p.heardAt(time.Now())
	return p
}

func (p *peer) heardAt(t time.Time) { p.heard.Store(t.UnixNano()) }

// expect sets the number and the bound of the next message.
func (p *peer) expect(number uint64, most int64) {
	p.expected.Store(&expectation{number, most})
	select {
	case p.posted <- struct{}{}:
	default: // the reader has yet to notice an earlier one
	}
}

// send writes a frame.
func (p *peer) send(k kind, parts ...[]byte) error {
	p.write.Lock()
	defer p.write.Unlock()
	p.bytes.Add(headerBytes)
	for _, b := range parts {
		p.bytes.Add(int64(len(b)))
	}
	return writeFrame(p.conn, k, parts...)
}

// errDone ends the reader of a peer that is done.
var errDone = errors.New("done")

// attend reads the peer's frames until its end. While ranks join, it sends a peer that ends early
// on gone, and closes its connection.
func (p *peer) attend(gone chan<- *peer, over <-chan struct{}) {
	p.err = p.read()
	close(p.ended)
	if g := p.group.Load(); g != nil {
		g.without(p)
	} else {
		select {
		case gone <- p:
		case <-over:
		}
	}
	// Bytes after the end are read and dropped: otherwise the last frames could be lost.
	_, _ = io.Copy(io.Discard, p.conn)
}

// read takes frames until the peer is done, the connection ends or the group does.
func (p *peer) read() error {
	r := heardConn{p}
	for {
		h, err := readHeader(r)
		if err != nil {
			return err
		}
		if err := p.take(p.group.Load(), r, &h); err != nil {
			return err
		}
	}
}

// take takes one frame. The group is nil before the run begins.
func (p *peer) take(g *Group, r io.Reader, h *header) error {
	if g == nil && h.kind != beat {
		return bad("a frame of kind %d arrived before the run began", h.kind)
	}
	m := received{kind: h.kind}
	switch h.kind {
	case message:
		if err := p.takeMessage(g, r, h, &m); err != nil {
			return err
		}
	case contribution, sum, ask:
		if err := p.takeNumbers(g, r, h, &m); err != nil {
			return err
		}
	default:
		b, err := h.readPayload(r)
		if err != nil {
			return err
		}
		return p.hear(g, h.kind, b)
	}
	defer p.hold()()
	select {
	case p.inbox <- m:
		if m.kind != contribution {
			p.over = m.number + 1
		}
		return nil
	case <-g.ctx.Done():
		return errDone
	}
}

// hold marks the reader as waiting for this rank. That is no silence of the peer, although its
// beats are not heard. end removes the mark.
func (p *peer) hold() (end func()) {
	p.held.Store(true)
	return func() {
		p.heardAt(time.Now())
		p.held.Store(false)
	}
}

// takeMessage takes a message. A large one stays in the connection until a call waits for it, and
// gives its bound.
func (p *peer) takeMessage(g *Group, r io.Reader, h *header, m *received) error {
	var number [8]byte
	n := h.length - int64(len(number))
	if n < 0 {
		return bad("a message of %d bytes is too short for its number", h.length)
	}
	if _, err := io.ReadFull(r, number[:]); err != nil {
		return ended(err)
	}
	m.number = binary.LittleEndian.Uint64(number[:])
	if h.length > mostUnasked {
		if err := p.allowed(g, m.number, n); err != nil {
			return err
		}
	}
	m.bytes = make([]byte, n)
	return h.readRest(r, binio.CRC(number[:]), m.bytes)
}

// allowed waits until a call waits for the message of a number, and refuses a message above that
// call's bound.
func (p *peer) allowed(g *Group, number uint64, n int64) error {
	defer p.hold()()
	for {
		e := p.expected.Load()
		switch {
		case e != nil && e.number < number && e.number >= p.over:
			return bad("it takes part in another call of the run") // frames are in order: that one never comes
		case e == nil || e.number < number:
			select {
			case <-p.posted:
			case <-g.ctx.Done():
				return errDone
			}
		case e.number > number:
			return bad("a message of %d bytes arrived for a call that is over", n)
		case n > e.most:
			return bad("a message has %d bytes, more than the %d allowed", n, e.most)
		default:
			return nil
		}
	}
}

// takeNumbers takes a frame of a step.
func (p *peer) takeNumbers(g *Group, r io.Reader, h *header, m *received) error {
	s := g.step.Load()
	if s == nil {
		return bad("a frame of kind %d arrived before training", h.kind)
	}
	var head [sumHead]byte
	switch h.kind {
	case contribution:
		if g.rank != 0 || h.length != contributionHead+4*int64(s.elements) {
			return bad("a contribution has %d bytes, which does not fit %d parameters", h.length, s.elements)
		}
		if m.floats = p.room(g); m.floats == nil {
			return errDone
		}
		if err := h.readParts(r, head[:contributionHead], binio.Bytes(m.floats)); err != nil {
			return err
		}
		m.number, m.labelled = binary.LittleEndian.Uint64(head[:]), int64(binary.LittleEndian.Uint32(head[8:]))
		return nil
	case ask:
		if g.rank != 0 || h.length != sumHead {
			return bad("a frame that ends a step has %d bytes", h.length)
		}
		if err := h.readParts(r, head[:]); err != nil {
			return err
		}
	case sum:
		if g.rank == 0 {
			return bad("a sum of %d bytes", h.length)
		}
		if err := s.takeSum(r, h, head[:]); err != nil {
			return err
		}
	}
	m.number, m.signals = binary.LittleEndian.Uint64(head[:]), Signals(binary.LittleEndian.Uint32(head[8:]))
	m.batches, m.labelled = int(binary.LittleEndian.Uint32(head[12:])), int64(binary.LittleEndian.Uint64(head[16:]))
	if m.labelled < 0 {
		return bad("a step has %d labelled seed nodes", m.labelled)
	}
	return nil
}

// room waits for memory for the floats of a contribution. It returns nil when the group has ended.
func (p *peer) room(g *Group) []float32 {
	defer p.hold()()
	select {
	case floats := <-p.free:
		return floats
	case <-g.ctx.Done():
		return nil
	}
}

// hear takes frames about ranks.
func (p *peer) hear(g *Group, k kind, b []byte) error {
	switch k {
	case beat:
		if len(b) != 8 {
			return bad("a heartbeat has %d bytes instead of 8", len(b))
		}
		p.doing.Store(binary.LittleEndian.Uint64(b))
		return nil
	case bye:
		p.left.Store(true)
		return errDone
	case lost:
		var l Lost
		if err := json.Unmarshal(b, &l); err != nil {
			return bad("who is lost: %v", err)
		}
		if g.rank == 0 { // a rank speaks for itself alone
			l.Rank, l.Address = p.rank, p.address
		}
		l.World = g.world
		g.lose(&l)
		return errDone
	}
	return bad("a frame of kind %d arrived in the middle of a run", k)
}

// describe explains the end of a connection.
func describe(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "its connection closed without notice, as when a process is killed"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Sprintf("its connection broke: %v", op.Err)
	}
	return fmt.Sprintf("its data cannot be read: %v", err)
}
