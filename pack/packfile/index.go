package packfile

import (
	"encoding/binary"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Train locates one training batch.
type Train struct {
	Inputs, Seeds, Edges int
	Bands                []int // rows of each band of the chunk
	SSD                  []int // rows of each band of the SSD level
	ChunkOffset          int64
	ChunkBytes           int64 // as stored, without the gap that follows
	GraphOffset          int64
	GraphBytes           int
	GraphCRC             uint32
	// Sums and Frames are the chunk's pieces: their checksums and, with compression,
	// their lengths as stored.
	Sums, Frames []uint32
}

// ColdRows returns the rows of the chunk's bands 0 … through, all of them for the last.
func (t *Train) ColdRows(through int) int { return sum(t.Bands[:through+1]) }

// SSDRows returns the rows of the SSD level's bands 0 … through.
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

// Segment locates one segment's part of the SSD level.
type Segment struct {
	Offset int64 // in its group's file, a whole page
	Rows   int
}

// Eval locates one validation or test batch.
type Eval struct {
	Inputs, Seeds, Edges int
	Rows                 int // rows that lie in eval.bin, first in the matrix
	GraphOffset          int64
	GraphBytes           int
	GraphCRC             uint32
}

// Index is the content of index.bin.
type Index struct {
	Edges    []int64 // in ranks, descending
	Bands    int     // of every training batch
	Train    []Train
	Segments []Segment // empty without an SSD level
	Valid    []Eval
	Test     []Eval
}

// Encode returns the index as it lies on disk.
func (x *Index) Encode() []byte {
	le := binary.LittleEndian
	b := append([]byte(nil), indexMagic...)
	for _, n := range []int{len(x.Train), len(x.Valid), len(x.Test), len(x.Segments), x.Bands, len(x.Edges)} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, e := range x.Edges {
		b = le.AppendUint64(b, uint64(e))
	}
	pieces := 0
	for i := range x.Train {
		t := &x.Train[i]
		for _, list := range [][]int{{t.Inputs, t.Seeds, t.Edges}, t.Bands, t.SSD} {
			for _, n := range list {
				b = le.AppendUint32(b, uint32(n))
			}
		}
		b = le.AppendUint64(b, uint64(t.ChunkOffset))
		b = le.AppendUint64(b, uint64(t.ChunkBytes))
		b = appendGraphRef(b, t.GraphOffset, t.GraphBytes, t.GraphCRC)
		pieces += len(t.Sums)
	}
	for _, s := range x.Segments {
		b = le.AppendUint64(b, uint64(s.Offset))
		b = le.AppendUint32(b, uint32(s.Rows))
	}
	for _, list := range [][]Eval{x.Valid, x.Test} {
		for i := range list {
			e := &list[i]
			for _, n := range []int{e.Inputs, e.Seeds, e.Edges, e.Rows} {
				b = le.AppendUint32(b, uint32(n))
			}
			b = appendGraphRef(b, e.GraphOffset, e.GraphBytes, e.GraphCRC)
		}
	}
	b = le.AppendUint64(b, uint64(pieces))
	for i := range x.Train {
		b = append(b, binio.Bytes(x.Train[i].Sums)...)
	}
	for i := range x.Train {
		b = append(b, binio.Bytes(x.Train[i].Frames)...)
	}
	return le.AppendUint32(b, binio.CRC(b))
}

func appendGraphRef(b []byte, off int64, size int, crc uint32) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(off))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	return binary.LittleEndian.AppendUint32(b, crc)
}

// DecodeIndex reads what Encode wrote, for chunks of the given form. Whatever the
// bytes, it returns a consistent index or an error of kind fault.ErrCorrupt.
func DecodeIndex(b []byte, f Form) (*Index, error) {
	if len(b) < len(indexMagic)+4 || string(b[:len(indexMagic)]) != indexMagic {
		return nil, fault.New(fault.ErrCorrupt, "not a pack's index")
	}
	body := b[:len(b)-4]
	if binio.CRC(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, fault.New(fault.ErrCorrupt, "does not match its own checksum")
	}
	d := binio.NewDecoder(body)
	d.Raw(len(indexMagic))
	train, valid, test, segments := d.Count(0), d.Count(0), d.Count(0), d.Count(0)
	x := &Index{Bands: d.Count(0)}
	edges := d.Count(8)
	if x.Bands < 1 || x.Bands > MaxBands || edges < 1 || edges > x.Bands {
		d.Fail("%d bands, %d edges", x.Bands, edges)
		return nil, d.Err()
	}
	x.Edges = make([]int64, edges)
	for i := range x.Edges {
		x.Edges[i] = int64(d.U64())
		if x.Edges[i] < 0 || i > 0 && x.Edges[i] >= x.Edges[i-1] {
			d.Fail("edges do not descend")
		}
	}
	trainBytes, segmentBytes, evalBytes := 3*4+2*4*x.Bands+2*8+16, 8+4, 4*4+16
	if train*trainBytes+segments*segmentBytes+(valid+test)*evalBytes > d.Rest() {
		d.Fail("%d + %d + %d batches in %d segments exceed the %d bytes left", train, valid, test, segments, d.Rest())
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	x.Train, x.Segments = make([]Train, train), make([]Segment, segments)
	x.Valid, x.Test = make([]Eval, valid), make([]Eval, test)
	for i := range x.Train {
		decodeTrain(d, &x.Train[i], x.Bands)
	}
	for i := range x.Segments {
		s := &x.Segments[i]
		s.Offset, s.Rows = int64(d.U64()), int(d.U32())
		if s.Offset < 0 || s.Offset%binio.Page != 0 {
			d.Fail("a segment does not begin on a page")
		}
	}
	for i := range x.Valid {
		decodeEval(d, &x.Valid[i])
	}
	for i := range x.Test {
		decodeEval(d, &x.Test[i])
	}
	x.decodePieces(d, f)
	return x, d.Err()
}

func decodeTrain(d *binio.Decoder, t *Train, bands int) {
	t.Inputs, t.Seeds, t.Edges = int(d.U32()), int(d.U32()), int(d.U32())
	t.Bands, t.SSD = make([]int, bands), make([]int, bands)
	for _, list := range [][]int{t.Bands, t.SSD} {
		for i := range list {
			list[i] = int(d.U32())
		}
	}
	t.ChunkOffset, t.ChunkBytes = int64(d.U64()), int64(d.U64())
	t.GraphOffset, t.GraphBytes, t.GraphCRC = int64(d.U64()), int(d.U32()), d.U32()
	if t.ChunkOffset < 0 || t.ChunkOffset%binio.Page != 0 || t.ChunkBytes < 0 || t.GraphOffset < 0 || t.Hot() < 0 {
		d.Fail("inconsistent training batch")
	}
}

// decodePieces reads the tables of all chunks' pieces, which fill what is left.
func (x *Index) decodePieces(d *binio.Decoder, f Form) {
	want, tables := 0, 1
	for i := range x.Train {
		want += f.NumPieces(x.Train[i].Bands)
	}
	if f.Compressed() {
		tables = 2
	}
	if n := d.U64(); d.Err() == nil && (n != uint64(want) || d.Rest() != 4*tables*want) {
		d.Fail("%d pieces in %d bytes, %d needed", n, d.Rest(), want)
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
				d.Fail("a piece of %d bytes of rows has %d", p.RowLen, p.Len)
			}
			return nil
		})
		if t.ChunkBytes != t.Extent(f, x.Bands-1) {
			d.Fail("a chunk of %d bytes whose pieces have %d", t.ChunkBytes, t.Extent(f, x.Bands-1))
		}
	}
}

// SharePieces gives every batch its part of the tables of all chunks' pieces; frames
// are ignored without compression.
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

func decodeEval(d *binio.Decoder, e *Eval) {
	e.Inputs, e.Seeds, e.Edges, e.Rows = int(d.U32()), int(d.U32()), int(d.U32()), int(d.U32())
	e.GraphOffset, e.GraphBytes, e.GraphCRC = int64(d.U64()), int(d.U32()), d.U32()
	if e.GraphOffset < 0 || e.Rows > e.Inputs {
		d.Fail("inconsistent evaluation batch")
	}
}
