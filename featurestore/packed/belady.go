package packed

import (
	"context"
	"fmt"

	"diskgnn/internal/progress"
)

// belady is the cache of policy min, together with the cold level, which supplies admitted rows. Every
// batch's plan has the entries of its hits, and the entries that take some of its cold rows afterwards. So
// batches must be assembled in the pack's order, around the circle of sample epochs, by one goroutine.
type belady struct {
	refills
	// home is, by entry, the row of hot.bin in the entry after the last batch.
	home []uint32
	next int // the batch that the entries are for, or Train: the first batch, after moveHome; or noBatch
}

// noBatch says that the content of the entries is undefined.
const noBatch = -1

// bytes returns the memory of the level without the cache's rows, in bytes: home, the list of arrivals of a
// refill, the index of moved rows, and kept admitted rows.
func (l *belady) bytes() int64 {
	return 16*l.src.facts.HotRows + l.cache.bytes() + l.cold.form.memory()
}

// fill brings the cache to its content before the given training batch: from the first content, by the last
// refill record before the batch, and by the admissions of the batches since.
func (l *belady) fill(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	l.next = noBatch
	read, err := l.cache.fill(ctx, rep)
	if err != nil {
		return 0, err
	}
	n, err := l.loadHome(ctx, &l.home)
	if err != nil {
		return 0, fmt.Errorf("fill the cache: %w", err)
	}
	read += n
	if n, err = l.replay(ctx, batch, rep); err != nil {
		return 0, fmt.Errorf("refill the cache for batch %d: %w", batch, err)
	}
	l.next = batch
	return read + n, nil
}

func (l *belady) part(b *batch, m *memory) part {
	return &beladyPart{chunkRows: l.cold.newPart(b, m), cache: l, b: b}
}

type beladyPart struct {
	chunkRows
	cache *belady
	b     *batch
}

// place completes the matrix of the next batch with its hits, and admits rows by the batch's plan.
func (p *beladyPart) place() error {
	if err := p.chunkRows.place(); err != nil {
		return err
	}
	l, b := p.cache, p.b
	if l.next == l.src.facts.Train && b.ref.Index == 0 { // around the circle
		l.cache.moveHome(l.home)
		l.next = 0
	}
	if b.ref.Index != l.next {
		return fmt.Errorf("%v is assembled out of order: the cache is at batch %d", b, l.next)
	}
	l.cache.lie(b.plan.Hits)
	l.cache.lie(b.plan.Admit)
	for _, s := range b.rest() {
		b.matrix.take(s, b.plan.Hits[s.from:s.from+s.rows])
	}
	if n := len(b.plan.Admit); n > 0 {
		from := b.train().Bands[0]
		b.matrix.admit(from, p.packed(from), b.plan.Admit)
	}
	l.next++
	return nil
}
