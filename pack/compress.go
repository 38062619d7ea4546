package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// compression is the pass that follows the ranges when chunks are compressed: group by
// group, the chunks that the ranges wrote to a scratch file are cut into pieces anew
// and compressed, on all workers, and the scratch file is removed.
type compression struct {
	dir     *stage.Dir
	open    *rowfile.Set
	stack   iostack.Stack
	part    packfile.Part // the groups to compress
	facts   *packfile.Facts
	index   *packfile.Index // of chunks as the ranges wrote them
	raw     packfile.Form
	form    packfile.Form
	workers int
	task    progress.Task

	slots []*compressSlot
	state compressState
	// bytesRead is the number of bytes read back from scratch files.
	bytesRead int64
}

// compress compresses the chunks, if the pack has a codec, and returns the bytes that it read
// back.
func (p *Packing) compress(ctx context.Context, d *cut.Decision, first *firstPass) (int64, error) {
	if !p.form().Compressed() {
		return 0, nil
	}
	task := p.rep.Task("compress chunks", first.facts.ColdRows*int64(p.facts.RowBytes), progress.Bytes)
	defer task.Done()
	c := &compression{
		dir: p.dir, open: p.files, stack: p.stack, part: d.Part, facts: &first.facts, index: first.index, raw: p.rawForm(), form: p.form(),
		workers: p.o.Workers, task: task,
	}
	if err := c.load(); err != nil {
		return 0, err
	}
	err := c.run(ctx)
	return c.bytesRead, err
}

// compressState is a resumed packing's record of the groups already compressed.
type compressState struct {
	Groups int // all groups of the part below this number are compressed
	// Sums and Frames cover all pieces of these groups' chunks.
	Sums, Frames []uint32
}

func (s *compressState) encode() []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 12+4*(len(s.Sums)+len(s.Frames))), uint32(s.Groups))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Sums)))
	b = append(b, binio.Bytes(s.Sums)...)
	b = append(b, binio.Bytes(s.Frames)...)
	return binary.LittleEndian.AppendUint32(b, binio.CRC(b))
}

func (s *compressState) decode(b []byte) error {
	if len(b) < 12 || binio.CRC(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return fault.New(fault.ErrCorrupt, "it does not match its checksum")
	}
	d := binio.NewDecoder(b[:len(b)-4])
	s.Groups = int(d.U32())
	n := d.Count(8)
	s.Sums, s.Frames = d.Uints(nil, n, 4), d.Uints(nil, n, 4)
	return d.Err()
}

// load reads the state of an interrupted run; without one it stays empty.
func (c *compression) load() error {
	name := c.dir.File(compressFile)
	b, err := vfs.ReadFile(c.dir.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.state.decode(b); err != nil {
		return touched(name, err)
	}
	want := 0
	for i := range min(c.state.Groups*packfile.GroupBatches(c.facts.Segment), c.facts.Train) {
		want += c.form.NumPieces(c.index.Train[i].Bands)
	}
	if c.state.Groups > c.facts.Groups() || want != len(c.state.Sums) {
		return touched(name, errors.New("it belongs to another packing"))
	}
	return nil
}

// run compresses the groups that no earlier run has compressed, and updates the index to the
// compressed chunks.
func (c *compression) run(ctx context.Context) error {
	if err := c.checkGroups(ctx); err != nil {
		return err
	}
	mem, err := c.makeSlots()
	if err != nil {
		return err
	}
	defer mem.Free()
	more := pieces(c.index, c.form) - len(c.state.Sums)
	c.state.Sums, c.state.Frames = slices.Grow(c.state.Sums, more), slices.Grow(c.state.Frames, more)
	for g := max(c.state.Groups, c.part.Lo); g < c.part.Hi; g++ {
		if err := c.group(ctx, g); err != nil {
			return fmt.Errorf("compress %s: %w", packfile.ColdFile(g), err)
		}
		c.state.Groups = g + 1
		if err := vfs.ReplaceFile(c.dir.FS(), c.dir.File(compressFile), c.state.encode()); err != nil {
			return err
		}
		if err := c.removeRaw(g); err != nil {
			return err
		}
	}
	c.locate()
	return nil
}

// checkGroups checks the groups that an earlier run compressed.
func (c *compression) checkGroups(ctx context.Context) error {
	var kept []keptFile
	sums, frames := c.state.Sums, c.state.Frames
	for g := range c.state.Groups {
		n := 0
		lo, hi := c.facts.GroupSpan(g)
		for i := lo; i < hi; i++ {
			n += c.form.NumPieces(c.index.Train[i].Bands)
		}
		if n > 0 {
			kept = append(kept, keptFile{packfile.ColdFile(g), storedBytes(frames[:n]), pieceRegions(sums[:n], frames[:n])})
		}
		sums, frames = sums[n:], frames[n:]
	}
	return checkKept(ctx, c.dir, kept)
}

// storedBytes returns the bytes of a group's file from the lengths of its compressed
// pieces, which, like chunks, begin on pages.
func storedBytes(frames []uint32) int64 {
	n := int64(0)
	for _, frame := range frames {
		n += binio.AlignUp(int64(frame&^packfile.FrameStored), binio.Page)
	}
	return n
}

// pieceRegions yields a group's compressed pieces.
func pieceRegions(sums, frames []uint32) iter.Seq[region] {
	return func(yield func(region) bool) {
		off := int64(0)
		for k, frame := range frames {
			r := region{off: off, size: int64(frame &^ packfile.FrameStored), crc: sums[k]}
			if !yield(r) {
				return
			}
			off += binio.AlignUp(r.size, binio.Page)
		}
	}
}

// locate changes the index to the places and lengths of the compressed chunks.
func (c *compression) locate() {
	c.index.SharePieces(c.form, c.state.Sums, c.state.Frames)
	for g := range c.facts.Groups() {
		lo, hi := c.facts.GroupSpan(g)
		offset := int64(0)
		for i := lo; i < hi; i++ {
			t := &c.index.Train[i]
			t.ChunkOffset, t.ChunkBytes = offset, t.Extent(c.form, c.index.Bands-1)
			offset += binio.AlignUp(t.ChunkBytes, binio.Page)
		}
	}
}

func (c *compression) removeRaw(group int) error {
	err := c.dir.FS().Remove(c.dir.File(rawFile(group)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a group without cold rows, or one that was removed already
	}
	return err
}

// rawPiece is the content of one piece: some rows of a chunk's band.
type rawPiece struct {
	batch    int
	sums     []uint32 // of the band's pieces, as the ranges wrote it
	band     int64    // where the band begins in the scratch file
	size     int64    // bytes of the band
	from, to int64    // bytes of the band
}

// pieces lists the pieces of a group's chunks, in order.
func (c *compression) pieces(lo, hi int) []rawPiece {
	var list []rawPiece
	for i := lo; i < hi; i++ {
		t := &c.index.Train[i]
		off, sums := t.ChunkOffset, t.Sums
		for _, rows := range t.Bands {
			p := rawPiece{batch: i, sums: sums, band: off, size: int64(rows) * int64(c.raw.RowBytes)}
			for p.from = 0; p.from < p.size; p.from = p.to {
				p.to = min(p.from+c.form.PieceBytes(), p.size)
				list = append(list, p)
			}
			off += p.size
			sums = sums[(p.size+packfile.ColdGranule-1)/packfile.ColdGranule:]
		}
	}
	return list
}

// compressSlot holds the memory of one piece on its way.
type compressSlot struct {
	encoder *packfile.FrameEncoder
	mem     []byte // begins on a page
	group   iostack.Group
	frame   []byte
	out     []byte // the piece as it is stored
	length  uint32 // its entry in Frames
	sum     uint32
}

// compressSlots returns the number of pieces under way.
func compressSlots(workers int) int { return workers + 2 }

// slotMem returns the bytes of a slot's rows: a piece, extended to the checksum granules in which it begins
// and ends.
func slotMem(f packfile.Form) int64 {
	return binio.AlignUp(f.PieceBytes(), binio.Page) + 2*packfile.ColdGranule + binio.Page
}

// compressMemory returns the memory of the pass, in bytes.
func compressMemory(workers int, f packfile.Form) int64 {
	if !f.Compressed() {
		return 0
	}
	const encoder = 4 << 20 // zstd's tables and history
	return int64(compressSlots(workers)) * (slotMem(f) + int64(packfile.MaxFrame(int(f.PieceBytes()))) + encoder)
}

// makeSlots makes the slots, in memory that the caller frees.
func (c *compression) makeSlots() (*device.Host, error) {
	c.slots = make([]*compressSlot, compressSlots(c.workers))
	each := slotMem(c.form)
	mem, err := device.NewHost(int(each) * len(c.slots))
	if err != nil {
		return nil, err
	}
	for i := range c.slots {
		s := &compressSlot{mem: mem.Bytes()[int64(i)*each : int64(i+1)*each], frame: make([]byte, packfile.MaxFrame(int(c.form.PieceBytes())))}
		if s.encoder, err = packfile.NewFrameEncoder(c.form.Codec); err != nil {
			mem.Free()
			return nil, err
		}
		c.slots[i] = s
	}
	return mem, nil
}

func (c *compression) group(ctx context.Context, g int) error {
	lo, hi := c.facts.GroupSpan(g)
	if coldSize(c.index.Train[lo:hi]) == 0 {
		return nil
	}
	raw, err := c.stack.Open(c.dir.File(rawFile(g)))
	if errors.Is(err, fs.ErrNotExist) {
		return touched(c.dir.File(rawFile(g)), err)
	}
	if err != nil {
		return err
	}
	defer raw.Close()
	out, err := rowfile.NewAppender(c.open, packfile.ColdFile(g), rowfile.Buffer)
	if err != nil {
		return err
	}
	defer out.Close()
	list := c.pieces(lo, hi)
	err = errgroup.Ordered(ctx, len(list), c.slots, func(ctx context.Context, s *compressSlot, i int) error {
		if err := c.compress(ctx, s, raw, &list[i]); err != nil {
			return fmt.Errorf("chunk of batch %d: %w", list[i].batch, err)
		}
		return nil
	}, func(s *compressSlot, i int) error {
		c.state.Sums, c.state.Frames = append(c.state.Sums, s.sum), append(c.state.Frames, s.length)
		c.task.Add(list[i].to - list[i].from)
		if err := out.Write(s.out); err != nil {
			return err
		}
		return out.Pad(binio.Page)
	})
	if err != nil {
		return err
	}
	c.bytesRead += coldSize(c.index.Train[lo:hi])
	return out.Finish()
}

// compress reads a piece's rows back, checks them and compresses them.
func (c *compression) compress(ctx context.Context, s *compressSlot, raw iostack.File, p *rawPiece) error {
	const granule = packfile.ColdGranule
	first := p.from / granule * granule
	last := min(binio.AlignUp(p.to, granule), p.size)
	pad := (p.band + first) % binio.Page // so that whole pages land in place
	b := s.mem[pad : pad+last-first]
	if err := c.stack.Submit(&s.group, []iostack.Request{{File: raw, Offset: p.band + first, Buf: b}}); err != nil {
		return err
	}
	if err := c.stack.Wait(ctx, &s.group); err != nil {
		return err
	}
	for off := first; off < last; off += granule {
		if n := min(granule, last-off); binio.CRC(b[off-first:off-first+n]) != p.sums[off/granule] {
			return touched(raw.Name(), binio.BadRange(raw.Name(), p.band+off, n))
		}
	}
	rows := b[p.from-first : p.to-first]
	s.out, s.length = s.encoder.Encode(s.frame, rows), 0
	if binio.AlignUp(int64(len(s.out)), binio.Page) >= binio.AlignUp(int64(len(rows)), binio.Page) {
		s.out, s.length = rows, packfile.FrameStored
	}
	s.length |= uint32(len(s.out))
	s.sum = binio.CRC(s.out)
	return nil
}
