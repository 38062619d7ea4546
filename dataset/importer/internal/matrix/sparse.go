package matrix

import (
	"errors"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// DType returns the type in which the features of a matrix are stored: float16 or bfloat16 if its
// elements are of that type, else float32.
func DType(m Matrix) dtype.Type {
	switch m := m.(type) {
	case *array:
		return m.a.DType()
	case *sparse:
		return m.dtype
	}
	if m.Half() {
		return dtype.Float16
	}
	return dtype.Float32
}

// Sparse is a sparse matrix in a file.
type Sparse struct {
	Name          string // for messages
	Layout        string // csr, csc or coo
	Rows, Columns int64
	// Array opens an array by SciPy's name for it: indptr and indices of csr and csc, row and col of coo,
	// and data.
	Array func(part string) (*npz.Array, error)
	// Coords says that coo has an array coords of shape (2, n) in place of row and col.
	Coords bool
	// Data says that there is an array data, of the entries' values; without it, all are 1.
	Data bool

	market *market // in place of all arrays
}

// mostRows bounds the rows and columns of a matrix, so that one more is a number too.
const mostRows = 1 << 48

// check returns an error for impossible sizes.
func (s *Sparse) check() error {
	if s.Rows < 0 || s.Columns < 0 || s.Rows > mostRows || s.Columns > mostRows {
		return fault.New(fault.ErrInput, "%s: a matrix of %d × %d is impossible", s.Name, s.Rows, s.Columns)
	}
	if s.market == nil && s.Layout != "csr" && s.Layout != "csc" && s.Layout != "coo" {
		return fault.New(fault.ErrInput, "%s: the matrix has the format %.20q; only csr, csc and coo can be read: save its .tocsr()", s.Name, s.Layout)
	}
	return nil
}

// Nodes returns the number of nodes, if the matrix is the adjacency of a graph. One that is not square,
// or has no rows, is an error.
func (s *Sparse) Nodes() (int64, error) {
	if s.Rows != s.Columns || s.Rows < 1 {
		return 0, fault.New(fault.ErrInput, "%s: the adjacency matrix is %d × %d, not square with at least 1 node", s.Name, s.Rows, s.Columns)
	}
	return s.Rows, dataset.CheckNodes(s.Name, s.Rows)
}

// Count returns the number of entries; of a symmetric matrix in a text file, an upper bound.
func (s *Sparse) Count() (n int64, err error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	if s.market != nil {
		return s.market.count(), nil
	}
	part := map[string]string{"csr": "indices", "csc": "indices", "coo": "row"}[s.Layout]
	if s.Coords {
		part = "coords"
	}
	err = s.with(part, func(a *npz.Array) error {
		if !s.Coords {
			n = a.Count()
			return a.Vector(-1)
		}
		if !a.Integer() || len(a.Shape) != 2 || a.Shape[0] != 2 {
			return a.Fail(fault.New(fault.ErrInput, "the indices of a sparse matrix must be integers of shape (2, n), not %s of shape %s", a.Type(), a.ShapeString()))
		}
		n = a.Shape[1]
		return nil
	})
	return n, err
}

func (s *Sparse) with(part string, do func(*npz.Array) error) error {
	return importer.With(func() (*npz.Array, error) { return s.Array(part) }, do)
}

// Weighted reports whether an entry has a value other than 1: see npz.Array.OnlyOnes.
func (s *Sparse) Weighted() (weighted bool, err error) {
	if s.market != nil || !s.Data {
		return s.market != nil && s.market.columns > 2, nil
	}
	err = s.with("data", func(a *npz.Array) error {
		weighted = !a.OnlyOnes()
		return nil
	})
	return weighted, err
}

// Pairs opens the places of all entries. A row is a source and a column a destination, or the other
// way round if in is set. Neither is checked.
func (s *Sparse) Pairs(in bool) (stream.Pairs, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	switch {
	case s.market != nil:
		return s.market.open(in)
	case s.Coords:
		return s.coords(in)
	case s.Layout == "coo" && in:
		return stream.TwoVectors(s.Array, "col", "row")
	case s.Layout == "coo":
		return stream.TwoVectors(s.Array, "row", "col")
	}
	indptr, err := s.Array("indptr")
	if err != nil {
		return nil, err
	}
	indices, err := s.Array("indices")
	if err != nil {
		return nil, errors.Join(err, indptr.Close())
	}
	rows := s.Rows
	if s.Layout == "csc" {
		rows, in = s.Columns, !in
	}
	r, err := stream.NewCompressedRows(indptr, indices, rows)
	if err != nil {
		return nil, err
	}
	return r.Pairs(in), nil
}

// coords opens the places that are an array of shape (2, n), which Count has checked.
func (s *Sparse) coords(in bool) (stream.Pairs, error) {
	p, err := stream.TwoRows(func() (*npz.Array, error) { return s.Array("coords") })
	if err == nil && in {
		p = turned{p}
	}
	return p, err
}

// turned exchanges the ends of edges.
type turned struct{ stream.Pairs }

func (p turned) Next(dst, src []int64) (int, error) { return p.Pairs.Next(src, dst) }

// Matrix opens the matrix as a dense one. Places without an entry are 0; entries for the same place add
// up. Entries must be in the order of their rows: CSC is an error, and so are others when they are read.
// It holds buffers of a fixed size.
func (s *Sparse) Matrix() (_ Matrix, err error) {
	n, err := s.Count()
	switch {
	case err != nil:
		return nil, err
	case s.Layout == "csc":
		return nil, s.unsorted()
	case s.Columns < 1 || s.Columns > maxColumns:
		return nil, fault.New(fault.ErrInput, "%s: rows have %d elements instead of 1 to %d", s.Name, s.Columns, maxColumns)
	}
	m := &sparse{Sparse: s, dtype: dtype.Float32}
	if m.places, err = s.Pairs(true); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if s.market != nil {
		m.data, err = s.market.values(m.places)
		return m, err
	}
	if !s.Data {
		return m, nil
	}
	a, err := s.Array("data")
	if err != nil {
		return nil, err
	}
	m.data, m.dtype = a, a.DType()
	if len(a.Shape) != 1 || a.Shape[0] != n {
		return nil, a.Fail(fault.New(fault.ErrInput, "its shape is %s, but the matrix has %d entries", a.ShapeString(), n))
	}
	return m, nil
}

func (s *Sparse) unsorted() error {
	return fault.New(fault.ErrInput, "%s: the entries of the sparse matrix are not in the order of rows: save it in compressed rows, SciPy's .tocsr() or torch's .to_sparse_csr()", s.Name)
}

// OpenSparse returns the sparse matrix in a file of SciPy, Matrix Market or torch, or nil if the file has
// another form or content.
func OpenSparse(fsys vfs.FS, s Spec) (*Sparse, error) {
	switch {
	case formOf(s) != sparseForm:
		return nil, nil
	case isTorch(s.Path):
		return SparseTorch(fsys, s.Path, s.Key, pickKey(s.Key))
	case isMarket(s.Path):
		m, err := readMarket(fsys, s.Path)
		if err == nil && m.market == nil {
			m = nil
		}
		return m, err
	}
	return OpenSciPy(fsys, s.Path)
}

// openSparse opens a file that may have a sparse matrix as a dense one.
func openSparse(fsys vfs.FS, s Spec) (Matrix, error) {
	switch m, err := OpenSparse(fsys, s); {
	case err != nil:
		return nil, err
	case m != nil:
		return m.Matrix()
	case isTorch(s.Path):
		return OpenTorch(fsys, s.Path, s.Key, pickKey(s.Key))
	case isMarket(s.Path):
		return openColumn(fsys, s.Path)
	}
	keys, err := Keys(fsys, s)
	if err == nil {
		err = fault.New(fault.ErrInput, "%s has the arrays %.200s: name one of them, as in %s:KEY", s.Path, strings.Join(keys, ", "), s.Path)
	}
	return nil, err
}

// Keys returns the keys of the arrays in a .npz archive, or of the values in a file of torch.
func Keys(fsys vfs.FS, s Spec) (keys []string, err error) {
	if isTorch(s.Path) {
		err = torchfile.Look(fsys, s.Path, func(root any) error {
			if d, ok := torchfile.Attributes(root); ok {
				keys = torchfile.Keys(d)
			}
			return nil
		})
		return keys, err
	}
	z, err := npz.OpenArchive(fsys, s.Path)
	if err != nil {
		return nil, err
	}
	return z.Keys(), z.Close()
}

// OpenSciPy returns the matrix that scipy.sparse.save_npz wrote, or nil if an archive has another
// content.
func OpenSciPy(fsys vfs.FS, name string) (s *Sparse, err error) {
	z, err := npz.OpenArchive(fsys, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	if !z.Has("format") || !z.Has("shape") {
		return nil, nil
	}
	layout, err := z.Text("format")
	if err != nil {
		return nil, err
	}
	shape, err := z.All("shape", 2)
	if err != nil {
		return nil, err
	}
	return &Sparse{Name: name, Layout: layout, Rows: shape[0], Columns: shape[1], Data: z.Has("data"), Coords: z.Has("coords"), Array: func(part string) (*npz.Array, error) {
		return npz.OpenMember(fsys, name, part)
	}}, nil
}

// sparse is a sparse matrix as a dense one.
type sparse struct {
	*Sparse
	places stream.Pairs // dst is the row, src the column
	data   values       // nil: all are 1
	dtype  dtype.Type   // of data, if features are stored in it
	at     int64        // the row that comes next
	last   int64        // the row of the last entry that was read ahead
	ended  bool
	// Entries that were read ahead, from next to end.
	next, end     int
	rows, columns [chunk]int64
	values        [chunk]float64
}

// values are the values of the places that were read last.
type values interface {
	Doubles(dst []float64) error
	End() error
	Close() error
}

func (m *sparse) Name() string  { return m.Sparse.Name }
func (m *sparse) Rows() int64   { return m.Sparse.Rows }
func (m *sparse) Columns() int  { return int(m.Sparse.Columns) }
func (*sparse) Names() []string { return nil }
func (*sparse) Integer() bool   { return false } // sums are read as floats
func (*sparse) Mask() bool      { return false }
func (m *sparse) Half() bool    { return m.dtype == dtype.Float16 }

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
func (m *sparse) read() error {
	if m.next, m.end = 0, 0; m.ended {
		return nil
	}
	n, err := m.places.Next(m.rows[:], m.columns[:])
	if err != nil {
		return err
	}
	for i, row := range m.rows[:n] {
		if column := m.columns[i]; uint64(column) >= uint64(m.Sparse.Columns) {
			return fault.New(fault.ErrInput, "%s: column %d is out of range: there are %d columns", m.Name(), column, m.Sparse.Columns)
		}
		switch {
		case uint64(row) >= uint64(m.Sparse.Rows):
			return fault.New(fault.ErrInput, "%s: row %d is out of range: there are %d rows", m.Name(), row, m.Sparse.Rows)
		case row < m.last:
			return m.unsorted()
		}
		m.last = row
	}
	if m.end, m.ended = n, n == 0; m.data != nil {
		return m.data.Doubles(m.values[:n])
	}
	for i := range n {
		m.values[i] = 1
	}
	return nil
}

// dense sets dst to the next rows.
func dense[T float32 | float64](m *sparse, dst []T) (int, error) {
	columns := m.Columns()
	rows := min(int64(len(dst)/columns), m.Sparse.Rows-m.at)
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
	if _, _, err := m.before(m.Sparse.Rows); err != nil || m.data == nil {
		return err
	}
	return m.data.End()
}

func (m *sparse) Close() error {
	if m.data == nil {
		return m.places.Close()
	}
	return errors.Join(m.places.Close(), m.data.Close())
}
