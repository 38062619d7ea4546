package pack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// evalChunks is the pass that follows the ranges if validation batches have chunks. A chunk has rows of
// eval.bin by ascending place, and then rows of hot.bin by descending rank. So in every chunk the rows of a
// window of either file are adjacent: both files, which are finished, are read once, window by window.
type evalChunks struct {
	dir   *stage.Dir
	stack iostack.Stack
	facts *packfile.Facts
	valid []packfile.Eval

	rows   int64 // of a window
	window *device.Host
	graphs vfs.File // eval-graph.bin
	slots  []*chunkSlot
	out    *rowfile.File
	sums   *binio.Scatter
	task   progress.Task
}

// chunkSlot has the memory of one batch.
type chunkSlot struct {
	raw   []byte
	input []uint32
	buf   []byte
}

// chunkSlotBytes returns the memory of a slot for graphs that take the given memory, in bytes.
func chunkSlotBytes(graph int64, rowBytes int) int64 {
	return graph + int64(max(writeBuffer, rowBytes))
}

// evalChunks writes the chunks of validation batches, if the part has them, and describes their files. rows
// are the files that the ranges finished.
func (p *Packing) evalChunks(ctx context.Context, d *cut.Decision, m allotment, first *firstPass, rows []stage.File) (_ []stage.File, err error) {
	x, f := first.index, &first.facts
	if !x.EvalChunks || !d.Part.Common {
		return nil, nil
	}
	size, rb := int64(0), int64(f.RowBytes)
	if n := len(x.Valid); n > 0 {
		last := &x.Valid[n-1]
		size = last.ChunkOffset + binio.AlignUp(int64(last.Cold)*rb, binio.Page)
	}
	least := x.Edges[len(x.Edges)-1]
	task := p.rep.Task("chunks of validation", (f.EvalRows+f.HotRows-least)*rb, progress.Bytes)
	defer task.Done()
	c := &evalChunks{dir: p.dir, stack: p.stack, facts: f, valid: x.Valid, rows: m.chunkRows, sums: binio.NewScatter(size, binio.Page), task: task}
	for range m.chunkSlots {
		c.slots = append(c.slots, &chunkSlot{buf: make([]byte, 0, max(writeBuffer, f.RowBytes))})
	}
	if c.window, err = device.NewHost(int(c.rows*rb) + 2*binio.Page); err != nil {
		return nil, err
	}
	defer c.window.Free()
	if c.graphs, err = p.fs.Open(p.dir.File(packfile.EvalGraphFile)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.graphs.Close()) }()
	if c.out, err = p.files.Create(packfile.EvalColdFile, size); err != nil {
		return nil, err
	}
	defer c.out.Close()
	if err := c.file(ctx, rows, packfile.EvalFile, packfile.EvalSums, 0, f.EvalRows, c.places); err != nil {
		return nil, err
	}
	if err := c.file(ctx, rows, packfile.HotFile, packfile.HotSums, least, f.HotRows, c.ranks); err != nil {
		return nil, err
	}
	if err := c.out.Finish(); err != nil {
		return nil, err
	}
	return rowfile.Describe(p.dir, packfile.EvalColdFile, c.sums.Sums(), packfile.EvalColdSums)
}

// stretch returns the rows of the matrix from ≤ row < to that are in the window of rows lo ≤ row < hi of a
// file, and the input node that stands for row lo.
type stretch func(e *packfile.Eval, input []uint32, lo, hi int64) (from, to int, origin int64)

// places is the stretch of a window of eval.bin.
func (c *evalChunks) places(e *packfile.Eval, input []uint32, lo, hi int64) (from, to int, origin int64) {
	at := func(place int64) int {
		return sort.Search(e.Rows, func(k int) bool { return int64(input[k]) >= c.facts.HotRows+place })
	}
	return at(lo), at(hi), c.facts.HotRows + lo
}

// ranks is the stretch of a window of hot.bin.
func (c *evalChunks) ranks(e *packfile.Eval, input []uint32, lo, hi int64) (from, to int, origin int64) {
	at := func(rank int64) int {
		return e.Rows + sort.Search(e.Cold-e.Rows, func(k int) bool { return int64(input[e.Rows+k]) < rank })
	}
	return at(hi), at(lo), lo
}

// file writes the rows first ≤ row < end of a finished file to all chunks, window by window.
func (c *evalChunks) file(ctx context.Context, done []stage.File, name, table string, first, end int64, of stretch) error {
	if first >= end {
		return nil
	}
	described := func(name string) stage.File {
		return done[slices.IndexFunc(done, func(f stage.File) bool { return f.Name == name })]
	}
	sums, err := keptSums(c.dir, described(table))
	if err != nil {
		return err
	}
	f, err := c.stack.Open(c.dir.File(name))
	if err != nil {
		return err
	}
	defer f.Close() // only read from
	for lo := first; lo < end; lo += c.rows {
		hi := min(lo+c.rows, end)
		rows, err := c.read(ctx, f, &sums, lo, hi)
		if err != nil {
			return err
		}
		err = errgroup.Ordered(ctx, len(c.valid), c.slots, func(ctx context.Context, s *chunkSlot, i int) error {
			if err := c.batch(s, &c.valid[i], rows, lo, hi, of); err != nil {
				return fmt.Errorf("batch %d: %w", i, err)
			}
			return nil
		}, func(*chunkSlot, int) error { return nil })
		if err != nil {
			return err
		}
		c.task.Add(int64(len(rows)))
	}
	return nil
}

// read reads the rows lo ≤ row < hi of a file into the window, and checks their pages.
func (c *evalChunks) read(ctx context.Context, f iostack.File, sums *binio.Sums, lo, hi int64) ([]byte, error) {
	const request = 4 << 20
	rb := int64(c.facts.RowBytes)
	from, to := lo*rb/binio.Page*binio.Page, min(binio.AlignUp(hi*rb, binio.Page), sums.Size)
	b := c.window.Bytes()[:to-from]
	var group iostack.Group
	var reqs []iostack.Request
	for off := int64(0); off < int64(len(b)); off += request {
		reqs = append(reqs, iostack.Request{File: f, Offset: from + off, Buf: b[off:min(off+request, int64(len(b)))]})
	}
	if err := c.stack.Submit(&group, reqs); err != nil {
		return nil, err
	}
	if err := c.stack.Wait(ctx, &group); err != nil {
		return nil, err
	}
	if err := sums.Verify(f.Name(), from, b); err != nil {
		return nil, touched(f.Name(), err)
	}
	return b[lo*rb-from : hi*rb-from], nil
}

// batch writes the rows lo ≤ row < hi of the window to a batch's chunk.
func (c *evalChunks) batch(s *chunkSlot, e *packfile.Eval, rows []byte, lo, hi int64, of stretch) error {
	graph, n := e.EvalGraph(false)
	s.raw = binio.Grow(s.raw, n)
	err := readKept(c.graphs, s.raw, graph)
	if err != nil {
		return err
	}
	if s.input, err = e.DecodeInputs(c.graphs.Name(), s.raw, s.input); err != nil {
		return touched(c.graphs.Name(), err)
	}
	rb := int64(c.facts.RowBytes)
	from, to, origin := of(e, s.input, lo, hi)
	for k := from; k < to; {
		off := e.ChunkOffset + int64(k)*rb
		for s.buf = s.buf[:0]; k < to && len(s.buf)+int(rb) <= cap(s.buf); k++ {
			at := (int64(s.input[k]) - origin) * rb
			s.buf = append(s.buf, rows[at:at+rb]...)
		}
		if err := c.out.WriteCached(s.buf, off); err != nil {
			return err
		}
		c.sums.Put(off, s.buf) // no other chunk has rows in these pages
	}
	return nil
}
