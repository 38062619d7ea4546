package packfile

import "diskgnn/internal/binio"

// Form has the parameters that determine the pieces of chunks.
type Form struct {
	RowBytes int
	Codec    string
}

// Compressed reports whether pieces are compressed.
func (f Form) Compressed() bool { return f.Codec != CodecNone && f.Codec != "" }

// PieceBytes returns the largest number of bytes of rows in a piece, before compression.
func (f Form) PieceBytes() int64 {
	if !f.Compressed() {
		return ColdGranule
	}
	return max(FrameBytes/int64(f.RowBytes), 1) * int64(f.RowBytes)
}

// NumPieces returns the number of pieces of a chunk with the given rows in each band.
func (f Form) NumPieces(bands []int) int {
	n, piece := 0, f.PieceBytes()
	for _, rows := range bands {
		n += int((int64(rows)*int64(f.RowBytes) + piece - 1) / piece)
	}
	return n
}

// Piece is a part of a chunk under one checksum. Offsets are from the chunk's start.
type Piece struct {
	Offset int64  // of the stored bytes
	Len    int    // number of stored bytes
	Stored bool   // the stored bytes are the rows, not compressed
	Row    int64  // offset of the rows among the chunk's rows, in bytes
	RowLen int    // bytes of the rows
	Sum    uint32 // CRC-32C of the stored bytes
}

// Pieces calls do for each piece of the batch's chunk, in order, up to the band through inclusive. f is the
// form of the pack. It stops at the first error of do, and returns it.
func (t *Train) Pieces(f Form, through int, do func(Piece) error) error {
	var p Piece
	i, most := 0, f.PieceBytes()
	for _, rows := range t.Bands[:through+1] {
		for left := int64(rows) * int64(f.RowBytes); left > 0; left -= int64(p.RowLen) {
			p.RowLen = int(min(left, most))
			p.Len, p.Stored = p.RowLen, true
			if f.Compressed() {
				p.Offset = binio.AlignUp(p.Offset, binio.Page)
				p.Len, p.Stored = int(t.Frames[i]&^FrameStored), t.Frames[i]&FrameStored != 0
			}
			p.Sum = t.Sums[i]
			if err := do(p); err != nil {
				return err
			}
			i++
			p.Offset += int64(p.Len)
			p.Row += int64(p.RowLen)
		}
	}
	return nil
}

// Extent returns the bytes of the chunk, as stored, that hold its bands 0 … through.
func (t *Train) Extent(f Form, through int) int64 {
	if !f.Compressed() {
		return int64(t.ColdRows(through)) * int64(f.RowBytes)
	}
	end := int64(0)
	for _, n := range t.Frames[:f.NumPieces(t.Bands[:through+1])] {
		end = binio.AlignUp(end, binio.Page) + int64(n&^FrameStored)
	}
	return end
}

// Stored returns the bytes of the pieces of bands 0 … through, as stored and without
// the gaps between them.
func (t *Train) Stored(f Form, through int) int64 {
	if !f.Compressed() {
		return t.Extent(f, through)
	}
	n := int64(0)
	for _, frame := range t.Frames[:f.NumPieces(t.Bands[:through+1])] {
		n += int64(frame &^ FrameStored)
	}
	return n
}

// VerifyPiece compares piece p of the chunk b, as stored, with its checksum. b begins with the chunk and
// may end after the piece. name is the file, for the error, which is of kind fault.ErrCorrupt.
func (t *Train) VerifyPiece(name string, b []byte, p Piece) error {
	if binio.CRC(b[p.Offset:p.Offset+int64(p.Len)]) != p.Sum {
		return binio.BadRange(name, t.ChunkOffset+p.Offset, int64(p.Len))
	}
	return nil
}
