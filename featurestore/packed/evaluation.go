package packed

import (
	"context"
	"fmt"
)

// evaluation is the level of validation and test batches: it reads rows that are not hot from eval.bin,
// and hot rows that are not in memory from hot.bin, both as runs of pages.
type evaluation struct {
	src  *source
	held int64 // ranks below are in memory
}

func (l evaluation) part(b *batch, m *memory) part {
	return &evaluationPart{evaluation: l, b: b, pages: newPageReader(m, stagingBytes(l.src.facts.RowBytes))}
}

type evaluationPart struct {
	evaluation
	b     *batch
	pages pageReader
}

func (p *evaluationPart) start() error { return nil }

// follow claims the rows of eval.bin, which come first in the matrix, and then the rows of hot.bin that
// are not in memory. Hot rows are in descending order of rank.
func (p *evaluationPart) follow() error {
	b, f := p.b, &p.src.facts
	ids, n := b.decoded.Input, evaluated(p.src.pack, b.ref).Rows
	end := n
	for end < len(ids) && int64(ids[end]) >= p.held {
		end++
	}
	own, hot := b.claim(0, n), b.claim(n, end-n)
	err := p.pages.start(b,
		rowList{file: p.src.eval.File, sums: &p.src.eval.sums, ids: ids[:n], base: -f.HotRows * int64(f.RowBytes), to: b.matrix.land(own)},
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
