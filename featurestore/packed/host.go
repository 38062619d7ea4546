package packed

import (
	"sort"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// host is the sink of matrices that the CPU assembles, in float32 or as the pack has its rows. Its table is in RAM. If a
// consumer holds the rows before the table, the host leaves them out.
type host struct {
	ramRows
	copies *copier.Copier
	// A row of the pack becomes dim float32s, converted from the given type. Rows that stay as they are count as
	// RowBytes/4 float32s.
	from dtype.Type
	dim  int
}

func newHost(rows ramRows, copies *copier.Copier, stored bool) *host {
	f := &rows.src.facts
	if stored {
		return &host{rows, copies, dtype.Float32, f.RowBytes / 4}
	}
	return &host{rows, copies, f.DType, f.Dim}
}

// packed reports whether the packed form of rows is the form of the matrix.
func (h *host) packed() bool { return h.from == dtype.Float32 }

func (h *host) count(l *featurestore.Layout) { l.RAMBytes = h.ramRows.bytes() }

// bytes is 0: entries of the plans are entries of the table.
func (h *host) bytes() int64 { return 0 }

func (h *host) close() error {
	h.ramRows.close()
	return nil
}

func (h *host) matrix(b *batch, m *memory, size matrixSize) matrix {
	return &hostMatrix{host: h, b: b, mem: m.land(int64(size.rows) * 4 * int64(h.dim))}
}

func (h *host) entry(k uint32) []byte {
	rb := h.src.facts.RowBytes
	return h.mem.Bytes()[int(k)*rb : (int(k)+1)*rb]
}

func (h *host) cache() cache { return h }

// lie changes nothing: moveHome moves the rows themselves.
func (h *host) lie([]uint32) {}

func (h *host) set(list []arrival, rows []byte) error {
	rb := int64(h.src.facts.RowBytes)
	for _, a := range list {
		copy(h.entry(a.entry), rows[int64(a.row)*rb:])
	}
	return nil
}

// movedHome marks an entry of home with its row in place.
const movedHome = 1 << 31

// moveHome works in place: cycle by cycle, each row moves once.
func (h *host) moveHome(home []uint32) {
	row, spare := make([]byte, h.src.facts.RowBytes), make([]byte, h.src.facts.RowBytes)
	for first := range home {
		e := uint32(first)
		if home[e]&movedHome != 0 || home[e] == e {
			continue
		}
		copy(row, h.entry(e)) // the first row of the cycle
		for again := false; !again || e != uint32(first); again = true {
			to := home[e]
			home[e] |= movedHome
			copy(spare, h.entry(to))
			copy(h.entry(to), row)
			row, spare, e = spare, row, to
		}
	}
	for e := range home {
		home[e] &^= movedHome
	}
}

type hostMatrix struct {
	*host
	b   *batch
	mem *device.Host
}

func (m *hostMatrix) open() error { return nil }
func (m *hostMatrix) begin()      {}
func (m *hostMatrix) free()       {}

func (m *hostMatrix) chunk(*memory) chunkRows { return nil }

func (m *hostMatrix) memory() []byte { return m.mem.Bytes() }

func (m *hostMatrix) x(rows int) []float32 { return m.part(0, rows) }

func (m *hostMatrix) part(first, rows int) []float32 {
	return m.mem.Float32s()[first*m.dim : (first+rows)*m.dim]
}

func (m *hostMatrix) land(s stretch) places {
	row := 4 * m.dim
	return places{rows: m.mem.Bytes()[s.to*row : (s.to+s.rows)*row], x: m.part(s.to, s.rows), dim: m.dim}
}

func (m *hostMatrix) put(to places, k int, row []byte) {
	kernel.Widen(to.x[k*m.dim:(k+1)*m.dim], row, m.from, m.dim)
}

func (m *hostMatrix) take(s stretch, entries []uint32) {
	first := m.host.first
	// All rows of a band have lower ranks than the band before, and the table begins with a band or in the hot rows.
	n := sort.Search(len(entries), func(i int) bool { return int64(entries[i]) < first })
	m.b.GPURows += len(entries) - n
	m.copies.Gather(m.part(s.to, n), m.host.rows(), entries[:n], uint32(first), m.from, m.dim)
}

func (m *hostMatrix) admit(_ int, packed []byte, entries []uint32) {
	rb := m.src.facts.RowBytes
	for k, e := range entries {
		copy(m.entry(e), packed[k*rb:])
	}
}

func (m *hostMatrix) landed() error { return nil }

func (m *hostMatrix) fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	return nil, copies.CopyIn(x, binio.Bytes(m.x(len(m.b.decoded.Input))))
}
