package exact

import (
	"cmp"
	"context"
	"slices"

	"diskgnn/dataset"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
)

// table is a matrix in a file, in pieces with checksums of their own. The features of a dataset are
// one, the hidden states of a layer another.
type table = pieces.File

// layout describes the rows of a table.
type layout struct {
	granule int64 // bytes of rows in a piece, but for the last one
	dim     int
	dtype   dtype.Type
}

// features returns the layout of a dataset's features.
func features(f *dataset.Facts) layout { return layout{dataset.Granule, f.Dim, f.DType} }

func (l layout) rowBytes() int64 { return int64(l.dim) * int64(l.dtype.Size()) }

// rowReader reads rows of a table in ascending order: the pieces that hold any of
// them, one after the other, several at once.
type rowReader struct {
	*pieces.Reader
	layout layout
}

func newRowReader(stack iostack.Stack, t table, l layout, b *pieces.Buffers) (*rowReader, error) {
	r, err := pieces.Open(stack, t, b)
	if err != nil {
		return nil, err
	}
	return &rowReader{r, l}, nil
}

// read fills x with the rows of the ids, which ascend, as float32s.
func (r *rowReader) read(ctx context.Context, ids []uint32, x []float32) error {
	l := r.layout
	if len(ids) == 0 || l.dim == 0 {
		return nil
	}
	left, piece := ids, 0
	return r.Read(ctx, func() (int, bool) {
		left = left[l.ended(left, piece):]
		if len(left) == 0 {
			return 0, false
		}
		piece = max(piece, int(int64(left[0])*l.rowBytes()/l.granule))
		piece++
		return piece - 1, true
	}, func(p *pieces.Piece) error {
		plain, err := p.Decode()
		if err != nil {
			return err
		}
		first := l.ended(ids, p.Index)
		l.copyRows(plain, int64(p.Index)*l.granule, ids[first:], x[first*l.dim:])
		return nil
	})
}

// ended returns the number of ids with rows that end before the piece.
func (l layout) ended(ids []uint32, piece int) int {
	n, _ := slices.BinarySearchFunc(ids, int64(piece)*l.granule, func(id uint32, start int64) int {
		return cmp.Compare((int64(id)+1)*l.rowBytes(), start+1)
	})
	return n
}

// copyRows copies the part of the rows in plain, the table's bytes from start on.
func (l layout) copyRows(plain []byte, start int64, ids []uint32, x []float32) {
	row, element, end := l.rowBytes(), int64(l.dtype.Size()), start+int64(len(plain))
	for i, id := range ids {
		at := int64(id) * row
		if at >= end {
			break
		}
		from, to := max(at, start), min(at+row, end)
		n, skip := int((to-from)/element), int((from-at)/element)
		kernel.Widen(x[i*l.dim+skip:][:n], plain[from-start:to-start], l.dtype, n)
	}
}
