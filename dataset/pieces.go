package dataset

import (
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// pieces locates the parts of a feature table that have their own checksums: piece i holds granule i,
// raw or as a frame.
type pieces struct {
	name string // of the file, for messages
	size int64  // of the features, uncompressed
	crcs []uint32
	ends []int64 // where the frames end in the file; nil if nothing is compressed
}

func rawPieces(name string, t binio.Sums) pieces {
	return pieces{name: name, size: t.Size, crcs: t.CRC}
}

func framePieces(name string, t frames) pieces {
	p := pieces{name: name, size: t.size, crcs: t.crcs, ends: make([]int64, len(t.lengths))}
	end := int64(0)
	for i, n := range t.lengths {
		end += int64(n)
		p.ends[i] = end
	}
	return p
}

// start returns where piece i, which may be the one after the last, begins in the
// file.
func (p *pieces) start(i int) int64 {
	switch {
	case p.ends == nil:
		return min(int64(i)*Granule, p.size)
	case i == 0:
		return 0
	}
	return p.ends[i-1]
}

// content returns the bytes of features in the pieces [first, end).
func (p *pieces) content(first, end int) int64 {
	return min(int64(end)*Granule, p.size) - int64(first)*Granule
}

// decode checks b, the bytes of piece i in the file, and returns its features: b itself or, if they
// are compressed, in the memory of dst, which must have the capacity.
func (p *pieces) decode(i int, b, dst []byte) ([]byte, error) {
	at := p.start(i)
	if n := p.start(i+1) - at; int64(len(b)) != n || binio.CRC(b) != p.crcs[i] {
		return nil, binio.BadRange(p.name, at, n)
	}
	if p.ends == nil {
		return b, nil
	}
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	n := p.content(i, i+1)
	out, err := d.DecodeAll(b, dst[:0:n])
	if err != nil || int64(len(out)) != n {
		return nil, fault.New(fault.ErrCorrupt, "%s: bytes %d to %d do not decompress to %d bytes: %v", p.name, at, at+int64(len(b)), n, err)
	}
	return out, nil
}

// Extent is the part of the data file that has a range of feature rows. It consists of whole pieces: Granule
// bytes of features each, as they are stored. First and End number pieces, not rows.
type Extent struct {
	First, End int   // the pieces First … End-1
	Offset     int64 // of piece First in the file, in bytes
	Size       int64 // of the pieces in the file, in bytes
	Skip       int   // bytes of features in piece First that precede the first row
}

// Path returns the path of the data file.
func (r *FeatureReader) Path() string { return r.pieces.name }

// Compressed reports whether the features are compressed, so that Decode writes to dst.
func (r *FeatureReader) Compressed() bool { return r.pieces.ends != nil }

// Extent returns the part of the data file that has the rows [lo, hi). It requires 0 ≤ lo < hi ≤
// nodes.
func (r *FeatureReader) Extent(lo, hi int64) Extent {
	first, end := lo*r.rowBytes/Granule, (hi*r.rowBytes+Granule-1)/Granule
	e := Extent{First: int(first), End: int(end), Skip: int(lo*r.rowBytes - first*Granule)}
	e.Offset = r.pieces.start(e.First)
	e.Size = r.pieces.start(e.End) - e.Offset
	return e
}

// Piece returns the offset and the size of piece i in the data file, in bytes.
func (r *FeatureReader) Piece(i int) (offset, size int64) {
	offset = r.pieces.start(i)
	return offset, r.pieces.start(i+1) - offset
}

// Decode checks b, the bytes of piece i in the data file, and returns the features of the piece:
// Granule bytes from byte i × Granule of the uncompressed table on, fewer at its end. The result is b
// itself or, if Compressed, in the memory of dst, which must have the capacity for it. A wrong byte is
// an error of kind fault.ErrCorrupt. Decode is safe for concurrent use and does not allocate.
func (r *FeatureReader) Decode(i int, b, dst []byte) ([]byte, error) {
	out, err := r.pieces.decode(i, b, dst)
	return out, r.damaged(err)
}
