package dataset

import (
	"errors"

	"diskgnn/internal/fault"
)

// compressedRows reads the row lengths of a matrix in compressed sparse rows,
// and holds its column indices open.
type compressedRows struct {
	indptr, indices *numbers
	buf             [chunk]int64 // offsets read ahead
	ahead           []int64
	left            int64 // offsets not read yet
	last            int64
}

func openRows(z *npz, prefix string, rows int64) (*compressedRows, error) {
	c := &compressedRows{left: rows + 1}
	var err error
	if c.indptr, err = z.array(prefix + "_indptr"); err != nil {
		return nil, err
	}
	if c.indices, err = z.array(prefix + "_indices"); err != nil {
		return nil, errors.Join(err, c.indptr.close())
	}
	if err := errors.Join(c.indptr.vector(rows+1), c.indices.vector(-1)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	first, err := c.next()
	if err == nil && first != 0 {
		err = c.indptr.fail(fault.New(fault.ErrInput, "it begins with %d instead of 0", first))
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// next returns the next offset.
func (c *compressedRows) next() (int64, error) {
	if len(c.ahead) == 0 {
		c.ahead = c.buf[:min(chunk, c.left)]
		c.left -= int64(len(c.ahead))
		if err := c.indptr.ints(c.ahead); err != nil {
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
		return 0, c.indptr.fail(fault.New(fault.ErrInput, "offset %d follows %d: they do not describe %d entries", end, c.last, total))
	}
	n := end - c.last
	c.last = end
	return n, nil
}

// ended reports whether the last row was returned.
func (c *compressedRows) ended() bool { return c.left == 0 && len(c.ahead) == 0 }

func (c *compressedRows) close() error { return errors.Join(c.indptr.close(), c.indices.close()) }

// sparseRows makes dense feature rows of sparse ones.
type sparseRows struct {
	z       *npz
	rows    *compressedRows
	data    *numbers
	dim     int
	columns [chunk]int64
	values  [chunk]float32
}

func (r *sparseRows) close() error { return errors.Join(r.data.close(), r.rows.close(), r.z.close()) }

func (r *sparseRows) skip(rows int64) error {
	before := r.rows.last
	for range rows {
		if _, err := r.rows.row(); err != nil {
			return err
		}
	}
	n := r.rows.last - before
	if err := r.rows.indices.skip(n); err != nil {
		return err
	}
	return r.data.skip(n)
}

// next implements rowStream. Entries for the same place add up, as in SciPy.
func (r *sparseRows) next(values []float32) error {
	clear(values)
	for ; len(values) > 0; values = values[r.dim:] {
		left, err := r.rows.row()
		if err != nil {
			return err
		}
		for left > 0 {
			n := min(left, chunk)
			if err := r.rows.indices.ints(r.columns[:n]); err != nil {
				return err
			}
			if err := r.data.floats(r.values[:n]); err != nil {
				return err
			}
			for i, j := range r.columns[:n] {
				if uint64(j) >= uint64(r.dim) {
					return r.rows.indices.fail(fault.New(fault.ErrInput, "column %d of %d", j, r.dim))
				}
				values[j] += r.values[i]
			}
			left -= n
		}
	}
	if r.rows.ended() {
		return errors.Join(r.data.end(), r.rows.indices.end(), r.rows.indptr.end())
	}
	return nil
}

// denseRows reads feature rows as they are.
type denseRows struct {
	a       *numbers
	left    int64 // elements
	archive *npz  // nil for a file of its own
}

func (r *denseRows) next(values []float32) error {
	if err := r.a.floats(values); err != nil {
		return err
	}
	if r.left -= int64(len(values)); r.left > 0 {
		return nil
	}
	return r.a.end()
}

func (r *denseRows) close() error {
	if r.archive == nil {
		return r.a.close()
	}
	return errors.Join(r.a.close(), r.archive.close())
}
