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
}

// matrixSize says how many rows the matrices of a slot have at most.
type matrixSize struct {
	rows   int // in all
	disk   int // from disk
	landed int // of these, by way of the slot's host memory
	taken  int // from the sink's table
	eval   bool
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
		p.b.matrix.take(s, p.b.Batch.Input[s.to:s.to+s.rows])
	}
	return nil
}
