package packed

import (
	"context"
	"fmt"
	"sort"

	"diskgnn/featurestore/internal/copier"
)

// evaluation is the level of validation and test batches. It reads rows that are not hot from eval.bin,
// and hot rows that are not in memory from hot.bin, both as runs of pages. A batch reads most pages of these
// files: so the sink holds rows that only evaluation batches use, as far as the layout allows. If validation
// batches have chunks, their rows that are not in memory are one range of their chunk.
type evaluation struct {
	src    *source
	copies *copier.Copier
	packed bool // the sink takes rows in packed form
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
	return &evaluationPart{evaluation: l, b: b, chunk: newEvalChunk(l.src, l.copies, !l.packed && !l.all(), m), pages: newPageReader(m, staging)}
}

type evaluationPart struct {
	evaluation
	b     *batch
	chunk *evalChunk
	pages pageReader
}

func (p *evaluationPart) start() error { return nil }

// follow claims the rows that are not in memory: of eval.bin, then of hot.bin. The matrix is ordered
//
//	[ eval.bin: in memory, by ascending place | from disk ] [ hot.bin: from disk, by descending rank | in memory ]
//
// For rows of eval.bin in memory, it replaces the input node by the sink's entry. A chunk has the rows of the
// matrix from the first on, until rows follow that are always in the cache.
func (p *evaluationPart) follow() error {
	b, f, e := p.b, &p.src.facts, evaluated(p.src.pack, p.b.ref)
	ids, n := b.decoded.Input, e.Rows
	begin := sort.Search(n, func(i int) bool { return int64(ids[i])-f.HotRows >= p.eval })
	end := n + sort.Search(len(ids)-n, func(i int) bool { return int64(ids[n+i]) < p.hot })
	if begin < min(e.Cold, end) { // reads of chunks begin on pages
		begin -= begin % chunkPeriod(f.RowBytes)
	}
	for i := range ids[:begin] {
		ids[i] -= uint32(f.HotRows - p.hot)
	}
	to, rb := b.matrix.land(b.claim(begin, end-begin)), int64(f.RowBytes)
	in := max(begin, min(e.Cold, end)) // rows before are in the chunk
	own := max(in, n)
	if err := p.chunk.start(b, e, begin, in-begin, to); err != nil {
		return p.ended(err)
	}
	err := p.pages.start(b,
		rowList{file: p.src.eval.File, sums: &p.src.eval.sums, ids: ids[min(in, n):n], base: -f.HotRows * rb, to: to.from(in-begin, f)},
		rowList{file: p.src.hot.File, sums: &p.src.hot.sums, ids: ids[own:end], to: to.from(own-begin, f), descending: true})
	return p.ended(err)
}

func (p *evaluationPart) wait(ctx context.Context, err error) error {
	if err != nil {
		p.drop()
		return err
	}
	// The chunk comes first: pages put rows where its last page may have left other bytes.
	if err := p.chunk.finish(ctx, p.b); err != nil {
		return p.ended(err)
	}
	return p.ended(p.pages.finish(ctx, p.b))
}

// ended gives the reads up if err is not nil, and returns err with the name of the batch.
func (p *evaluationPart) ended(err error) error {
	if err == nil {
		return nil
	}
	p.drop()
	return fmt.Errorf("rows of %v: %w", p.b, err)
}

func (p *evaluationPart) drop() {
	p.chunk.drop()
	p.pages.drop(p.b)
}

func (p *evaluationPart) place() error { return nil }
