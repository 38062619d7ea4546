package pack

import (
	"sort"
	"unsafe"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/internal/table"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

const (
	// leastRange keeps a range from being so short that its writes are tiny.
	leastRange = 4 << 20
	// leastSpill keeps the writes to a scratch file of hot rows from being tiny.
	leastSpill = 64 << 10

	// enoughRanges hide the reading of one range behind the writing of the one before, and take little new memory, which
	// the kernel clears first; more ranges would only make the writes shorter.
	enoughRanges = 8
	// enoughRange is the shortest range, in bytes, that results from this.
	enoughRange = 64 << 20
)

// allotment divides the memory budget.
type allotment struct {
	slots     int   // batches under way in the first pass
	lanes     int   // segments under way in the first pass; 0 without an SSD level
	rangeRows int64 // rows of each of the two range buffers
	hotWindow int64 // hot rows put in order at once
	spill     bool  // the hot rows do not fit and go through scratch files
	spillBuf  int   // bytes of each scratch file's buffer
	outside   int64 // bytes that Go's collector does not manage

	// For chunks of validation batches: rows in memory at a time, and batches under way beside them.
	chunkRows  int64
	chunkSlots int
}

// ledger is the memory of a packing except for nodes, for batches in work, and for rows in work.
type ledger struct {
	lane  int64 // by the first pass for every segment under way; 0 without an SSD level
	books int64 // all the time, for every batch, piece and page
}

// counts are the numbers from which the books follow.
type counts struct {
	bands          int
	train, evals   int64 // batches
	segments       int64 // 0 without an SSD level
	pieces, frames int64 // of chunks as the ranges write them; as they are compressed
	// Pages of files of rows.
	hot, eval, evalCold, ssd int64
}

// books returns the bytes held for every batch, piece and page: the index, in memory and as it is encoded;
// the state of the ranges, which is copied and encoded while the next range is packed; and tables of
// checksums, which are completed and encoded one at a time.
func (c *counts) books() int64 {
	const (
		waiting = 128     // of a segment: its place in the list of rows, and who waits for it
		section = 8       // of a graph, in memory and encoded
		file    = 1 << 10 // of a group: its files' descriptions, here and in the journal
	)
	bands := int64(c.bands)
	n := c.train*(int64(unsafe.Sizeof(packfile.Train{}))+16*bands+section*(3+bands)) + c.evals*(int64(unsafe.Sizeof(packfile.Eval{}))+2*section)
	n += c.segments*(int64(unsafe.Sizeof(packfile.Segment{}))+waiting) + (c.train/64+1)*file
	encoded := c.train*(36+8*bands+section*(3+bands)) + 12*c.segments + (36+2*section)*c.evals + 4*(c.pieces+c.frames)
	saved := 2*4*(c.pieces+c.train*bands) + 8*c.train // a copy, its encoding, places in the list of rows
	compressed := 8 * c.frames                        // checksums and lengths; as much when they are saved
	n += 4*(c.pieces+c.train*bands) + compressed + max(encoded, saved, compressed)
	return n + 4*(c.hot+c.eval+c.evalCold+c.ssd) + 8*max(c.hot, c.eval, c.evalCold, c.ssd)
}

// allot divides memory for a decision, and refuses work that memory or disk cannot hold.
func (p *Packing) allot(d *cut.Decision) (allotment, error) {
	f := d.Facts
	if !d.Part.Common {
		f.HotRows = 0 // only one shard holds them
	}
	lane := int64(0)
	if f.Segment > 1 && p.kept == nil {
		lane = cut.SegmentMemory(f.Nodes, d.Shared)
	}
	m, err := planMemory(&p.o, &f, p.samples.Facts(), ledger{lane, p.books(d)})
	if err != nil {
		return m, err
	}
	return m, p.checkFree(d, m.spill)
}

// books returns the bytes held all the time for a decision.
func (p *Packing) books(d *cut.Decision) int64 {
	f, rb := &d.Facts, int64(d.Facts.RowBytes)
	lo, hi := d.Part.Batches(f)
	c := counts{bands: d.Bands, train: int64(f.Train), evals: int64(f.Valid + f.Test)}
	parts := int64(hi-lo) * int64(c.bands)
	c.pieces = d.Cold*rb/p.rawForm().PieceBytes() + parts
	if p.form().Compressed() {
		c.frames = d.Cold*rb/p.form().PieceBytes() + parts
	}
	pages := func(rows int64) int64 { return rows*rb/binio.Page + 1 }
	if d.Part.Common {
		c.hot, c.eval = pages(f.HotRows), pages(f.EvalRows)
		if d.EvalCold > 0 {
			c.evalCold = pages(d.EvalCold) + int64(f.Valid)
		}
	}
	if f.Segment > 1 {
		c.segments = int64(f.Segments)
		c.ssd = pages(d.SSD) + c.segments
	}
	return cut.RecordMemory(p.samples.Facts()) + c.books()
}

// checkFree compares the disk space of the decision with the free space. spill says that hot rows go
// through scratch files.
func (p *Packing) checkFree(d *cut.Decision, spill bool) error {
	if p.state == stage.StateResumed {
		return nil // part of the need is on the disk already
	}
	f, need, scratch := &d.Facts, d.PartBytes, d.Scratch
	lo, hi := d.Part.Batches(f)
	if spill {
		scratch += f.HotRows * int64(f.RowBytes+4)
	}
	if p.form().Compressed() {
		// Chunks are first uncompressed, and then replaced group by group: scratch space for two groups,
		// since groups differ.
		group := min(2*int64(packfile.GroupBatches(f.Segment)), int64(hi-lo))
		scratch += need * group / int64(max(hi-lo, 1))
	}
	free, err := p.fs.Free(p.dir.Path())
	if err != nil {
		return err
	}
	if need+scratch > free {
		return fault.New(fault.ErrBudget, "the pack needs about %s of disk and %s of scratch, but %s has only %s free; give a --max-disk or a larger --cache, %sor presample fewer epochs",
			budget.FormatBytes(need), budget.FormatBytes(scratch), p.out, budget.FormatBytes(free), cut.Narrower(f))
	}
	return nil
}

// planMemory fits both passes into the budget, or returns an error with a budget that suffices.
func planMemory(o *Options, f *packfile.Facts, s mbfile.Facts, l ledger) (allotment, error) {
	p := fit(o, f, s, l)
	if p.rangeRows == 0 {
		return p, fault.New(fault.ErrBudget, "--memory %s is too little for packing: it must be at least %s", budget.FormatBytes(o.Memory), budget.FormatBytes(leastMemory(o, f, s, l)))
	}
	return p, nil
}

// fit fits both passes under the budget. Ranges of no rows mean that one of them does not fit.
func fit(o *Options, f *packfile.Facts, s mbfile.Facts, l ledger) allotment {
	lane := l.lane
	held := cut.HeldMemory(f.Nodes) + l.books
	free := o.Memory - held
	slot := cut.SlotBytes(s)
	p := allotment{}
	first := free
	if lane > 0 {
		slot += slot / 2 // its nodes are counted first
		enough := int64(o.Workers/f.Segment + 2)
		p.lanes = int(1 + max(0, min(enough-1, (free-lane-slot)/2/lane)))
		first -= int64(p.lanes) * lane
	}
	p.slots = min(o.Workers+1, int(max(first/slot, 0)))
	if p.slots < 1 {
		return p
	}
	if f.Segment > 1 {
		free -= int64(o.Workers) * int64(max(writeBuffer, f.RowBytes))
	}
	beside := rowfile.Memory(o.Workers) + table.Memory(f.TableBytes/max(f.Nodes, 1), f.Dim, true)
	free -= beside
	if compressMemory(o.Workers, packfile.Form{RowBytes: f.RowBytes, Codec: o.Compress}) > free {
		return p
	}
	if free <= 0 {
		return p
	}
	row := int64(f.RowBytes)
	hot := f.HotRows * row
	if hot <= free/2 && (o.RangeRows <= 0 || f.HotRows <= o.RangeRows) {
		p.hotWindow = f.HotRows
		free -= hot
		beside += hot
	} else {
		p.spill = true
	}
	if p.spill { // an eighth is for the scratch files' buffers
		p.rangeRows = (free - free/8) / row
	} else {
		p.rangeRows = free / row
	}
	enough := max((f.Nodes+enoughRanges-1)/enoughRanges, enoughRange/row+1)
	buffers := int64(1)
	if f.Nodes > min(p.rangeRows, enough) || o.RangeRows > 0 {
		buffers = 2
		p.rangeRows = min(p.rangeRows/2, enough)
	}
	p.rangeRows = min(p.rangeRows, f.Nodes)
	if o.RangeRows > 0 {
		p.rangeRows = min(p.rangeRows, o.RangeRows)
	}
	if p.spill {
		p.hotWindow = max(p.rangeRows, 1)
		windows := (f.HotRows + p.hotWindow - 1) / p.hotWindow
		p.spillBuf = int(min(free/8/windows, rowfile.Buffer))
		if p.spillBuf < leastSpill {
			p.rangeRows = 0 // too many windows: more memory is needed
		}
	}
	least := min(leastRange/row+1, f.Nodes)
	if o.RangeRows > 0 {
		least = min(least, o.RangeRows)
	}
	if p.rangeRows < least {
		p.rangeRows = 0
	}
	if o.EvalChunks {
		p.chunks(o, o.Memory-held-2*binio.Page, chunkSlotBytes(slot, f.RowBytes), row)
		if p.chunkRows < least {
			p.rangeRows = 0
		}
	}
	p.outside = beside + buffers*p.rangeRows*row
	return p
}

// chunks divides the bytes of room between slots for batches, of slot bytes each, and rows, which take no more
// than a range.
func (p *allotment) chunks(o *Options, room, slot, row int64) {
	p.chunkSlots = int(max(1, min(int64(o.Workers), room/2/slot)))
	p.chunkRows = min(p.rangeRows, max(0, room-int64(p.chunkSlots)*slot)/row)
}

// leastMemory returns a budget in MiB that suffices, when one a MiB smaller does
// not.
func leastMemory(o *Options, f *packfile.Facts, s mbfile.Facts, l ledger) int64 {
	try := *o
	return int64(sort.Search(1<<30, func(mib int) bool {
		try.Memory = int64(mib) << 20
		return fit(&try, f, s, l).rangeRows > 0
	})) << 20
}
