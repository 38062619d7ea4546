package packed

import (
	"context"

	"diskgnn/internal/progress"
)

// sink is the side that computes on the matrices: the host, or a GPU. It holds a table of
// rows in memory, by entry, and brings them and the rows from disk to their places.
type sink interface {
	// packed reports whether rows from disk are wanted as they are packed; else the CPU
	// widens them.
	packed() bool
	// matrix takes what a slot needs for matrices of the given size.
	matrix(b *batch, m *memory, size matrixSize) matrix
	// count notes what the table takes, and what batches land in.
	count(l *Layout)
	// open takes memory for the table, which has the rows of hot.bin. close gives back
	// what it took, also after an error.
	open() error
	// fill fills the table from hot.bin, checked, and returns the bytes read.
	fill(ctx context.Context, rep progress.Reporter) (int64, error)
	close() error
	// cache returns the same sink with a table whose entries change.
	cache() cache
}

// cache is a sink whose table the batches of policy min change.
type cache interface {
	sink
	// bytes returns the memory that finding moved entries takes.
	bytes() int64
	// lie makes entries those of the table, for take and admit: where the rows are that a
	// batch's plan knows in these entries.
	lie(entries []uint32)
	// admit puts the rows of a batch's matrix from the given one on into entries, once those
	// that it takes were taken. packed has them as they are packed, where the CPU has them.
	admit(b *batch, from int, packed []byte, entries []uint32)
	// set puts rows, which lie in the order of a chunk, in their entries, when no batch is
	// under way.
	set(list []arrival, rows []byte) error
	// moveHome makes every entry's row that of the entry home[entry]. Home is a permutation.
	moveHome(home []uint32)
}

// arrival is a row of a batch's matrix on its way to an entry.
type arrival struct{ batch, row, entry uint32 }

// matrixSize says how many rows the matrices of a slot have at most.
type matrixSize struct {
	rows     int // in all
	disk     int // from disk
	landed   int // of these, by way of the slot's host memory
	taken    int // from the sink's table
	admitted int // that the table takes in
	eval     bool
}

// hot is the level of the rows that the sink's table holds, entry by rank. It has all rows
// that no level on disk has claimed.
type hot struct{ sink sink }

func (l hot) part(b *batch, _ *memory) part { return &hotPart{b: b} }

func (l hot) bytes() int64 { return 0 }
func (l hot) open() error  { return nil }
func (l hot) close() error { return nil }

func (l hot) fill(ctx context.Context, _ int, rep progress.Reporter) (int64, error) {
	return l.sink.fill(ctx, rep)
}

type hotPart struct {
	quiet
	b *batch
}

func (p *hotPart) place() error {
	for _, s := range p.b.rest() {
		p.b.matrix.take(s, p.b.decoded.Input[s.to:s.to+s.rows])
	}
	return nil
}
