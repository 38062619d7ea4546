package pack

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/prefetch"
	"diskgnn/internal/stage"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// chunks are the chunks of all batches of a part, written range by range of the table.
type chunks struct {
	dir     *stage.Dir
	files   *rowfile.Set
	facts   *packfile.Facts
	index   *packfile.Index
	form    packfile.Form // as they are written here
	raw     bool          // to scratch files, to be compressed
	workers int

	lists rowList // the rows of every chunk
	state rangeState
	cold  []*rowfile.File // by group; nil where there are no rows
}

// open opens the list of rows, lays out the checksum tables and creates the cold files at their full
// size. Given the state of an interrupted run, it checks the rows written to them.
func (c *chunks) open(ctx context.Context, crc uint32) (err error) {
	start := make([]int64, len(c.index.Train)+1)
	for i := range c.index.Train {
		start[i+1] = start[i] + int64(c.index.Train[i].ColdRows(c.index.Bands-1))
	}
	if c.lists, err = openRowList(ctx, c.dir, requestsFile, start, crc); err != nil {
		return err
	}
	if c.state.Sums == nil {
		c.state.Sums = make([]uint32, pieces(c.index, c.form))
		c.state.Running = make([]uint32, len(c.index.Train)*c.index.Bands)
	}
	c.index.SharePieces(c.form, c.state.Sums, nil)
	if c.raw && c.state.Next >= c.facts.Nodes {
		return nil // the scratch files of some groups may be gone
	}
	var kept []keptFile
	for g := range c.facts.Groups() {
		lo, hi := c.facts.GroupSpan(g)
		size := coldSize(c.index.Train[lo:hi])
		if size == 0 {
			c.cold = append(c.cold, nil)
			continue
		}
		name := packfile.ColdFile(g)
		if c.raw {
			name = rawFile(g)
		}
		if c.state.Next > 0 {
			c.cold = append(c.cold, c.files.File(name))
			kept = append(kept, keptFile{name, size, c.regions(lo, hi)})
			continue
		}
		f, err := c.files.Create(name, size)
		if err != nil {
			return err
		}
		c.cold = append(c.cold, f)
	}
	return checkKept(ctx, c.dir, kept, c.lists.file)
}

// regions yields the regions that an interrupted run wrote to the chunks of the batches lo ≤ i < hi: in
// each band the rows of the nodes below state.Next. The checksum of the last region covers a part of a
// granule.
func (c *chunks) regions(lo, hi int) iter.Seq[region] {
	const granule = packfile.ColdGranule
	return func(yield func(region) bool) {
		for i := lo; i < hi; i++ {
			t := &c.index.Train[i]
			off, sums, req := t.ChunkOffset, t.Sums, c.lists.of(i)
			for band, n := range t.Bands {
				size := int64(n) * int64(c.form.RowBytes)
				done, _ := slices.BinarySearch(req[:n], uint32(c.state.Next))
				if c.state.Next >= c.facts.Nodes {
					done = n
				}
				written := int64(done) * int64(c.form.RowBytes)
				for at := int64(0); at < written; at += granule {
					r := region{off: off + at, size: min(granule, written-at), crc: sums[at/granule]}
					if at+r.size == written && r.size < granule && written < size {
						r.crc = c.state.Running[i*len(t.Bands)+band]
					}
					if !yield(r) {
						return
					}
				}
				if written < size && !yield(region{off: off + written, size: size - written, rewritten: true}) {
					return
				}
				off, req, sums = off+size, req[n:], sums[c.form.NumPieces(t.Bands[band:band+1]):]
			}
		}
	}
}

// close closes the files that are open, finished or not, and the list.
func (c *chunks) close() {
	for _, f := range c.cold {
		if f != nil {
			f.Close()
		}
	}
	c.lists.close()
}

// take writes the rows of the nodes lo ≤ v < hi to their places in all chunks, through out. rows holds them
// in node order.
func (c *chunks) take(ctx context.Context, out *rowfile.Writers, lo, hi int64, rows []byte) error {
	g, ctx := errgroup.WithContext(ctx)
	jobs := make(chan int)
	g.Go(func() error {
		defer close(jobs)
		for i := range c.index.Train {
			select {
			case jobs <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range c.workers {
		g.Go(func() error {
			w := chunkWriter{c: c, out: out.Stream()}
			defer w.out.Flush()
			for i := range jobs {
				if err := c.lists.guard(func() error { return w.batch(ctx, i, lo, hi, rows) }); err != nil {
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
	c   *chunks
	out rowfile.Stream
}

// batch writes the rows lo ≤ v < hi of every band of a chunk.
func (w *chunkWriter) batch(ctx context.Context, i int, lo, hi int64, rows []byte) error {
	c := w.c
	t := &c.index.Train[i]
	req := c.lists.of(i)
	file := c.cold[i/packfile.GroupBatches(c.facts.Segment)]
	off, sums := t.ChunkOffset, t.Sums
	for band, n := range t.Bands {
		ids := req[:n]
		first, _ := slices.BinarySearch(ids, uint32(lo))
		last := n
		if hi < c.facts.Nodes {
			last, _ = slices.BinarySearch(ids, uint32(hi))
		}
		size := int64(n) * int64(c.form.RowBytes)
		if first < last {
			s := bandSums{sums: sums, pos: int64(first) * int64(c.form.RowBytes), crc: &c.state.Running[i*len(t.Bands)+band], end: size}
			if err := w.out.Seek(ctx, file, off+s.pos); err != nil {
				return err
			}
			if err := w.band(ctx, ids[first:last], lo, rows, &s); err != nil {
				return err
			}
		}
		req = req[n:]
		sums = sums[c.form.NumPieces(t.Bands[band:band+1]):]
		off += size
	}
	if end := t.ChunkOffset + t.ChunkBytes; hi == c.facts.Nodes && w.out.At(file, end) {
		return w.out.Write(ctx, zeros[:binio.AlignUp(end, binio.Page)-end]) // whole pages are written faster
	}
	return nil
}

// gatherBytes is the number of bytes that are gathered before their checksum is computed: they are then
// still in the processor's cache.
const gatherBytes = 64 << 10

// band writes the rows of the given nodes to the stream. rows begins with the row of node lo.
func (w *chunkWriter) band(ctx context.Context, ids []uint32, lo int64, rows []byte, c *bandSums) error {
	rb := w.c.form.RowBytes
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
			if next := k + prefetch.RowsAhead; next < len(ids) {
				prefetch.Row(rows[int(int64(ids[next])-lo)*rb:][:rb])
			}
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
