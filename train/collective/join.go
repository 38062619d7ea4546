package collective

import (
	"encoding/json"
	"net"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/secret"
)

// Member identifies a rank and its run.
type Member struct {
	Rank, World int
	// Run identifies the run: all of its ranks have it, and no other run does. Program identifies
	// the program, which all ranks share.
	Run, Program string
	// Secret encrypts the connections, and proves that both ends have it; without one they are
	// plain TCP.
	Secret secret.Secret
	Limits Limits
	// Note reports to the user the ranks that join, leave or are refused; nil: no reports.
	Note func(format string, args ...any)
}

// greeting is a hello.
type greeting struct {
	Run     string `json:"run"`
	Program string `json:"program"`
	Rank    int    `json:"rank"`
	World   int    `json:"world"`
}

// refused is the answer to a rank that cannot be part of a run.
type refused struct {
	Why string `json:"why"`
	// Other means that the listener is another run's: the rank keeps looking for its own.
	Other bool `json:"other,omitempty"`
	// Later means that another process has the rank's place. That process may have died, which rank
	// 0 notices later than a scheduler that replaced it: the rank keeps looking.
	Later bool `json:"later,omitempty"`
	// Ended means that rank 0 ends, and that the run can be resumed.
	Ended bool `json:"ended,omitempty"`
}

func (m *Member) check() error {
	if m.World < 2 || m.Rank < 0 || m.Rank >= m.World {
		return fault.New(fault.ErrUsage, "rank %d of %d: needs 2 ranks or more, numbered from 0", m.Rank, m.World)
	}
	if m.Note == nil {
		m.Note = func(string, ...any) {}
	}
	return nil
}

func (m *Member) greeting() greeting { return greeting{m.Run, m.Program, m.Rank, m.World} }

// refuse sends a rank its refusal, and ends its connection.
func (p *peer) refuse(r refused) {
	r.Why = short(r.Why)
	b, _ := json.Marshal(r) // which always can be
	_ = p.conn.SetWriteDeadline(time.Now().Add(refusalTime))
	_ = p.send(refusal, b)
	p.conn.Close()
}

// refusalTime bounds the time of sending a refusal.
const refusalTime = time.Second

// readJSON reads a frame of a kind.
func readJSON(conn net.Conn, k kind, to any) error {
	h, err := readHeader(conn)
	if err != nil {
		return err
	}
	if h.kind != k {
		return bad("a frame of kind %d arrived instead of kind %d", h.kind, k)
	}
	b, err := h.readPayload(conn)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return bad("a frame of kind %d cannot be decoded: %v", h.kind, err)
	}
	return nil
}
