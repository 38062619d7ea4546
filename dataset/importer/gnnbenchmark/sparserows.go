package gnnbenchmark

import (
	"errors"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// compressedRows reads the row lengths of a matrix in compressed sparse rows,
// and holds its column indices open.
type compressedRows struct {
	indptr, indices *npz.Array
	buf             [importer.Chunk]int64 // offsets read ahead
	ahead           []int64
	left            int64 // offsets not read yet
	last            int64
}

func openRows(z *npz.Archive, prefix string, rows int64) (*compressedRows, error) {
	c := &compressedRows{left: rows + 1}
	var err error
	if c.indptr, err = z.Array(prefix + "_indptr"); err != nil {
		return nil, err
	}
	if c.indices, err = z.Array(prefix + "_indices"); err != nil {
		return nil, errors.Join(err, c.indptr.Close())
	}
	if err := errors.Join(c.indptr.Vector(rows+1), c.indices.Vector(-1)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	first, err := c.next()
	if err == nil && first != 0 {
		err = c.indptr.Fail(fault.New(fault.ErrInput, "it begins with %d instead of 0", first))
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// next returns the next offset.
func (c *compressedRows) next() (int64, error) {
	if len(c.ahead) == 0 {
		c.ahead = c.buf[:min(importer.Chunk, c.left)]
		c.left -= int64(len(c.ahead))
		if err := c.indptr.Ints(c.ahead); err != nil {
			return 0, err
		}
	}
	v := c.ahead[0]
	c.ahead = c.ahead[1:]
	return v, nil
}

// row returns the length of the next row.
func (c *compressedRows) row() (int64, error) {
	end, err := c.next()
	if err != nil {
		return 0, err
	}
	total := c.indices.Count()
	if end < c.last || end > total || c.ended() && end != total {
		return 0, c.indptr.Fail(fault.New(fault.ErrInput, "offset %d follows %d: they do not describe %d entries", end, c.last, total))
	}
	n := end - c.last
	c.last = end
	return n, nil
}

// ended reports whether the last row was returned.
func (c *compressedRows) ended() bool { return c.left == 0 && len(c.ahead) == 0 }

func (c *compressedRows) close() error { return errors.Join(c.indptr.Close(), c.indices.Close()) }

// sparseRows makes dense feature rows of sparse ones.
type sparseRows struct {
	z       *npz.Archive
	rows    *compressedRows
	data    *npz.Array
	dim     int
	columns [importer.Chunk]int64
	values  [importer.Chunk]float32
}

func (r *sparseRows) Close() error { return errors.Join(r.data.Close(), r.rows.close(), r.z.Close()) }

func (r *sparseRows) skip(rows int64) error {
	before := r.rows.last
	for range rows {
		if _, err := r.rows.row(); err != nil {
			return err
		}
	}
	n := r.rows.last - before
	if err := r.rows.indices.Skip(n); err != nil {
		return err
	}
	return r.data.Skip(n)
}

// Next implements importer.RowStream. Entries for the same place add up, as in SciPy.
func (r *sparseRows) Next(values []float32) error {
	clear(values)
	for ; len(values) > 0; values = values[r.dim:] {
		left, err := r.rows.row()
		if err != nil {
			return err
		}
		for left > 0 {
			n := min(left, importer.Chunk)
			if err := r.rows.indices.Ints(r.columns[:n]); err != nil {
				return err
			}
			if err := r.data.Floats(r.values[:n]); err != nil {
				return err
			}
			for i, j := range r.columns[:n] {
				if uint64(j) >= uint64(r.dim) {
					return r.rows.indices.Fail(fault.New(fault.ErrInput, "column %d of %d", j, r.dim))
				}
				values[j] += r.values[i]
			}
			left -= n
		}
	}
	if r.rows.ended() {
		return errors.Join(r.data.End(), r.rows.indices.End(), r.rows.indptr.End())
	}
	return nil
}
