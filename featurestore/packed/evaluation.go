package packed

import (
	"context"
	"fmt"
	"sort"
)

// evaluation is the level of validation and test batches. It reads rows that are not hot from eval.bin,
// and hot rows that are not in memory from hot.bin, both as runs of pages. A batch reads most pages of these
// files: so the sink holds rows that only evaluation batches use, as far as the layout allows.
type evaluation struct {
	src *source
	// Ranks below hot, and places of eval.bin below eval, are in memory.
	hot, eval int64
}

// all reports whether all rows of all evaluation batches are in memory.
func (l evaluation) all() bool {
	f := &l.src.facts
	return l.eval >= f.EvalRows && (l.hot >= f.HotRows || isMin(l.src.pack))
}

// most returns the most rows of a batch with the given number of rows that are read from disk.
func (l evaluation) most(rows int) int {
	if l.all() {
		return 0
	}
	return rows
}

func (l evaluation) part(b *batch, m *memory) part {
	staging := stagingBytes(l.src.facts.RowBytes)
	if l.all() {
		staging = 0
	}
	return &evaluationPart{evaluation: l, b: b, pages: newPageReader(m, staging)}
}

type evaluationPart struct {
	evaluation
	b     *batch
	pages pageReader
}

func (p *evaluationPart) start() error { return nil }

// follow claims the rows that are not in memory: of eval.bin, then of hot.bin. The matrix is ordered
//
//	[ eval.bin: in memory, by ascending place | from disk ] [ hot.bin: from disk, by descending rank | in memory ]
//
// For rows of eval.bin in memory, it replaces the input node by the sink's entry.
func (p *evaluationPart) follow() error {
	b, f := p.b, &p.src.facts
	ids, n := b.decoded.Input, evaluated(p.src.pack, b.ref).Rows
	begin := sort.Search(n, func(i int) bool { return int64(ids[i])-f.HotRows >= p.eval })
	for i := range ids[:begin] {
		ids[i] -= uint32(f.HotRows - p.hot)
	}
	end := n + sort.Search(len(ids)-n, func(i int) bool { return int64(ids[n+i]) < p.hot })
	own, hot := b.claim(begin, n-begin), b.claim(n, end-n)
	err := p.pages.start(b,
		rowList{file: p.src.eval.File, sums: &p.src.eval.sums, ids: ids[begin:n], base: -f.HotRows * int64(f.RowBytes), to: b.matrix.land(own)},
		rowList{file: p.src.hot.File, sums: &p.src.hot.sums, ids: ids[n:end], to: b.matrix.land(hot), descending: true})
	return p.ended(err)
}

func (p *evaluationPart) wait(ctx context.Context, err error) error {
	if err != nil {
		p.pages.drop(p.b)
		return err
	}
	return p.ended(p.pages.finish(ctx, p.b))
}

// ended gives the reads up if err is not nil, and returns err with the name of the batch.
func (p *evaluationPart) ended(err error) error {
	if err == nil {
		return nil
	}
	p.pages.drop(p.b)
	return fmt.Errorf("rows of %v: %w", p.b, err)
}

func (p *evaluationPart) place() error { return nil }
