package collective

import (
	"encoding/json"
	"net"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/secret"
)

// Member says which rank of which run this is.
type Member struct {
	Rank, World int
	// Run identifies the run: all of its ranks have it, and no other run does. Program identifies
	// the program, which all ranks have to share.
	Run, Program string
	// Secret encrypts the connections, and proves that both ends have it; without one they are open.
	Secret secret.Secret
	Limits Limits
	// Note tells the user about ranks that come, go or are refused; nil: nothing is told.
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

func (m *Member) greeting() greeting { return greeting{m.Run, m.Program, m.Rank, m.World} }

// refuse tells a rank why it is none, and ends its connection.
func (p *peer) refuse(r refused) {
	r.Why = short(r.Why)
	b, _ := json.Marshal(r) // which always can be
	_ = p.conn.SetWriteDeadline(time.Now().Add(refusalTime))
	_ = p.send(refusal, b)
	p.conn.Close()
}

// refusalTime is how long a refusal may take to be sent.
const refusalTime = time.Second

// readJSON reads a frame of a kind.
func readJSON(conn net.Conn, k kind, to any) error {
	h, err := readHeader(conn)
	if err != nil {
		return err
	}
	if h.kind != k {
		return bad("a frame of kind %d, not %d", h.kind, k)
	}
	b, err := h.readPayload(conn)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return bad("a frame of kind %d: %v", h.kind, err)
	}
	return nil
}
