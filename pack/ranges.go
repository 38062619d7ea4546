package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// rowSource reads the feature table; *dataset.FeatureReader serves it.
type rowSource interface {
	// ReadRows fills buf with the rows lo ≤ v < hi, checked.
	ReadRows(ctx context.Context, lo, hi int64, buf []byte) error
}

// rangePass is batched packing: it reads the feature table once and writes the
// chunks of all batches, the hot rows and the evaluation rows.
type rangePass struct {
	source   rowSource
	table    string // the source's name, for messages
	from, to dtype.Type
	dim      int
	nodes    int64

	dir     *stage.Dir
	facts   *packfile.Facts
	index   *packfile.Index
	form    packfile.Form
	workers int
	task    progress.Task

	rows  int64 // of one range
	hot   *hotWriter
	eval  *evalWriter
	ssd   *ssdWriter // nil without an SSD level
	state rangeState

	requestsCRC uint32
	requests    []uint32 // mapped; of all batches
	start       []int64  // first request of every batch
	cold        []vfs.File
	ranges      int
}

// rangeState is what a resumed packing needs of the chunks already written:
// all rows below Next are durable.
type rangeState struct {
	Next int64
	// Running is the CRC of the unfinished granule of every (batch, band).
	Running []uint32
	// Sums are the finished checksums of every batch, by its place in the index.
	Sums []uint32
}

func (s *rangeState) clone() rangeState {
	return rangeState{s.Next, slices.Clone(s.Running), slices.Clone(s.Sums)}
}

// prepare lays out the checksum tables and opens the cold files at their size.
func (p *rangePass) prepare() error {
	bands := p.index.Bands
	p.start = make([]int64, len(p.index.Train)+1)
	for i := range p.index.Train {
		p.start[i+1] = p.start[i] + int64(p.index.Train[i].ColdRows(bands-1))
	}
	if p.state.Sums == nil {
		p.state.Sums = make([]uint32, pieces(p.index, p.form))
		p.state.Running = make([]uint32, len(p.index.Train)*bands)
	}
	p.index.SharePieces(p.form, p.state.Sums, nil)
	for g := range groups(p.facts) {
		lo, hi := groupSpan(p.facts, g)
		size := coldSize(p.index.Train[lo:hi])
		if size == 0 {
			p.cold = append(p.cold, nil)
			continue
		}
		f, err := p.dir.FS().OpenReadWrite(p.dir.File(packfile.ColdFile(g)))
		if err != nil {
			return err
		}
		p.cold = append(p.cold, f)
		if st, err := f.Stat(); err != nil {
			return err
		} else if p.state.Next > 0 && st.Size() != size {
			return touched(f.Name(), fmt.Errorf("%d bytes instead of %d", st.Size(), size))
		}
		if err := f.Truncate(size); err != nil {
			return fmt.Errorf("size %s: %w", f.Name(), err)
		}
	}
	return nil
}

func (p *rangePass) rowBytes() int { return p.form.RowBytes }

// groups returns the number of groups of training batches.
func groups(f *packfile.Facts) int {
	n := packfile.GroupBatches(f.Segment)
	return (f.Train + n - 1) / n
}

// groupSpan returns the training batches lo ≤ i < hi of a group.
func groupSpan(f *packfile.Facts, group int) (lo, hi int) {
	n := packfile.GroupBatches(f.Segment)
	return group * n, min((group+1)*n, f.Train)
}

// coldSize returns the bytes of the cold file of a group's batches.
func coldSize(batches []packfile.Train) int64 {
	last := &batches[len(batches)-1]
	return last.ChunkOffset + binio.AlignUp(last.ChunkBytes, binio.Page)
}

// pieces returns the number of pieces of all chunks.
func pieces(x *packfile.Index, f packfile.Form) int {
	n := 0
	for i := range x.Train {
		n += f.NumPieces(x.Train[i].Bands)
	}
	return n
}

// run reads the table range by range. Three things overlap: the next range is
// read while the present one is gathered, and the one before becomes durable.
func (p *rangePass) run(ctx context.Context) (err error) {
	defer func() {
		for _, f := range p.cold {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	if err := p.prepare(); err != nil {
		return err
	}
	reqFile, err := mapped.Open(p.dir.File(requestsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return touched(p.dir.File(requestsFile), err)
	}
	if err != nil {
		return err
	}
	defer reqFile.Close()
	if err := mapped.Guard(func() error { return p.checkRequests(ctx, reqFile.Data()) }, reqFile); err != nil {
		return err
	}
	p.requests = binio.View[uint32](reqFile.Data())

	srcRow := p.dim * p.from.Size()
	var buf [2]*device.Host
	for i := range buf {
		if buf[i], err = device.NewHost(int(p.rows) * srcRow); err != nil {
			return err
		}
		defer buf[i].Free()
	}
	read := func(i int, lo int64) (hi int64, wait func() error) {
		hi = min(lo+p.rows, p.nodes)
		done := make(chan error, 1)
		go func() { done <- p.source.ReadRows(ctx, lo, hi, buf[i].Bytes()[:int(hi-lo)*srcRow]) }()
		return hi, func() error { return <-done }
	}
	saver := newSaver(p)
	defer func() { err = saver.join(err) }()
	lo := int64(0)
	hi, wait := read(0, lo)
	for i := 0; lo < p.nodes; i = 1 - i {
		if err := wait(); err != nil {
			return fmt.Errorf("read rows %d to %d: %w", lo, hi, err)
		}
		nextLo, nextHi := hi, hi
		if hi < p.nodes {
			nextHi, wait = read(1-i, hi)
		} else {
			wait = func() error { return nil }
		}
		rows := buf[i].Bytes()[:int(hi-lo)*srcRow]
		if rows, err = p.convert(rows, lo); err != nil {
			_ = wait() // the other buffer is being read into
			return err
		}
		if err := p.pack(ctx, lo, hi, rows, reqFile); err != nil {
			_ = wait() // the other buffer is being read into
			return err
		}
		p.ranges++
		p.task.Add((hi - lo) * int64(srcRow))
		if err := saver.save(ctx, nextLo); err != nil {
			_ = wait()
			return err
		}
		lo, hi = nextLo, nextHi
	}
	return nil
}

// checkRequests checks the list of rows that the first pass, perhaps of an
// interrupted run, left on disk.
func (p *rangePass) checkRequests(ctx context.Context, list []byte) error {
	crc := uint32(0)
	for b := list; len(b) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(b), writeBuffer)
		crc = binio.UpdateCRC(crc, b[:n])
		b = b[n:]
	}
	if want := 4 * p.start[len(p.start)-1]; int64(len(list)) != want || crc != p.requestsCRC {
		return touched(p.dir.File(requestsFile), errors.New("it does not match its checksum"))
	}
	return nil
}

// convert narrows rows in place: an element never moves up. The first row is
// node first's. Features are finite; one that is not any longer is refused.
func (p *rangePass) convert(rows []byte, first int64) ([]byte, error) {
	if p.from == p.to {
		return rows, nil
	}
	infinity := uint16(0x7C00)
	if p.to == dtype.BFloat16 {
		infinity = 0x7F80
	}
	n := len(rows) / p.from.Size()
	// A piece is converted through a small buffer, so that no element is
	// overwritten before it is read.
	var tmp [2048]uint16 // both narrower types have two bytes
	for done := 0; done < n; {
		k := min(n-done, len(tmp))
		piece := binio.Bytes(tmp[:k])
		dtype.Convert(piece, p.to, rows[done*p.from.Size():(done+k)*p.from.Size()], p.from)
		for i, h := range tmp[:k] {
			if h&infinity == infinity {
				at := int64(done + i)
				return nil, fault.New(fault.ErrInput, "%s: feature %d of node %d is more than %s holds; use another --dtype", p.table, at%int64(p.dim), first+at/int64(p.dim), p.to)
			}
		}
		copy(rows[done*p.to.Size():], piece)
		done += k
	}
	return rows[:n*p.to.Size()], nil
}

// pack writes everything that the rows lo ≤ v < hi belong to.
func (p *rangePass) pack(ctx context.Context, lo, hi int64, rows []byte, reqFile *mapped.File) error {
	outer := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := p.hot.take(lo, hi, rows); err != nil {
			return fmt.Errorf("hot rows: %w", err)
		}
		if err := p.eval.take(lo, hi, rows); err != nil {
			return fmt.Errorf("evaluation rows: %w", err)
		}
		return nil
	})
	if hi <= p.state.Next {
		return g.Wait() // an earlier run has these rows' chunks
	}
	// New names: the goroutine above still reads the old ones.
	from := max(lo, p.state.Next)
	rest := rows[len(rows)-int(hi-from)*p.rowBytes():]
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
			w := chunkWriter{p: p, buf: make([]byte, 0, max(writeBuffer, p.rowBytes()))}
			for i := range jobs {
				err := mapped.Guard(func() error { return w.batch(i, from, hi, rest) }, reqFile)
				if err != nil {
					return fmt.Errorf("chunk of batch %d: %w", i, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil || p.ssd == nil {
		return err
	}
	return p.ssd.take(outer, from, hi, rest)
}

// writeBuffer gathers rows for one write; each worker has one.
const writeBuffer = 1 << 20

// chunkWriter gathers one batch's rows of a range at a time.
type chunkWriter struct {
	p   *rangePass
	buf []byte
}

// batch writes the rows lo ≤ v < hi of every band of a chunk.
func (w *chunkWriter) batch(i int, lo, hi int64, rows []byte) error {
	p := w.p
	t := &p.index.Train[i]
	req := p.requests[p.start[i]:p.start[i+1]]
	off, sums := t.ChunkOffset, t.Sums
	for band, n := range t.Bands {
		ids := req[:n]
		first, _ := slices.BinarySearch(ids, uint32(lo))
		last := n
		if hi < p.nodes {
			last, _ = slices.BinarySearch(ids, uint32(hi))
		}
		if first < last {
			c := bandSums{sums: sums, pos: int64(first) * int64(p.rowBytes()), crc: &p.state.Running[i*len(t.Bands)+band], end: int64(n) * int64(p.rowBytes())}
			if err := w.band(p.cold[i/packfile.GroupBatches(p.facts.Segment)], off, ids[first:last], lo, rows, &c); err != nil {
				return err
			}
		}
		req = req[n:]
		sums = sums[p.form.NumPieces(t.Bands[band:band+1]):]
		off += int64(n) * int64(p.rowBytes())
	}
	return nil
}

// band writes the rows of the given nodes behind the band's earlier ones.
func (w *chunkWriter) band(f vfs.File, base int64, ids []uint32, lo int64, rows []byte, c *bandSums) error {
	rb := w.p.rowBytes()
	for len(ids) > 0 {
		n := min(len(ids), cap(w.buf)/rb)
		w.buf = w.buf[:n*rb]
		for k, v := range ids[:n] {
			at := int(int64(v)-lo) * rb
			copy(w.buf[k*rb:(k+1)*rb], rows[at:at+rb])
		}
		off := base + c.pos
		c.update(w.buf)
		if _, err := f.WriteAt(w.buf, off); err != nil {
			return fmt.Errorf("write %s: %w", f.Name(), err)
		}
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
