package frontend

import "unsafe"

// A Splitter cuts a request into pieces that a device can read: whole pages
// land in the request's buffer in place, partial pages and misaligned buffers
// go through a bounce buffer.
//
//	file pages  |       |       |       |       |       |
//	request         [=================================)
//	pieces          [head)[ in place, ≤ MaxIO …   )[tail)
//	                bounce                          bounce
//
// A piece is one device read. The pieces of a request tile it, in order and
// without overlap.
//
// It holds the limits of one file. All sizes are in bytes.
type Splitter struct {
	// Align is the alignment of offset, length and address of a direct read, a power of two. 1 means
	// buffered reads, for which every piece lands in place.
	Align int
	// MaxIO is the length of the longest in-place piece, a multiple of Align.
	MaxIO int
	// Bounce is the size of the bounce buffer, a multiple of Align.
	Bounce int
}

// Piece is one device read: Length bytes of the file from Offset on. The bytes from Skip on fill Dst, the
// piece's part of the request's buffer. Unless Bounce is set, Skip is 0 and Length is len(Dst).
type Piece struct {
	Offset int64
	Length int
	Skip   int
	Dst    []byte
	Bounce bool
}

// Next returns the first piece of a request for len(buf) > 0 bytes from offset on. The rest of the request
// begins len(p.Dst) bytes later.
//
// A short rest with a partial page is bounced completely, although its middle could be read in place:
// copying at most Bounce bytes costs less than a second device read.
func (s Splitter) Next(offset int64, buf []byte) Piece {
	mask := s.Align - 1
	lead := int(offset & int64(mask)) // bytes of the first page before the request
	hull := (lead + len(buf) + mask) &^ mask
	partial := lead+len(buf) != hull || lead != 0
	congruent := addressOf(buf)&mask == lead

	switch {
	case !congruent, partial && hull <= s.Bounce:
		return s.bounce(offset, lead, min(len(buf), s.Bounce-lead), buf)
	case lead != 0:
		return s.bounce(offset, lead, s.Align-lead, buf)
	default:
		n := min(len(buf)&^mask, s.MaxIO)
		return Piece{Offset: offset, Length: n, Dst: buf[:n:n]}
	}
}

// bounce returns the piece that reads the pages around the first n bytes of buf.
func (s Splitter) bounce(offset int64, lead, n int, buf []byte) Piece {
	return Piece{
		Offset: offset - int64(lead),
		Length: (lead + n + s.Align - 1) &^ (s.Align - 1),
		Skip:   lead,
		Dst:    buf[:n:n],
		Bounce: true,
	}
}

func addressOf(buf []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }
