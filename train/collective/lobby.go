package collective

import (
	"net"
	"slices"
	"sync"
)

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
