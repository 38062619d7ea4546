package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/internal/binio"
	"diskgnn/pack/packfile"
)

// sharedRows is the SSD level: rows that several batches of a segment use, read as runs of pages. Rows of
// the bands after through are in memory.
type sharedRows struct {
	src     *source
	through int
}

func (l sharedRows) part(b *batch, m *memory) part {
	return &sharedPart{sharedRows: l, b: b, pages: newPageReader(m, l.staging())}
}

// staging returns the size of a staging buffer, in bytes: for the largest batch, but at most stagingBytes.
func (l sharedRows) staging() int64 {
	most := int64(0)
	for i := range l.src.pack.Index().Train {
		most = max(most, int64(l.src.pack.Index().Train[i].SSDRows(l.through)))
	}
	rb := l.src.facts.RowBytes
	row := binio.AlignUp(int64(rb), binio.Page) + binio.Page // with the other parts of its pages
	return min(stagingBytes(rb), most*row)
}

type sharedPart struct {
	sharedRows
	b     *batch
	pages pageReader
	file  *cachedFile // nil: no read is under way
}

func (p *sharedPart) start() error { return nil }

// follow claims the rows of the level, which follow the cold rows in the matrix, and submits the first reads.
func (p *sharedPart) follow() error {
	if err := p.read(); err != nil {
		return fmt.Errorf("SSD level of %v: %w", p.b, err)
	}
	return nil
}

func (p *sharedPart) read() (err error) {
	b, r, t := p.b, p.src.pack, p.b.train()
	c := b.claim(t.ColdRows(r.Index().Bands-1), t.SSDRows(p.through))
	if c.rows == 0 {
		return nil
	}
	to := b.matrix.land(c)
	group := r.Group(b.ref.Index)
	if p.file, err = p.src.files.Take(packfile.SSDFile(group)); err != nil {
		return err
	}
	sums, err := p.file.Note.load(p.src.fs, r, packfile.SSDSums(group))
	if err != nil {
		return err
	}
	before := b.BytesRead
	err = p.pages.start(b, rowList{file: p.file.File, sums: sums, ids: b.plan.SSD[:c.rows],
		base: r.Index().Segments[r.SegmentOf(b.ref.Index)].Offset, to: to})
	b.SSDRead += b.BytesRead - before
	if err != nil {
		p.pages.drop(b)
	}
	return err
}

func (p *sharedPart) wait(ctx context.Context, err error) error {
	if p.file == nil {
		return err
	}
	b := p.b
	read, useful := b.BytesRead, b.UsefulBytes
	if err == nil {
		if err = p.pages.finish(ctx, b); err != nil {
			err = fmt.Errorf("SSD level of %v: %w", b, err)
		}
	}
	if err != nil {
		p.pages.drop(b)
	}
	b.SSDRead += b.BytesRead - read
	b.SSDUseful += b.UsefulBytes - useful
	f := p.file
	p.file = nil
	return errors.Join(err, p.src.files.Give(f))
}

func (p *sharedPart) place() error { return nil }
