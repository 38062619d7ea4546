package gids

import "diskgnn/featurestore/internal/machine"

// bufferShare bounds the rows of the constant buffer, as a share of the nodes: GIDS' value.
const bufferShare = 0.2

// buffer is the constant buffer: rows of some nodes in the dataset's type, which stay for the whole run.
type buffer struct {
	placeOf []uint32 // by node: the number of its row plus one; 0: not in the buffer
	rows    []byte
	filled  bool
}

func (b *buffer) lay(mem *machine.Memory, d *design, rows int) {
	if rows > 0 {
		b.placeOf = machine.Numbers[uint32](mem, int(d.Facts.Nodes))
		b.rows = machine.Numbers[byte](mem, rows*d.Facts.RowBytes)
	}
}

// has reports whether a node is in the buffer. It is valid before the rows are read.
func (b *buffer) has(v uint32) bool { return len(b.placeOf) > 0 && b.placeOf[v] > 0 }

// row returns a node's row, or nil if the buffer does not have it.
func (b *buffer) row(v uint32, rowBytes int) []byte {
	if !b.has(v) {
		return nil
	}
	at := int(b.placeOf[v]-1) * rowBytes
	return b.rows[at : at+rowBytes]
}

// fillStep is the number of rows that one step of fillBuffer reads.
const fillStep = 1 << 15

// chooseBytes returns the memory of choose, in bytes: the ranks, the nodes sorted by rank, and the chosen
// nodes; in a typed graph also byNode's index.
func (d *design) chooseBytes(rows int) int64 {
	if rows == 0 {
		return 0
	}
	nodes, index := d.Facts.Nodes, int64(0)
	if t := d.Facts.Types; t != nil {
		nodes = t.NumNodes()
		index = 8 * (nodes + 1)
	}
	return rankBytes(int(nodes)) + index + 4*d.Facts.Nodes + 4*int64(rows)
}
