package dataset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// The largest numbers of pieces that ReadRows reads at once, small enough to notice a cancelled
// context soon. Pieces of a compressed table go through a buffer.
const (
	rawStep   = 16
	frameStep = 4
)

// FeatureReader reads and checks feature rows, compressed or not. It is safe for concurrent use. It
// holds 4 bytes for each MiB of features (12 if they are compressed), and for each concurrent call a
// granule, and 4 MiB more if they are compressed.
//
// ReadRows does the reading itself. A caller with an I/O of its own reads the bytes of Extent from the
// file Path, and passes them piece by piece to Decode.
type FeatureReader struct {
	of       *Dataset
	f        vfs.File
	pieces   pieces
	tail     []byte // that follows the pieces, while the table is being written
	rowBytes int64
	rows     int64
	scratch  sync.Pool // of *scratch
}

// scratch is the memory of one call of ReadRows.
type scratch struct {
	wire []byte // frames as they were read
	// edge is a piece that a range covers in part. It is kept because the next
	// range, when rows are read in order, begins in it.
	edge  []byte
	index int // of edge
}

func newScratch() *scratch { return &scratch{edge: make([]byte, 0, Granule), index: -1} }

// FeaturesPath returns the path of the data file with the feature rows.
func (d *Dataset) FeaturesPath() string { return d.path(d.facts.FeaturesFile()) }

// Features opens the feature rows for reading. The caller closes the result.
func (d *Dataset) Features() (_ *FeatureReader, err error) {
	defer func() { err = d.damaged(err) }()
	name := d.facts.FeaturesFile()
	c, err := d.checksums(name)
	if err != nil {
		return nil, err
	}
	p := rawPieces(d.path(name), c.sums)
	if d.facts.Compression != "" {
		p = framePieces(d.path(name), c.frames)
	}
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	return &FeatureReader{of: d, f: f, pieces: p, rowBytes: int64(d.RowBytes()), rows: d.facts.FeatureRows()}, nil
}

// damaged adds to an error how the dataset is made again.
func (r *FeatureReader) damaged(err error) error {
	if err == nil || r.of == nil {
		return err
	}
	return r.of.damaged(err)
}

// Close closes the file.
func (r *FeatureReader) Close() error { return r.f.Close() }

// ReadFeatures fills buf with the rows [lo, hi), verified. It opens and closes
// the file; for more than a few ranges use Features.
func (d *Dataset) ReadFeatures(ctx context.Context, lo, hi int64, buf []byte) (err error) {
	r, err := d.Features()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.ReadRows(ctx, lo, hi, buf)
}

// ReadRows reads and checks the rows [lo, hi) into buf, which has (hi−lo) × RowBytes bytes. After an
// error the content of buf is undefined. Reading ascending ranges of rows reads every byte of the file
// once.
func (r *FeatureReader) ReadRows(ctx context.Context, lo, hi int64, buf []byte) error {
	if lo < 0 || hi < lo || hi > r.rows || int64(len(buf)) != (hi-lo)*r.rowBytes {
		return fmt.Errorf("dataset: cannot read rows [%d, %d) of %d rows into a buffer of %d bytes", lo, hi, r.rows, len(buf))
	}
	s, _ := r.scratch.Get().(*scratch)
	if s == nil {
		s = newScratch()
	}
	defer r.scratch.Put(s)
	for off := lo * r.rowBytes; len(buf) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.read(s, buf, off)
		if err != nil {
			return r.damaged(err)
		}
		off, buf = off+n, buf[n:]
	}
	return nil
}

// read fills the front of buf with the features from byte off of the table on and
// returns how much: several whole pieces, or the part of one.
func (r *FeatureReader) read(s *scratch, buf []byte, off int64) (int64, error) {
	first := int(off / Granule)
	if off%Granule == 0 {
		end := first
		for end < first+r.step() && end < len(r.pieces.crcs) && r.pieces.content(first, end+1) <= int64(len(buf)) {
			end++
		}
		if end > first {
			n := r.pieces.content(first, end)
			return n, r.load(s, buf[:n], first, end)
		}
	}
	if s.index != first {
		s.index = -1
		s.edge = s.edge[:r.pieces.content(first, first+1)]
		if err := r.load(s, s.edge, first, first+1); err != nil {
			return 0, err
		}
		s.index = first
	}
	return int64(copy(buf, s.edge[off%Granule:])), nil
}

func (r *FeatureReader) step() int {
	if r.Compressed() {
		return frameStep
	}
	return rawStep
}

// load fills dst with the features in the pieces [first, end).
func (r *FeatureReader) load(s *scratch, dst []byte, first, end int) error {
	wire, off := dst, r.pieces.start(first)
	if r.Compressed() {
		s.wire = binio.Grow(s.wire, int(r.pieces.start(end)-off))
		wire = s.wire
	}
	if err := readAt(r.f, wire, off); err != nil {
		return err
	}
	for i := first; i < end; i++ {
		_, size := r.Piece(i)
		if _, err := r.Decode(i, wire[:size], dst); err != nil {
			return err
		}
		wire, dst = wire[size:], dst[r.pieces.content(i, i+1):]
	}
	return nil
}

// IndexNotFinite returns the index of the first element of type t in b that is an infinity or NaN, or
// -1.
func IndexNotFinite(b []byte, t dtype.Type) int {
	switch t {
	case dtype.Float32:
		return indexExponent(binio.View[uint32](b), 0x7F800000)
	case dtype.Float16:
		return indexExponent(binio.View[uint16](b), 0x7C00)
	default: // bfloat16: no other type is one of features
		return indexExponent(binio.View[uint16](b), 0x7F80)
	}
}

// indexExponent returns the first element that has all bits of the exponent, or -1.
func indexExponent[T uint16 | uint32](elements []T, exponent T) int {
	for i, x := range elements {
		if x&exponent == exponent {
			return i
		}
	}
	return -1
}

// notFinite is the error for an element of a feature table, counted through all rows.
func notFinite(kind error, file string, element int64, dim int) error {
	return fault.New(kind, "%s: feature %d of node %d is infinite or not a number: features must be finite", file, element%int64(dim), element/int64(dim))
}
