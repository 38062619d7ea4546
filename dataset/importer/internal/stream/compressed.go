package stream

import (
	"context"
	"errors"

	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// CompressedRows reads a sparse matrix in compressed rows: where each row's entries begin (indptr),
// and the columns of all entries, row after row (indices). A graph in compressed columns is the same
// with the words changed. It is not safe for concurrent use.
type CompressedRows struct {
	Indptr, Indices *npz.Array
	Last            int64 // entries of the rows that Next returned

	buf   [chunk]int64 // offsets read ahead
	ahead []int64
	left  int64 // offsets not read yet
	rows  int64
}

// NewCompressedRows checks that the arrays are a matrix of the given number of rows. It takes the
// arrays over, and closes them if it fails.
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

// Next returns the length of the next row. It must not be called more often than there are rows.
func (r *CompressedRows) Next() (int64, error) {
	end, err := r.offset()
	if err != nil {
		return 0, err
	}
	total := r.Indices.Count()
	if end < r.Last || end > total || r.Ended() && end != total {
		return 0, r.Indptr.Fail(fault.New(fault.ErrInput, "offset %d follows offset %d, which is wrong for %d entries", end, r.Last, total))
	}
	n := end - r.Last
	r.Last = end
	return n, nil
}

// Each calls do for the columns of every row in turn, some at a time; rows must not have been
// read before. The columns are checked by the caller.
func (r *CompressedRows) Each(ctx context.Context, do func(row int64, columns []int64) error) error {
	columns := make([]int64, chunk)
	for row := range r.rows {
		if row%chunk == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		left, err := r.Next()
		if err != nil {
			return err
		}
		for left > 0 {
			part := columns[:min(left, chunk)]
			if err := r.Indices.Ints(part); err != nil {
				return err
			}
			if err := do(row, part); err != nil {
				return err
			}
			left -= int64(len(part))
		}
	}
	return errors.Join(r.Indices.End(), r.Indptr.End())
}

// Edges calls add for the entries as edges between the nodes, one for each row: the edge of an entry
// points from its column to its row.
func (r *CompressedRows) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	dst := make([]int64, chunk)
	return r.Each(ctx, func(v int64, src []int64) error {
		for i, u := range src {
			if uint64(u) >= uint64(r.rows) {
				return r.Indices.Fail(fault.New(fault.ErrInput, "the edge from %d to %d is out of range: the graph has %d nodes", u, v, r.rows))
			}
			dst[i] = v
		}
		return add(dst[:len(src)], src)
	})
}

// Ended reports whether the last row was returned.
func (r *CompressedRows) Ended() bool { return r.left == 0 && len(r.ahead) == 0 }

// Close closes both arrays.
func (r *CompressedRows) Close() error { return errors.Join(r.Indptr.Close(), r.Indices.Close()) }
