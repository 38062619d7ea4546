package memory

import (
	"context"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/progress"
)

// hostTable has all rows in RAM, by node, in the dataset's type. The CPU gathers.
type hostTable struct {
	machine.RAM
	facts *featurestore.Facts
}

func (t *hostTable) bytes() int64 { return t.facts.Nodes * int64(t.facts.RowBytes) }

func (t *hostTable) count(l *featurestore.Layout) {
	l.RAMBytes = machine.Pages(t.bytes())
}

func (t *hostTable) open() error { return t.Open(t.bytes()) }

func (t *hostTable) close() { t.Close() }

// fill reads the pieces into their places.
func (t *hostTable) fill(ctx context.Context, r *tableReader, _ []uint32, rep progress.Reporter) (int64, error) {
	rows := t.Rows.Bytes()
	return r.read(ctx, rep, pieces{
		room: func(_ int, at, n int64) ([]byte, error) { return rows[at : at+n], nil },
		take: func(int, []byte) error { return nil },
	})
}

func (t *hostTable) matrix(eval bool) (machine.Entries, error) { return t.NewEntries(t.facts, eval) }

func (t *hostTable) name(list, input, ranks []uint32) int {
	copy(list, input)
	for i, v := range input {
		input[i] = ranks[v]
	}
	return 0
}
