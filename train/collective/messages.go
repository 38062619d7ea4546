package collective

import (
	"encoding/binary"
	"fmt"
)

// Broadcast returns rank 0's bytes, at most most, on every rank. It ignores the others' b. It may
// wait for rank 0 for any time.
func (g *Group) Broadcast(b []byte, most int64) ([]byte, error) {
	if g.world == 1 {
		return b, nil
	}
	if g.rank == 0 {
		if err := tooLong(b, most); err != nil {
			return nil, err
		}
		if err := g.toAll(message, g.numbered(), b); err != nil {
			return nil, err
		}
		g.number++
		return b, nil
	}
	m, err := g.receiveMessage(g.peers[0], most)
	g.number++
	return m.bytes, err
}

// Gather returns every rank's bytes, at most most of each, on rank 0, by rank, and nil on the
// others. It may wait for them for any time.
func (g *Group) Gather(b []byte, most int64) ([][]byte, error) {
	if g.rank != 0 {
		if err := tooLong(b, most); err != nil {
			return nil, err
		}
		err := g.send(g.peers[0], message, g.numbered(), b)
		g.number++
		return nil, err
	}
	all := [][]byte{b}
	for _, p := range g.peers {
		m, err := g.receiveMessage(p, most)
		if err != nil {
			return nil, err
		}
		all = append(all, m.bytes)
	}
	g.number++
	return all, nil
}

// tooLong refuses a message that the receiver would refuse.
func tooLong(b []byte, most int64) error {
	if int64(len(b)) > most {
		return fmt.Errorf("a message to other ranks has %d bytes, more than the %d allowed", len(b), most)
	}
	return nil
}

// receiveMessage waits for the message of this call, of at most most bytes.
func (g *Group) receiveMessage(p *peer, most int64) (received, error) {
	p.expect(g.number, most)
	m, err := g.receive(p, message, false)
	if err == nil && int64(len(m.bytes)) > most {
		err = g.lose(g.lost(p, fmt.Sprintf("its message has %d bytes, more than the %d allowed", len(m.bytes), most)))
	}
	return m, err
}

func (g *Group) numbered() []byte { return binary.LittleEndian.AppendUint64(nil, g.number) }
