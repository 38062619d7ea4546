package kernels

import "diskgnn/device/cuda"

// Place copies rows of RowBytes bytes, unchanged, to rows of a table:
//
//	Table[Index[i]] = Source[i]
//
// It changes a table that Gather reads: Far holds its rows from Near on, and may be in pinned host memory.
// The values in Index must be distinct.
type Place struct {
	Table    cuda.Buffer
	Far      cuda.Buffer // may be none: Near is then the number of rows of Table
	Near     int
	Source   cuda.Buffer
	RowBytes int         // bytes of a row of the table and the source; even
	Index    cuda.Buffer // uint32
	Rows     Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Place) Launch(s *cuda.Stream) error {
	l := begin(s, "place")
	if a.RowBytes%2 != 0 {
		l.Fail("rows of %d bytes: the number must be even", a.RowBytes)
	}
	l.Buffer("the table", a.Table, int64(a.Near)*int64(a.RowBytes))
	l.Optional("the table's far rows", a.Far, 0)
	l.Int(a.Near)
	l.Buffer("the rows", a.Source, int64(a.Rows.Most)*int64(a.RowBytes))
	l.Int(a.RowBytes)
	l.Buffer("the index", a.Index, 4*int64(a.Rows.Most))
	l.count(a.Rows)
	return l.rows(place, a.Rows.Most, a.RowBytes/2, a.unit())
}

// unit returns how many pairs of bytes a thread may take at once.
func (a *Place) unit() int {
	if (uint64(a.RowBytes)|a.Table.Address()|a.Far.Address()|a.Source.Address())%8 != 0 {
		return 1
	}
	return 4
}
