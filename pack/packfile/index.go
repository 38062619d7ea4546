package packfile

import (
	"encoding/binary"
	"fmt"
	"math"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Train has the sizes and the places of one training batch.
type Train struct {
	Inputs, Seeds, Edges int
	Bands                []int // rows of each band of the chunk
	SSD                  []int // rows of each band of the SSD level
	ChunkOffset          int64
	ChunkBytes           int64 // stored bytes, without the gap after them
	GraphOffset          int64
	Graph                []Section
	// Sums and Frames have one number for each piece of the chunk: its checksum and, with compression, its
	// length as stored.
	Sums, Frames []uint32
}

// ColdRows returns the number of rows in the bands 0 to through, inclusive, of the batch's chunk.
func (t *Train) ColdRows(through int) int { return sum(t.Bands[:through+1]) }

// SSDRows returns the number of rows that the batch reads from the SSD level, in its bands 0 to through
// inclusive. They are in no chunk.
func (t *Train) SSDRows(through int) int { return sum(t.SSD[:through+1]) }

// Hot returns the rows that are always in the cache: those below the lowest edge,
// or, under min, the hits.
func (t *Train) Hot() int { return t.Inputs - sum(t.SSD) - sum(t.Bands) }

func sum(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}

// Segment is the place of one segment's part of the SSD level.
type Segment struct {
	Offset int64 // in its group's file, a multiple of a page
	Rows   int
}

// Eval has the sizes and the place of one validation or test batch.
type Eval struct {
	Inputs, Seeds, Edges int
	Rows                 int // rows in eval.bin, which are first in the matrix
	Cold                 int // first rows of the matrix, which are the batch's chunk; 0: it has none
	ChunkOffset          int64
	GraphOffset          int64
	Graph                []Section
}

// Index is the content of index.bin.
type Index struct {
	Edges    []int64 // in ranks, descending
	Bands    int     // number of bands of every training batch
	Train    []Train
	Segments []Segment // empty without an SSD level
	Valid    []Eval
	Test     []Eval
	// EvalChunks: validation batches have chunks.
	EvalChunks bool
	// Bytewise: graphs have one section, of numbers of whole bytes, as in versions 2 to 5.
	Bytewise bool
}

// Clear makes zero entries for the given numbers of batches. Batches of other shards have such entries. Bands and Bytewise
// must be set.
func (x *Index) Clear(train, valid, test int) {
	x.Train, x.Valid, x.Test = make([]Train, train), make([]Eval, valid), make([]Eval, test)
	bands := x.Bands
	rows, n, m := make([]int, 2*train*bands), x.sections(), x.evalSections()
	sections := make([]Section, train*n+(valid+test)*m)
	for i := range x.Train {
		t := &x.Train[i]
		t.Bands, t.SSD, rows = rows[:bands:bands], rows[bands:2*bands:2*bands], rows[2*bands:]
		t.Graph, sections = sections[:n:n], sections[n:]
	}
	for _, list := range [][]Eval{x.Valid, x.Test} {
		for i := range list {
			list[i].Graph, sections = sections[:m:m], sections[m:]
		}
	}
}

// EvalBatch returns the entry of an evaluation batch. Test batches are counted on from the validation batches.
func (x *Index) EvalBatch(i int) *Eval {
	if i < len(x.Valid) {
		return &x.Valid[i]
	}
	return &x.Test[i-len(x.Valid)]
}

// sections and evalSections return the number of sections of a graph.
func (x *Index) sections() int {
	if x.Bytewise {
		return 1
	}
	return bandSections + x.Bands
}

func (x *Index) evalSections() int {
	if x.Bytewise {
		return 1
	}
	return evalSections
}

// Bytes of one entry in index.bin.
const (
	headBytes    = magicBytes + 6*4
	segmentBytes = 8 + 4
	sectionBytes = 4 + 4
	evalChunk    = 4 + 8 // further ones with EvalChunks
)

// trainBytes and evalBytes return the bytes of one entry in index.bin.
func (x *Index) trainBytes() int { return 3*4 + 2*4*x.Bands + 3*8 + sectionBytes*x.sections() }

func (x *Index) evalBytes() int {
	n := 4*4 + 8 + sectionBytes*x.evalSections()
	if x.EvalChunks {
		n += evalChunk
	}
	return n
}

// EntryBytes returns the bytes of the entries of a training batch and of an evaluation batch in the index of a new pack
// without chunks of evaluation.
func EntryBytes(bands int) (train, eval int) {
	x := Index{Bands: bands}
	return x.trainBytes(), x.evalBytes()
}

// magics begin an index.
var magics = map[string]Index{
	"DGNNPIX2": {Bytewise: true},
	"DGNNPIX3": {Bytewise: true, EvalChunks: true},
	"DGNNPIX4": {},
	"DGNNPIX5": {EvalChunks: true},
}

const magicBytes = 8

func (x *Index) magic() string {
	for name, m := range magics {
		if m.Bytewise == x.Bytewise && m.EvalChunks == x.EvalChunks {
			return name
		}
	}
	panic("packfile: an index without a magic number")
}

func (x *Index) size() (n int64, pieces int) {
	tables := 1
	for i := range x.Train {
		pieces += len(x.Train[i].Sums)
		if len(x.Train[i].Frames) > 0 {
			tables = 2
		}
	}
	n = int64(headBytes + 8*len(x.Edges) + 8 + 4)
	n += int64(len(x.Train))*int64(x.trainBytes()) + int64(len(x.Segments))*segmentBytes + int64(len(x.Valid)+len(x.Test))*int64(x.evalBytes())
	return n + 4*int64(tables)*int64(pieces), pieces
}

// Encode returns the bytes of the index on disk. Counts above the format's limits are an error of kind
// fault.ErrInput.
func (x *Index) Encode() ([]byte, error) {
	size, pieces := x.size()
	if n := len(x.Train) + len(x.Valid) + len(x.Test); n > MaxBatches || size > maxIndex {
		return nil, fault.New(fault.ErrInput, "%d batches with an index of %d bytes do not fit in a pack, which has at most %d batches and an index of %d bytes: presample fewer epochs, or larger batches", n, size, MaxBatches, int64(maxIndex))
	}
	e := indexEncoder{b: make([]byte, 0, size)}
	e.b = append(e.b, x.magic()...)
	e.counts("the pack", len(x.Train), len(x.Valid), len(x.Test), len(x.Segments), x.Bands, len(x.Edges))
	for _, edge := range x.Edges {
		e.offset(edge)
	}
	for i := range x.Train {
		t := &x.Train[i]
		e.batch("training batch", i)
		e.counts("input nodes, seed nodes, edges", t.Inputs, t.Seeds, t.Edges)
		e.counts("cold rows", t.Bands...)
		e.counts("rows of the SSD level", t.SSD...)
		e.offset(t.ChunkOffset)
		e.offset(t.ChunkBytes)
		e.graph(t.GraphOffset, t.Graph)
	}
	for i, s := range x.Segments {
		e.batch("segment", i)
		e.offset(s.Offset)
		e.counts("rows", s.Rows)
	}
	for _, list := range [][]Eval{x.Valid, x.Test} {
		for i := range list {
			v := &list[i]
			e.batch("evaluation batch", i)
			e.counts("input nodes, seed nodes, edges, rows", v.Inputs, v.Seeds, v.Edges, v.Rows)
			if x.EvalChunks {
				e.counts("rows of its chunk", v.Cold)
				e.offset(v.ChunkOffset)
			}
			e.graph(v.GraphOffset, v.Graph)
		}
	}
	e.offset(int64(pieces))
	for i := range x.Train {
		e.b = append(e.b, binio.Bytes(x.Train[i].Sums)...)
	}
	for i := range x.Train {
		e.b = append(e.b, binio.Bytes(x.Train[i].Frames)...)
	}
	if e.err != nil {
		return nil, e.err
	}
	return binary.LittleEndian.AppendUint32(e.b, binio.CRC(e.b)), nil
}

// indexEncoder appends numbers. It keeps the error of the first number that does not fit.
type indexEncoder struct {
	b    []byte
	what string // the entry with the numbers, for errors
	i    int
	err  error
}

func (e *indexEncoder) batch(what string, i int) { e.what, e.i = what, i }

// counts appends numbers of 32 bits.
func (e *indexEncoder) counts(of string, list ...int) {
	for _, n := range list {
		if (n < 0 || n > MaxCount) && e.err == nil {
			e.err = CheckCount(int64(n), "%s of %s %d", of, e.what, e.i)
		}
		e.b = binary.LittleEndian.AppendUint32(e.b, uint32(n))
	}
}

func (e *indexEncoder) offset(n int64) { e.b = binary.LittleEndian.AppendUint64(e.b, uint64(n)) }

func (e *indexEncoder) graph(off int64, sections []Section) {
	e.offset(off)
	for _, s := range sections {
		e.b = binary.LittleEndian.AppendUint32(e.b, s.Bytes)
		e.b = binary.LittleEndian.AppendUint32(e.b, s.CRC)
	}
}

// MaxCount bounds every count of one batch in a pack: bytes of its graph, edges of all its layers, rows.
const MaxCount = math.MaxUint32

// CheckCount returns an error of kind fault.ErrInput if n is above MaxCount. The error has advice on
// lowering the number. text, a format with args, names the quantity.
func CheckCount(n int64, text string, args ...any) error {
	if n >= 0 && n <= MaxCount {
		return nil
	}
	return fault.New(fault.ErrInput, "%s: %d is above a pack's limit of %d for one batch: presample with a smaller --batch-size or --fanout (of evaluation: --eval-fanout)",
		fmt.Sprintf(text, args...), n, int64(MaxCount))
}

// DecodeIndex reads the result of Encode, for chunks of the given form. Whatever the bytes, it returns
// a consistent index or an error of kind fault.ErrCorrupt.
func DecodeIndex(b []byte, f Form) (*Index, error) {
	if f.RowBytes < 1 || f.RowBytes > maxRowBytes {
		return nil, fault.New(fault.ErrCorrupt, "rows of %d bytes are outside the limits of 1 to %d", f.RowBytes, maxRowBytes)
	}
	form, ok := magics[string(b[:min(magicBytes, len(b))])]
	if len(b) < magicBytes+4 || !ok {
		return nil, fault.New(fault.ErrCorrupt, "not a pack's index")
	}
	body := b[:len(b)-4]
	if binio.CRC(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, fault.New(fault.ErrCorrupt, "does not match its own checksum")
	}
	d := binio.NewDecoder(body)
	d.Raw(magicBytes)
	train, valid, test, segments := d.Count(0), d.Count(0), d.Count(0), d.Count(0)
	x := &form
	x.Bands = d.Count(0)
	edges := d.Count(8)
	if x.Bands < 1 || x.Bands > MaxBands || edges < 1 || edges > x.Bands {
		d.Fail("%d bands and %d band edges do not fit together", x.Bands, edges)
		return nil, d.Err()
	}
	x.Edges = make([]int64, edges)
	for i := range x.Edges {
		x.Edges[i] = int64(d.U64())
		if x.Edges[i] < 0 || i > 0 && x.Edges[i] >= x.Edges[i-1] {
			d.Fail("the band edges do not descend")
		}
	}
	if train*x.trainBytes()+segments*segmentBytes+(valid+test)*x.evalBytes() > d.Rest() {
		d.Fail("%d training, %d validation and %d test batches and %d segments do not fit in the %d bytes left", train, valid, test, segments, d.Rest())
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	x.Clear(train, valid, test)
	x.Segments = make([]Segment, segments)
	for i := range x.Train {
		decodeTrain(d, &x.Train[i])
	}
	for i := range x.Segments {
		s := &x.Segments[i]
		s.Offset, s.Rows = int64(d.U64()), int(d.U32())
		if s.Offset < 0 || s.Offset%binio.Page != 0 {
			d.Fail("a segment does not begin on a page")
		}
	}
	for _, list := range [][]Eval{x.Valid, x.Test} {
		for i := range list {
			decodeEval(d, &list[i], x.EvalChunks)
		}
	}
	x.decodePieces(d, f)
	return x, d.Err()
}

func decodeTrain(d *binio.Decoder, t *Train) {
	t.Inputs, t.Seeds, t.Edges = int(d.U32()), int(d.U32()), int(d.U32())
	for _, list := range [][]int{t.Bands, t.SSD} {
		for i := range list {
			list[i] = int(d.U32())
		}
	}
	t.ChunkOffset, t.ChunkBytes = int64(d.U64()), int64(d.U64())
	t.GraphOffset = decodeSections(d, t.Graph)
	if t.ChunkOffset < 0 || t.ChunkOffset%binio.Page != 0 || t.ChunkBytes < 0 || t.GraphOffset < 0 || t.Hot() < 0 {
		d.Fail("the counts and offsets of a training batch are inconsistent")
	}
}

// decodePieces reads the tables of all chunks' pieces, which fill the rest of the index.
func (x *Index) decodePieces(d *binio.Decoder, f Form) {
	want, tables := 0, 1
	if f.Compressed() {
		tables = 2
	}
	for i := range x.Train {
		if want += f.NumPieces(x.Train[i].Bands); want > d.Rest()/4 {
			break // it is refused below; a sum of all could overflow
		}
	}
	if n := d.U64(); d.Err() == nil && (n != uint64(want) || d.Rest() != 4*tables*want) {
		d.Fail("%d pieces in %d bytes, but the chunks need %d", n, d.Rest(), want)
	}
	if d.Err() != nil {
		return
	}
	all := make([]uint32, tables*want)
	copy(binio.Bytes(all), d.Raw(4*tables*want))
	x.SharePieces(f, all[:want], all[want:])
	for i := range x.Train {
		t := &x.Train[i]
		_ = t.Pieces(f, x.Bands-1, func(p Piece) error {
			if p.Len < 1 || p.Len > p.RowLen || p.Stored && p.Len != p.RowLen {
				d.Fail("a piece of %d bytes of rows is stored in %d bytes", p.RowLen, p.Len)
			}
			return nil
		})
		if t.ChunkBytes != t.Extent(f, x.Bands-1) {
			d.Fail("a chunk of %d bytes has pieces of %d bytes in all", t.ChunkBytes, t.Extent(f, x.Bands-1))
		}
	}
}

// SharePieces sets Sums and Frames of every batch to its part of the tables of all chunks' pieces. The
// batches refer to the tables. Without compression frames is ignored.
func (x *Index) SharePieces(f Form, sums, frames []uint32) {
	for i := range x.Train {
		t := &x.Train[i]
		n := f.NumPieces(t.Bands)
		t.Sums, sums = sums[:n:n], sums[n:]
		if f.Compressed() {
			t.Frames, frames = frames[:n:n], frames[n:]
		}
	}
}

func decodeEval(d *binio.Decoder, e *Eval, chunks bool) {
	e.Inputs, e.Seeds, e.Edges, e.Rows = int(d.U32()), int(d.U32()), int(d.U32()), int(d.U32())
	if chunks {
		e.Cold, e.ChunkOffset = int(d.U32()), int64(d.U64())
	}
	e.GraphOffset = decodeSections(d, e.Graph)
	if e.GraphOffset < 0 || e.ChunkOffset < 0 || e.Rows > e.Inputs || e.Cold > e.Inputs {
		d.Fail("the counts and offsets of an evaluation batch are inconsistent")
	}
}

// decodeSections reads the sections of a graph, and returns its offset.
func decodeSections(d *binio.Decoder, sections []Section) int64 {
	off := int64(d.U64())
	for i := range sections {
		sections[i] = Section{d.U32(), d.U32()}
	}
	return off
}
