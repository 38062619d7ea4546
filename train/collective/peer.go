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
	left    atomic.Bool // it said that it is done
	inbox   chan received
	free    chan []float32 // for contributions; nil before the first step was prepared
	ended   chan struct{}  // the reader is
	err     error          // why; to be read then

	write sync.Mutex
}

// heardConn notes when something came.
type heardConn struct{ p *peer }

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.p.conn.Read(b)
	if n > 0 {
		c.p.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func newPeer(rank int, address string, conn net.Conn) *peer {
	p := &peer{rank: rank, address: address, conn: conn, inbox: make(chan received, 4), ended: make(chan struct{})}
	p.heard.Store(time.Now().UnixNano())
	return p
}

// send writes a frame.
func (p *peer) send(k kind, parts ...[]byte) error {
	p.write.Lock()
	defer p.write.Unlock()
	return writeFrame(p.conn, k, parts...)
}

// errDone ends a reader whose peer is done.
var errDone = errors.New("done")

// read takes frames until the peer is done, the connection ends or the group does.
func (p *peer) read(g *Group) error {
	r := heardConn{p}
	for {
		h, err := readHeader(r)
		if err != nil {
			return err
		}
		if err := p.take(g, r, &h); err != nil {
			return err
		}
	}
}

// take takes one frame.
func (p *peer) take(g *Group, r io.Reader, h *header) error {
	m := received{kind: h.kind}
	switch h.kind {
	case message:
		b, err := h.readPayload(r, mostMessage)
		if err != nil {
			return err
		}
		if len(b) < 8 {
			return bad("a message of %d bytes", len(b))
		}
		m.number, m.bytes = binary.LittleEndian.Uint64(b), b[8:]
	case contribution, sum, ask:
		if err := p.takeNumbers(g, r, h, &m); err != nil {
			return err
		}
	default:
		b, err := h.readPayload(r, mostSmall)
		if err != nil {
			return err
		}
		return p.hear(g, h.kind, b)
	}
	select {
	case p.inbox <- m:
		return nil
	case <-g.ctx.Done():
		return errDone
	}
}

// takeNumbers takes a frame of a step.
func (p *peer) takeNumbers(g *Group, r io.Reader, h *header, m *received) error {
	s := g.step.Load()
	if s == nil {
		return bad("a frame of kind %d before training", h.kind)
	}
	var head [sumHead]byte
	switch h.kind {
	case contribution:
		if g.rank != 0 || h.length != contributionHead+4*int64(s.elements) {
			return bad("a contribution of %d bytes, of %d parameters", h.length, s.elements)
		}
		select {
		case m.floats = <-p.free:
		case <-g.ctx.Done():
			return errDone
		}
		if err := h.readParts(r, head[:contributionHead], binio.Bytes(m.floats)); err != nil {
			return err
		}
		m.number, m.labelled = binary.LittleEndian.Uint64(head[:]), int64(binary.LittleEndian.Uint32(head[8:]))
		return nil
	case ask:
		if g.rank != 0 || h.length != sumHead {
			return bad("a step's end of %d bytes", h.length)
		}
		if err := h.readParts(r, head[:]); err != nil {
			return err
		}
	case sum:
		if err := s.takeSum(g, r, h, head[:]); err != nil {
			return err
		}
	}
	m.number, m.signals = binary.LittleEndian.Uint64(head[:]), Signals(binary.LittleEndian.Uint32(head[8:]))
	m.batches, m.labelled = int(binary.LittleEndian.Uint32(head[12:])), int64(binary.LittleEndian.Uint64(head[16:]))
	if m.labelled < 0 {
		return bad("%d labelled seed nodes", m.labelled)
	}
	return nil
}

// hear takes what says something of ranks.
func (p *peer) hear(g *Group, k kind, b []byte) error {
	switch k {
	case beat:
		if len(b) != 8 {
			return bad("a beat of %d bytes", len(b))
		}
		p.doing.Store(binary.LittleEndian.Uint64(b))
		return nil
	case bye:
		p.left.Store(true)
		return errDone
	case lost:
		var l Lost
		if err := json.Unmarshal(b, &l); err != nil {
			return bad("what is lost: %v", err)
		}
		if g.rank == 0 { // a rank speaks for itself alone
			l.Rank, l.Address = p.rank, p.address
		}
		l.World = g.world
		g.lose(&l)
		return errDone
	}
	return bad("a frame of kind %d, in the middle of a run", k)
}

// describe says why a connection ended.
func describe(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "its connection ended without a word, as when a process is killed"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Sprintf("its connection broke: %v", op.Err)
	}
	return fmt.Sprintf("what it sends cannot be read: %v", err)
}
