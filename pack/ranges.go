package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/internal/table"
	"diskgnn/pack/packfile"
)

// rows runs the second pass. It returns the files that are finished then: hot rows, those
// of evaluation and the SSD level.
func (p *Packing) rows(ctx context.Context, d *cut.Decision, m allotment, first *firstPass, w *work) ([]stage.File, error) {
	f := p.ds.Facts()
	source, err := p.ds.Features()
	if err != nil {
		return nil, err
	}
	defer source.Close()
	w.tableRead = source.Extent(0, f.Nodes).Size
	task := p.rep.Task("pack rows", p.facts.TableBytes, progress.Bytes)
	defer task.Done()
	rows, err := table.New(source, p.stack, f.DType, p.facts.DType, f.Dim, p.o.Workers)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out, err := rowfile.NewWriters(p.o.Workers)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	pass := &rangePass{
		table: rows, out: out, nodes: f.Nodes,
		dir: p.dir, open: p.files, facts: &first.facts, index: first.index, form: p.rawForm(), compressed: p.form().Compressed(), workers: p.o.Workers, task: task, rows: m.rangeRows, requestsCRC: first.requests,
	}
	x, groups := first.index, 0
	if len(x.Segments) > 0 {
		groups = first.facts.Groups()
	}
	if err := pass.state.load(p.fs, p.dir.File(stateFile), x.Bands*len(x.Train), pieces(x, p.rawForm()), groups); err != nil {
		return nil, err
	}
	if pass.state.Next > 0 {
		p.rep.Logf("resuming: the chunks of rows below %d are packed already", pass.state.Next)
	}
	if d.Part.Common {
		if pass.once, err = p.newOnceRows(d, m, first, out); err != nil {
			return nil, err
		}
		defer pass.once.close()
	}
	if groups > 0 {
		if pass.ssd, err = newSSDWriter(ctx, p.files, x, &first.facts, p.o.Workers, first.ssdRequests, &pass.state); err != nil {
			return nil, err
		}
		defer pass.ssd.close()
	}
	if err := pass.run(ctx); err != nil {
		return nil, err
	}
	w.ranges = pass.ranges
	files, err := pass.once.finish(ctx)
	if err != nil {
		return nil, err
	}
	if pass.ssd != nil {
		ssd, err := pass.ssd.finish()
		if err != nil {
			return nil, fmt.Errorf("SSD level: %w", err)
		}
		files = append(files, ssd...)
	}
	return files, nil
}

// rangePass is batched packing: it reads the feature table once and writes the
// chunks of all batches, the hot rows and the evaluation rows.
type rangePass struct {
	table *table.Reader
	out   *rowfile.Writers
	nodes int64

	dir     *stage.Dir
	open    *rowfile.Set
	facts   *packfile.Facts
	index   *packfile.Index
	form    packfile.Form
	workers int
	task    progress.Task

	compressed bool // the chunks will be: they go to scratch files

	rows  int64 // of one range, at most
	once  *onceRows
	ssd   *ssdWriter // nil without an SSD level
	state rangeState

	requestsCRC uint32
	requests    []uint32 // mapped; of all batches
	start       []int64  // first request of every batch
	cold        []*rowfile.File
	ranges      int
}

// prepare lays out the checksum tables and makes the cold files at their size, or makes
// sure of what an interrupted run wrote to them.
func (p *rangePass) prepare(ctx context.Context, reqFile *mapped.File) error {
	bands := p.index.Bands
	if p.state.Sums == nil {
		p.state.Sums = make([]uint32, pieces(p.index, p.form))
		p.state.Running = make([]uint32, len(p.index.Train)*bands)
	}
	p.index.SharePieces(p.form, p.state.Sums, nil)
	if p.compressed && p.state.Next >= p.nodes {
		return nil // the scratch files of some groups may be gone
	}
	var kept []keptFile
	for g := range p.facts.Groups() {
		lo, hi := p.facts.GroupSpan(g)
		size := coldSize(p.index.Train[lo:hi])
		if size == 0 {
			p.cold = append(p.cold, nil)
			continue
		}
		name := packfile.ColdFile(g)
		if p.compressed {
			name = rawFile(g)
		}
		if p.state.Next > 0 {
			p.cold = append(p.cold, p.open.File(name))
			kept = append(kept, keptFile{name, size, p.regions(lo, hi)})
			continue
		}
		f, err := p.open.Create(name, size)
		if err != nil {
			return err
		}
		p.cold = append(p.cold, f)
	}
	return checkKept(ctx, p.dir, kept, reqFile)
}

// regions yields what an interrupted run wrote to the chunks of the batches lo ≤ i < hi:
// of each band its rows below state.Next, of which the last checksum is still under way.
func (p *rangePass) regions(lo, hi int) iter.Seq[region] {
	const granule = packfile.ColdGranule
	return func(yield func(region) bool) {
		for i := lo; i < hi; i++ {
			t := &p.index.Train[i]
			off, sums, req := t.ChunkOffset, t.Sums, p.requests[p.start[i]:p.start[i+1]]
			for band, n := range t.Bands {
				size := int64(n) * int64(p.rowBytes())
				done, _ := slices.BinarySearch(req[:n], uint32(p.state.Next))
				if p.state.Next >= p.nodes {
					done = n
				}
				written := int64(done) * int64(p.rowBytes())
				for at := int64(0); at < written; at += granule {
					r := region{off: off + at, size: min(granule, written-at), crc: sums[at/granule]}
					if at+r.size == written && r.size < granule && written < size {
						r.crc = p.state.Running[i*len(t.Bands)+band]
					}
					if !yield(r) {
						return
					}
				}
				if written < size && !yield(region{off: off + written, size: size - written, rewritten: true}) {
					return
				}
				off, req, sums = off+size, req[n:], sums[p.form.NumPieces(t.Bands[band:band+1]):]
			}
		}
	}
}

func (p *rangePass) rowBytes() int { return p.form.RowBytes }

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
func (p *rangePass) run(ctx context.Context) error {
	defer func() {
		for _, f := range p.cold {
			if f != nil {
				f.Close()
			}
		}
	}()
	p.start = make([]int64, len(p.index.Train)+1)
	for i := range p.index.Train {
		p.start[i+1] = p.start[i] + int64(p.index.Train[i].ColdRows(p.index.Bands-1))
	}
	reqFile, err := mapped.Open(p.dir.File(requestsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return touched(p.dir.File(requestsFile), err)
	}
	if err != nil {
		return err
	}
	defer reqFile.Close()
	err = mapped.Guard(func() error {
		if err := p.checkRequests(ctx, reqFile.Data()); err != nil {
			return err
		}
		p.requests = binio.View[uint32](reqFile.Data())
		return nil
	}, reqFile)
	if err != nil {
		return err
	}
	if err := p.prepare(ctx, reqFile); err != nil {
		return err
	}
	return p.ranged(ctx, reqFile)
}

// ranged is run once everything is open.
func (p *rangePass) ranged(ctx context.Context, reqFile *mapped.File) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var buf [2]*device.Host // the second only if there is a second range
	for i := range buf {
		if i == 0 || p.rows < p.nodes {
			if buf[i], err = device.NewHost(int(p.rows) * p.rowBytes()); err != nil {
				return err
			}
			defer buf[i].Free()
		}
	}
	read := func(i int, lo int64) (hi int64, wait func() error) {
		hi = p.table.End(lo, p.rows, p.nodes)
		done := make(chan error, 1)
		go func() {
			defer fault.Crash()
			done <- p.table.Read(ctx, lo, hi, buf[i].Bytes())
		}()
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
		err := p.pack(ctx, lo, hi, buf[i].Bytes()[:int(hi-lo)*p.rowBytes()], reqFile)
		p.ranges++
		p.task.Add((hi - lo) * p.table.RowBytes())
		if err == nil {
			err = saver.save(ctx, nextLo)
		}
		if err != nil {
			cancel()
			_ = wait() // the other buffer is being read into
			return err
		}
		lo, hi = nextLo, nextHi
	}
	return nil
}

// writeBuffer is what a worker gathers for one write through the page cache.
const writeBuffer = 1 << 20

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

// pack writes everything that the rows lo ≤ v < hi belong to.
func (p *rangePass) pack(ctx context.Context, lo, hi int64, rows []byte, reqFile *mapped.File) error {
	if err := p.gather(ctx, lo, hi, rows, reqFile); err != nil {
		_ = p.out.Drain() // the rows may be written over now, and files closed
		return errors.Join(err, p.out.Failed())
	}
	if err := p.out.Drain(); err != nil || p.ssd == nil {
		return err
	}
	from := max(lo, p.state.Next)
	if hi <= from {
		return nil
	}
	return p.ssd.take(ctx, from, hi, rows[int(from-lo)*p.rowBytes():])
}
