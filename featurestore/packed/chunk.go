package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// chunk is the cold level: each training batch has a chunk with its own cold rows, of which one sequential
// prefix is read. Rows of the bands after through are in memory.
type chunk struct {
	src     *source
	through int
	codec   codec
	copies  *copier.Copier
	form    form
}

// newChunk returns the level for a sink that takes rows in packed form, or if packed is not set, widened.
// admitted is the most rows of a batch that a cache admits; the cache takes them in packed form.
func newChunk(src *source, through int, packed bool, admitted int, c codec, copies *copier.Copier) *chunk {
	l := &chunk{src: src, through: through, codec: c, copies: copies}
	switch compressed := src.pack.Form().Compressed(); {
	case packed && !compressed:
		l.form = inPlace{}
	case packed:
		l.form = unpacked{}
	case !compressed:
		l.form = widened{}
	case admitted > 0:
		l.form = &unpackedWideKept{most: int64(admitted) * int64(src.facts.RowBytes)}
	default:
		l.form = unpackedWide{}
	}
	return l
}

// most returns the size of the longest read of a chunk, in whole pages, in bytes.
func (l *chunk) most() int64 {
	most := int64(0)
	for i := range l.src.pack.Index().Train {
		most = max(most, l.src.pack.Index().Train[i].Extent(l.src.pack.Form(), l.through))
	}
	return binio.AlignUp(most, device.PageSize)
}

func (l *chunk) open() error { return errors.Join(l.codec.open(l.copies.Workers()), l.form.open()) }

func (l *chunk) close() {
	l.form.close()
	l.codec.close()
}

func (l *chunk) part(b *batch, m *memory) part { return l.newPart(b, m) }

func (l *chunk) newPart(b *batch, m *memory) chunkRows {
	if p := b.matrix.chunk(m); p != nil {
		return p
	}
	return &chunkPart{chunk: l, b: b, wire: l.form.wire(l, m)}
}

func (l *chunk) file(b *batch) string { return packfile.ColdFile(l.src.pack.Group(b.ref.Index)) }

// chunkRead is the read of a chunk, into host or device memory.
type chunkRead struct {
	group iostack.Group
	file  *cachedFile // nil: no read is under way
}

func (c *chunkRead) start(l *chunk, b *batch, r iostack.Request) (err error) {
	if c.file, err = l.src.files.Take(l.file(b)); err != nil {
		return err
	}
	r.File, r.Offset = c.file.File, b.train().ChunkOffset
	return b.submit(&c.group, r)
}

func (c *chunkRead) wait(ctx context.Context, b *batch, err error) error {
	if e := b.src.stack.Wait(ctx, &c.group); e != nil {
		err = errors.Join(err, fmt.Errorf("chunk of %v: %w", b, e))
	}
	f := c.file
	c.file = nil
	return errors.Join(err, b.src.files.Give(f))
}

// chunkPart has a slot's chunk in host memory.
type chunkPart struct {
	*chunk
	b      *batch
	read   chunkRead
	wire   *device.Host // memory of chunks that cannot land in the matrix
	rows   stretch
	stored []byte // the prefix of the chunk that is read
	name   string // of the chunk's file
	to     places
}

// start claims the first rows of the matrix and submits their read, at the place given by the index.
func (p *chunkPart) start() error {
	b, t := p.b, p.b.train()
	p.rows = b.claim(0, t.ColdRows(p.through))
	p.to = b.matrix.land(p.rows)
	if p.rows.rows == 0 {
		return nil
	}
	p.stored = p.form.stored(p)[:t.Extent(p.src.pack.Form(), p.through)]
	if err := p.read.start(p.chunk, b, iostack.Request{Buf: p.stored}); err != nil {
		return fmt.Errorf("chunk of %v: %w", b, err)
	}
	return nil
}

func (p *chunkPart) follow() error { return nil }

func (p *chunkPart) wait(ctx context.Context, err error) error { return p.read.wait(ctx, p.b, err) }

// place checks the chunk and puts its rows into the matrix, unless they landed there.
func (p *chunkPart) place() error {
	if p.rows.rows == 0 {
		return nil
	}
	t, form := p.b.train(), p.src.pack.Form()
	p.b.UsefulBytes += t.Stored(form, p.through)
	p.name = p.src.pack.Path(p.file(p.b))
	if err := p.copies.Run(p, form.NumPieces(t.Bands[:p.through+1])); err != nil {
		return fmt.Errorf("chunk of %v: %w", p.b, err)
	}
	p.form.finish(p)
	return nil
}

// Do loads pieces of the chunk.
func (p *chunkPart) Do(lo, hi int, scratch *[]byte) error {
	t, i := p.b.train(), -1
	return t.Pieces(p.src.pack.Form(), p.through, func(at packfile.Piece) error {
		if i++; i < lo || i >= hi {
			return nil
		}
		return p.form.piece(p, at, scratch)
	})
}

func (p *chunkPart) load(at packfile.Piece, rows []byte) error {
	return p.codec.load(p.b.train(), p.name, p.stored, at, rows)
}

func (p *chunkPart) packed(row int) []byte { return p.form.packed(p, row*p.src.facts.RowBytes) }

// widen loads a piece of whole rows into memory for them, and widens them.
func (p *chunkPart) widen(at packfile.Piece, rows []byte) error {
	if err := p.load(at, rows); err != nil {
		return err
	}
	p.wide(int(at.Row)/p.src.facts.RowBytes, rows)
	return nil
}

// wide widens whole rows of the chunk, from row first on.
func (p *chunkPart) wide(first int, rows []byte) {
	f := &p.src.facts
	x := p.to.x[first*f.Dim:][:len(rows)/f.RowBytes*f.Dim]
	if len(p.to.x) < kernel.Past {
		kernel.Widen(x, rows, f.DType, f.Dim)
		return
	}
	kernel.WidenPast(x, rows, f.DType, f.Dim)
	kernel.Fence()
}

// form converts a chunk to rows of a matrix. Element type, codec, policy and sink decide the form.
type form interface {
	// wire allocates memory for chunks that cannot land in the matrix.
	wire(l *chunk, m *memory) *device.Host
	// memory returns the memory that all slots share, in bytes; open allocates it, close releases it.
	memory() int64
	open() error
	close()
	// stored returns the memory that the chunk lands in.
	stored(p *chunkPart) []byte
	// piece checks a piece and converts its rows. Several goroutines call it for different pieces.
	piece(p *chunkPart, at packfile.Piece, scratch *[]byte) error
	// finish completes the conversion after all pieces are checked.
	finish(p *chunkPart)
	// packed is chunkRows.packed, from a byte of the rows on.
	packed(p *chunkPart, from int) []byte
}

// inPlace: rows on disk have the form of the matrix, and land there.
type inPlace struct{}

func (inPlace) wire(*chunk, *memory) *device.Host    { return nil }
func (inPlace) memory() int64                        { return 0 }
func (inPlace) open() error                          { return nil }
func (inPlace) close()                               {}
func (inPlace) stored(p *chunkPart) []byte           { return p.to.rows }
func (inPlace) finish(*chunkPart)                    {}
func (inPlace) packed(p *chunkPart, from int) []byte { return p.stored[from:] }
func (inPlace) piece(p *chunkPart, at packfile.Piece, _ *[]byte) error {
	return p.load(at, nil)
}

// apart is the common part of forms with chunks that land in memory of their own.
type apart struct{}

func (apart) wire(l *chunk, m *memory) *device.Host { return m.land(l.most()) }
func (apart) memory() int64                         { return 0 }
func (apart) open() error                           { return nil }
func (apart) close()                                {}
func (apart) stored(p *chunkPart) []byte            { return p.wire.Bytes() }
func (apart) finish(*chunkPart)                     {}

// unpacked: pieces are decompressed into the matrix's rows.
type unpacked struct{ apart }

func (unpacked) packed(p *chunkPart, from int) []byte { return p.to.rows[from:] }
func (unpacked) piece(p *chunkPart, at packfile.Piece, _ *[]byte) error {
	return p.load(at, p.to.rows[at.Row:at.Row+int64(at.RowLen)])
}

// widened: chunks are not compressed. The rows of a piece are widened while the caches have it, and rows that pieces cut at the
// end.
type widened struct{ apart }

func (widened) packed(p *chunkPart, from int) []byte { return p.stored[from:] }
func (widened) piece(p *chunkPart, at packfile.Piece, _ *[]byte) error {
	if err := p.load(at, nil); err != nil {
		return err
	}
	rb := p.src.facts.RowBytes
	if first, end := (int(at.Row)+rb-1)/rb, (int(at.Row)+at.RowLen)/rb; first < end {
		p.wide(first, p.stored[first*rb:end*rb])
	}
	return nil
}
func (widened) finish(p *chunkPart) {
	rb := p.src.facts.RowBytes
	_ = p.b.train().Pieces(p.src.pack.Form(), p.through, func(at packfile.Piece) error { // which fails as the function does
		if end := int(at.Row) + at.RowLen; end%rb != 0 {
			row := end / rb
			p.wide(row, p.stored[row*rb:(row+1)*rb])
		}
		return nil
	})
}

// unpackedWide: pieces are decompressed, and widened into the matrix.
type unpackedWide struct{ apart }

func (unpackedWide) packed(*chunkPart, int) []byte { return nil }
func (unpackedWide) piece(p *chunkPart, at packfile.Piece, scratch *[]byte) error {
	*scratch = binio.Grow(*scratch, at.RowLen)
	return p.widen(at, *scratch)
}

// unpackedWideKept is unpackedWide, but keeps the rows of band 1 in packed form until the next chunk is
// placed. A piece begins with band 1.
type unpackedWideKept struct {
	unpackedWide
	most int64
	kept *device.Host
}

func (f *unpackedWideKept) memory() int64 { return f.most }

func (f *unpackedWideKept) open() (err error) {
	f.kept, err = device.NewHost(int(f.most))
	return err
}

func (f *unpackedWideKept) close() {
	if f.kept != nil {
		f.kept.Free()
	}
}

func (f *unpackedWideKept) packed(p *chunkPart, from int) []byte {
	return f.kept.Bytes()[from-f.from(p):]
}

// from returns the offset of the kept rows in the chunk's rows, in bytes.
func (f *unpackedWideKept) from(p *chunkPart) int {
	return p.b.train().Bands[0] * p.src.facts.RowBytes
}

func (f *unpackedWideKept) piece(p *chunkPart, at packfile.Piece, scratch *[]byte) error {
	from := int(at.Row) - f.from(p)
	if from < 0 {
		return f.unpackedWide.piece(p, at, scratch)
	}
	return p.widen(at, f.kept.Bytes()[from:from+at.RowLen])
}
