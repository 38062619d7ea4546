package packed

import (
	"context"
	"math/bits"

	"diskgnn/device"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// evalChunk reads a range of rows of a validation batch's chunk. The range is whole pages, as these have
// checksums: it lands in the places of its rows, and up to a page beyond them. If places have no memory for
// packed rows, it lands in memory of the slot.
type evalChunk struct {
	src    *source
	copies *copier.Copier
	wire   *device.Host // nil: places have memory for packed rows

	group iostack.Group
	pages []byte // that are read
	off   int64  // of pages in the file
	rows  int    // 0: no read is under way
	to    places
}

// newEvalChunk returns a reader for a slot. If wire is set, it takes the slot's memory for chunks out of m.
func newEvalChunk(src *source, copies *copier.Copier, wire bool, m *memory) *evalChunk {
	c := &evalChunk{src: src, copies: copies}
	if !wire {
		return c
	}
	most := 0
	for i := range src.pack.Index().Valid {
		most = max(most, src.pack.Index().Valid[i].Cold)
	}
	c.wire = m.land(int64(most) * int64(src.facts.RowBytes))
	return c
}

// chunkPeriod returns the number of rows after which rows begin on a page again: a power of two, as a page is.
func chunkPeriod(rowBytes int) int { return max(1, binio.Page>>bits.TrailingZeros(uint(rowBytes))) }

// start submits the read of rows rows of the chunk of e, from row first on, which begins on a page.
func (c *evalChunk) start(b *batch, e *packfile.Eval, first, rows int, to places) error {
	c.rows, c.to = rows, to
	if rows == 0 {
		return nil
	}
	rb := int64(c.src.facts.RowBytes)
	room := to.rows
	if c.wire != nil {
		room = c.wire.Bytes()
	}
	c.off, c.pages = e.ChunkOffset+int64(first)*rb, room[:binio.AlignUp(int64(rows)*rb, binio.Page)]
	return b.submit(&c.group, iostack.Request{File: c.src.chunks.File, Offset: c.off, Buf: c.pages})
}

// finish returns when the rows were checked and are in their places. The bytes after them, up to the end of
// a page, are undefined.
func (c *evalChunk) finish(ctx context.Context, b *batch) error {
	if c.rows == 0 {
		return nil
	}
	if err := c.src.stack.Wait(ctx, &c.group); err != nil {
		return err
	}
	if err := c.copies.Run(c, (len(c.pages)+packfile.ColdGranule-1)/packfile.ColdGranule); err != nil {
		return err
	}
	f, rows := &c.src.facts, c.rows
	c.rows = 0
	if c.wire != nil {
		c.copies.Widen(c.to.x[:rows*f.Dim], c.pages, f.DType, f.Dim)
	}
	b.UsefulBytes += int64(rows) * int64(f.RowBytes)
	return nil
}

// Do checks parts of the pages.
func (c *evalChunk) Do(lo, hi int, _ *[]byte) error {
	from, to := lo*packfile.ColdGranule, min(hi*packfile.ColdGranule, len(c.pages))
	return c.src.chunks.sums.Verify(c.src.chunks.Name(), c.off+int64(from), c.pages[from:to])
}

// drop gives the read up. No page lands after it returns.
func (c *evalChunk) drop() {
	iostack.Drop(c.src.stack, &c.group)
	c.rows = 0
}
