package pack

import (
	"context"
	"fmt"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/mapped"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// gather copies the rows lo ≤ v < hi, which are in memory, to wherever they belong:
// hot and evaluation rows on some goroutines, the chunks' on the workers.
func (p *rangePass) gather(ctx context.Context, lo, hi int64, rows []byte, reqFile *mapped.File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.once.take(ctx, lo, hi, rows) })
	from := max(lo, p.state.Next)
	if hi <= from {
		return g.Wait() // an earlier run has these rows' chunks
	}
	rest := rows[int(from-lo)*p.rowBytes():] // the goroutine above reads rows
	jobs := make(chan int)
	g.Go(func() error {
		defer close(jobs)
		for i := range p.index.Train {
			select {
			case jobs <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range p.workers {
		g.Go(func() error {
			w := chunkWriter{p: p, out: p.out.Stream()}
			defer w.out.Flush()
			for i := range jobs {
				err := mapped.Guard(func() error { return w.batch(ctx, i, from, hi, rest) }, reqFile)
				if err != nil {
					return fmt.Errorf("chunk of batch %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// chunkWriter gathers one batch's rows of a range at a time.
type chunkWriter struct {
	p   *rangePass
	out rowfile.Stream
}

// batch writes the rows lo ≤ v < hi of every band of a chunk.
func (w *chunkWriter) batch(ctx context.Context, i int, lo, hi int64, rows []byte) error {
	p := w.p
	t := &p.index.Train[i]
	req := p.requests[p.start[i]:p.start[i+1]]
	file := p.cold[i/packfile.GroupBatches(p.facts.Segment)]
	off, sums := t.ChunkOffset, t.Sums
	for band, n := range t.Bands {
		ids := req[:n]
		first, _ := slices.BinarySearch(ids, uint32(lo))
		last := n
		if hi < p.nodes {
			last, _ = slices.BinarySearch(ids, uint32(hi))
		}
		size := int64(n) * int64(p.rowBytes())
		if first < last {
			c := bandSums{sums: sums, pos: int64(first) * int64(p.rowBytes()), crc: &p.state.Running[i*len(t.Bands)+band], end: size}
			if err := w.out.Seek(ctx, file, off+c.pos); err != nil {
				return err
			}
			if err := w.band(ctx, ids[first:last], lo, rows, &c); err != nil {
				return err
			}
		}
		req = req[n:]
		sums = sums[p.form.NumPieces(t.Bands[band:band+1]):]
		off += size
	}
	if end := t.ChunkOffset + t.ChunkBytes; hi == p.nodes && w.out.At(file, end) {
		return w.out.Write(ctx, zeros[:binio.AlignUp(end, binio.Page)-end]) // whole pages are written faster
	}
	return nil
}

var zeros [binio.Page]byte

// gatherBytes is what is gathered before its checksum is computed, so that this finds
// it in the cache.
const gatherBytes = 64 << 10

// band writes the rows of the given nodes, the first of which is row lo's place in
// rows, to the stream.
func (w *chunkWriter) band(ctx context.Context, ids []uint32, lo int64, rows []byte, c *bandSums) error {
	rb := w.p.rowBytes()
	for len(ids) > 0 {
		room, err := w.out.Room(ctx)
		if err != nil {
			return err
		}
		n := min(len(ids), len(room)/rb, max(gatherBytes/rb, 1))
		if n == 0 { // a block ends inside the row
			at := int(int64(ids[0])-lo) * rb
			row := rows[at : at+rb]
			c.update(row)
			if err := w.out.Write(ctx, row); err != nil {
				return err
			}
			ids = ids[1:]
			continue
		}
		dst := room[:n*rb]
		for k, v := range ids[:n] {
			at := int(int64(v)-lo) * rb
			copy(dst[k*rb:(k+1)*rb], rows[at:at+rb])
		}
		c.update(dst)
		w.out.Filled(len(dst))
		ids = ids[n:]
	}
	return nil
}

// bandSums computes a band's checksums as its rows arrive in order.
type bandSums struct {
	sums []uint32 // of the band, granule by granule
	pos  int64    // bytes of the band so far
	end  int64    // bytes of the band
	crc  *uint32  // of the granule under way
}

func (c *bandSums) update(b []byte) {
	for len(b) > 0 {
		n := min(packfile.ColdGranule-c.pos%packfile.ColdGranule, int64(len(b)))
		*c.crc = binio.UpdateCRC(*c.crc, b[:n])
		c.pos += n
		b = b[n:]
		if c.pos%packfile.ColdGranule == 0 || c.pos == c.end {
			c.sums[(c.pos-1)/packfile.ColdGranule] = *c.crc
			*c.crc = 0
		}
	}
}
