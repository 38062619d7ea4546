package stream

import (
	"errors"

	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// CompressedRows reads a sparse matrix in compressed sparse rows (CSR): Indptr has the position at
// which the entries of each row begin, Indices the columns of all entries. It also reads CSC, with
// rows and columns exchanged. It is not safe for concurrent use.
type CompressedRows struct {
	Indptr, Indices *npz.Array
	last            int64 // total length of the rows that length returned

	buf   [chunk]int64 // offsets read ahead
	ahead []int64
	left  int64 // offsets not read yet
	rows  int64
}

// NewCompressedRows checks that the arrays have the types and lengths for a matrix of the given number
// of rows. It takes ownership of the arrays, and closes them if it fails.
func NewCompressedRows(indptr, indices *npz.Array, rows int64) (*CompressedRows, error) {
	r := &CompressedRows{Indptr: indptr, Indices: indices, left: rows + 1, rows: rows}
	if err := errors.Join(indptr.Vector(rows+1), indices.Vector(-1)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	first, err := r.offset()
	if err == nil && first != 0 {
		err = indptr.Fail(fault.New(fault.ErrInput, "it begins with %d instead of 0", first))
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *CompressedRows) offset() (int64, error) {
	if len(r.ahead) == 0 {
		r.ahead = r.buf[:min(chunk, r.left)]
		r.left -= int64(len(r.ahead))
		if err := r.Indptr.Ints(r.ahead); err != nil {
			return 0, err
		}
	}
	v := r.ahead[0]
	r.ahead = r.ahead[1:]
	return v, nil
}

// length returns the number of entries of the next row. It must not be called after the last row: see
// ended.
func (r *CompressedRows) length() (int64, error) {
	end, err := r.offset()
	if err != nil {
		return 0, err
	}
	total := r.Indices.Count()
	if end < r.last || end > total || r.ended() && end != total {
		return 0, r.Indptr.Fail(fault.New(fault.ErrInput, "offset %d follows offset %d, which is wrong for %d entries", end, r.last, total))
	}
	n := end - r.last
	r.last = end
	return n, nil
}

// ended reports whether length returned the last row.
func (r *CompressedRows) ended() bool { return r.left == 0 && len(r.ahead) == 0 }

// Close closes both arrays.
func (r *CompressedRows) Close() error { return errors.Join(r.Indptr.Close(), r.Indices.Close()) }

// Pairs returns the entries as edges. An entry is an edge from its row to its column (CSR), or from its
// column to its row if in is set (CSC). Neither is checked to be a node, but each row is below the
// number of rows. It is called once. Closing the result closes r.
func (r *CompressedRows) Pairs(in bool) Pairs {
	return &compressedPairs{CompressedRows: r, in: in, row: -1, unread: r.Indices.Count()}
}

// compressedPairs reads the columns of many rows at a time.
type compressedPairs struct {
	*CompressedRows
	in     bool
	row    int64
	inRow  int64 // entries of row that are left
	unread int64 // entries; their columns are not read
}

func (p *compressedPairs) Next(dst, src []int64) (int, error) {
	n := int(min(int64(len(dst)), p.unread))
	rows, columns := src[:n], dst[:n]
	if p.in {
		rows, columns = columns, rows
	}
	if err := p.Indices.Ints(columns); err != nil {
		return 0, err
	}
	p.unread -= int64(n)
	for i := range rows {
		for p.inRow == 0 {
			if err := p.nextRow(); err != nil {
				return 0, err
			}
		}
		p.inRow--
		rows[i] = p.row
	}
	if p.unread > 0 {
		return n, nil
	}
	for !p.ended() { // rows without entries
		if err := p.nextRow(); err != nil {
			return 0, err
		}
	}
	return n, errors.Join(p.Indices.End(), p.Indptr.End())
}

func (p *compressedPairs) nextRow() (err error) {
	if p.ended() {
		return p.Indptr.Fail(fault.New(fault.ErrInput, "it ends at offset %d, but there are %d entries", p.last, p.Indices.Count()))
	}
	p.inRow, err = p.length()
	p.row++
	return err
}
