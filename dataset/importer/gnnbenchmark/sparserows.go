package gnnbenchmark

import (
	"errors"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/fault"
)

// openRows opens the matrix that an archive has as PREFIX_indptr and PREFIX_indices.
func openRows(z *npz.Archive, prefix string, rows int64) (*stream.CompressedRows, error) {
	indptr, err := z.Array(prefix + "_indptr")
	if err != nil {
		return nil, err
	}
	indices, err := z.Array(prefix + "_indices")
	if err != nil {
		return nil, errors.Join(err, indptr.Close())
	}
	return stream.NewCompressedRows(indptr, indices, rows)
}

// sparseRows makes dense feature rows of sparse ones.
type sparseRows struct {
	z       *npz.Archive
	rows    *stream.CompressedRows
	data    *npz.Array
	dim     int
	columns [importer.Chunk]int64
	values  [importer.Chunk]float32
}

func (r *sparseRows) Close() error { return errors.Join(r.data.Close(), r.rows.Close(), r.z.Close()) }

// skip passes over the first rows, of which none was read.
func (r *sparseRows) skip(rows int64) error {
	for range rows {
		if _, err := r.rows.Next(); err != nil {
			return err
		}
	}
	if err := r.rows.Indices.Skip(r.rows.Last); err != nil {
		return err
	}
	return r.data.Skip(r.rows.Last)
}

// Next implements importer.RowStream. Entries for the same place add up, as in SciPy.
func (r *sparseRows) Next(values []float32) error {
	clear(values)
	for ; len(values) > 0; values = values[r.dim:] {
		left, err := r.rows.Next()
		if err != nil {
			return err
		}
		for left > 0 {
			n := min(left, importer.Chunk)
			if err := r.rows.Indices.Ints(r.columns[:n]); err != nil {
				return err
			}
			if err := r.data.Floats(r.values[:n]); err != nil {
				return err
			}
			for i, j := range r.columns[:n] {
				if uint64(j) >= uint64(r.dim) {
					return r.rows.Indices.Fail(fault.New(fault.ErrInput, "column %d of %d", j, r.dim))
				}
				values[j] += r.values[i]
			}
			left -= n
		}
	}
	if r.rows.Ended() {
		return errors.Join(r.data.End(), r.rows.Indices.End(), r.rows.Indptr.End())
	}
	return nil
}
