package packed

import (
	"context"

	"diskgnn/featurestore"
	"diskgnn/internal/progress"
)

// sink assembles the matrices, on the host or on a GPU. It has a table of rows in memory, by entry, and
// puts these rows and the rows from disk into their places.
type sink interface {
	// packed reports whether the sink takes rows from disk in packed form; otherwise the CPU widens them.
	packed() bool
	// matrix allocates a slot's memory for matrices of the given size.
	matrix(b *batch, m *memory, size matrixSize) matrix
	// count adds the memory of the table, and of landing batches, to a layout.
	count(l *featurestore.Layout)
	// open allocates memory for the table of rows of hot.bin. close releases it, also after an error of
	// open.
	open() error
	// fill fills the table from hot.bin, checked, and returns the bytes read.
	fill(ctx context.Context, rep progress.Reporter) (int64, error)
	close() error
	// cache returns the same sink, with a table that batches of policy min change.
	cache() cache
}

// cache is a sink with a table that the batches of policy min change.
type cache interface {
	sink
	// bytes returns the memory of the index of moved entries, in bytes.
	bytes() int64
	// lie replaces entries of a batch's plan by entries of the table, for matrix.take and matrix.admit.
	lie(entries []uint32)
	// set puts rows, in the order of a chunk, into their entries. No batch may be under way.
	set(list []arrival, rows []byte) error
	// moveHome moves rows so that every entry has the row of entry home[entry]. home is a permutation.
	moveHome(home []uint32)
}

// arrival is a row of a batch's matrix for an entry.
type arrival struct{ batch, row, entry uint32 }

// matrixSize has the most rows of the matrices of a slot.
type matrixSize struct {
	rows     int // in all
	disk     int // from disk
	landed   int // from disk through the slot's host memory
	taken    int // from the sink's table
	admitted int // admitted to the table
	eval     bool
}

// hot is the level of the rows in the sink's table, where the entry of a row is its rank. It has all rows
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
