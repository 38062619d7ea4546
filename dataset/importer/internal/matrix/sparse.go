package matrix

import (
	"errors"
	"io"

	"diskgnn/dataset"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// DType returns the type in which the features of a matrix are stored: float16 or bfloat16 if its
// elements are of that type, else float32.
func DType(m Matrix) dtype.Type {
	switch m := m.(type) {
	case *array:
		return m.a.DType()
	case *sparse:
		if m.Values != nil {
			return m.Values.DType()
		}
	}
	if m.Half() {
		return dtype.Float16
	}
	return dtype.Float32
}

// Entries are the entries of a sparse matrix, by rows.
type Entries struct {
	Name          string // for messages
	Rows, Columns int64
	// Places are the entries' rows, as dst, and columns, as src. Rows must not descend.
	Places stream.Pairs
	Count  int64      // of Places
	Values *npz.Array // one for each of Places; nil: all are 1
	// Closer is closed last, if it is not nil.
	Closer io.Closer
}

// FromEntries returns a sparse matrix as a dense one. Places without an entry are 0; entries for the
// same place add up. It takes ownership of e, and closes it if it fails. Reading it fails with an error
// of kind fault.ErrInput if rows descend, or if a place is outside the matrix. It holds buffers of a
// fixed size.
func FromEntries(e Entries) (Matrix, error) {
	m := &sparse{Entries: e}
	var err error
	switch v := e.Values; {
	case e.Columns < 1 || e.Columns > maxColumns:
		err = fault.New(fault.ErrInput, "%s: rows have %d elements instead of 1 to %d", e.Name, e.Columns, dataset.MaxDim)
	case v != nil && (len(v.Shape) != 1 || v.Shape[0] != e.Count):
		err = v.Fail(fault.New(fault.ErrInput, "its shape is %s, but the matrix has %d entries", v.ShapeString(), e.Count))
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// sparse is a sparse matrix as a dense one.
type sparse struct {
	Entries
	at, last int64 // the row that comes next, and the row of the last entry that was read ahead
	// Entries that were read ahead, from next to end.
	next, end     int
	rows, columns [chunk]int64
	values        [chunk]float64
}

func (m *sparse) Name() string  { return m.Entries.Name }
func (m *sparse) Rows() int64   { return m.Entries.Rows }
func (m *sparse) Columns() int  { return int(m.Entries.Columns) }
func (*sparse) Names() []string { return nil }
func (*sparse) Integer() bool   { return false } // sums are read as floats
func (*sparse) Mask() bool      { return false }
func (m *sparse) Half() bool    { return DType(m) == dtype.Float16 }

func (m *sparse) Ints([]int64) (int, error) {
	return 0, fault.New(fault.ErrInput, "%s: a sparse matrix has no integers", m.Name())
}
func (m *sparse) Floats(dst []float32) (int, error)  { return dense(m, dst) }
func (m *sparse) Doubles(dst []float64) (int, error) { return dense(m, dst) }

// before returns the range of entries in memory that come next and are of rows before the given one.
// It is empty if there are none.
func (m *sparse) before(row int64) (from, to int, err error) {
	if m.next == m.end {
		if err := m.read(); err != nil {
			return 0, 0, err
		}
	}
	from = m.next
	for m.next < m.end && m.rows[m.next] < row {
		m.next++
	}
	return from, m.next, nil
}

// read reads the next entries ahead.
func (m *sparse) read() (err error) {
	if m.next, m.end, err = 0, 0, nil; m.last == m.Entries.Rows {
		return nil
	}
	n, err := m.Places.Next(m.rows[:], m.columns[:])
	if err != nil {
		return err
	}
	for i, row := range m.rows[:n] {
		if column := m.columns[i]; uint64(column) >= uint64(m.Entries.Columns) {
			return fault.New(fault.ErrInput, "%s: column %d is out of range: there are %d columns", m.Name(), column, m.Entries.Columns)
		}
		switch {
		case uint64(row) >= uint64(m.Entries.Rows):
			return fault.New(fault.ErrInput, "%s: row %d is out of range: there are %d rows", m.Name(), row, m.Entries.Rows)
		case row < m.last:
			return fault.New(fault.ErrInput, "%s: its entries are not sorted by rows: save it in compressed rows, with SciPy's .tocsr() or torch's .to_sparse_csr()", m.Name())
		}
		m.last = row
	}
	if n == 0 {
		m.last = m.Entries.Rows
		return nil
	}
	m.end = n
	if m.Values != nil {
		return m.Values.Doubles(m.values[:n])
	}
	for i := range n {
		m.values[i] = 1
	}
	return nil
}

// dense sets dst to the next rows.
func dense[T float32 | float64](m *sparse, dst []T) (int, error) {
	columns := m.Columns()
	rows := min(int64(len(dst)/columns), m.Entries.Rows-m.at)
	dst = dst[:rows*int64(columns)]
	clear(dst)
	for {
		from, to, err := m.before(m.at + rows)
		if err != nil {
			return 0, err
		}
		if from == to {
			m.at += rows
			return len(dst), nil
		}
		for i := from; i < to; i++ {
			dst[(m.rows[i]-m.at)*int64(columns)+m.columns[i]] += T(m.values[i])
		}
	}
}

func (m *sparse) Skip(rows int64) error {
	m.at += rows
	for {
		if from, to, err := m.before(m.at); err != nil || from == to {
			return err
		}
	}
}

func (m *sparse) End() error {
	if _, _, err := m.before(m.Entries.Rows); err != nil || m.Values == nil {
		return err
	}
	return m.Values.End()
}

func (m *sparse) Close() error {
	err := m.Places.Close()
	if m.Values != nil {
		err = errors.Join(err, m.Values.Close())
	}
	if m.Closer != nil {
		err = errors.Join(err, m.Closer.Close())
	}
	return err
}
