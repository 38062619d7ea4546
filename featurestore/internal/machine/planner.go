package machine

import "diskgnn/internal/binio"

// Planner cuts the missed rows of a batch into requests. A request reads whole pages of the feature file; the
// last page of the file may be shorter.
type Planner interface {
	// Most returns the size of the longest request for rows of rowBytes bytes, in bytes: a multiple of the
	// page size.
	Most(rowBytes int) int64
	// Next returns the next request for the rows of nodes, in a file of size bytes: its offset off, its
	// length n, and the number of nodes, at least one, that it serves from nodes[0] on.
	Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int)
}

// Single is a Planner with one request for each row: the pages that cover it. A page with several rows is
// read once for each of them.
type Single struct{}

// Most returns the size of the pages of a row that begins as late in a page as possible. Rows begin at
// multiples of the greatest common divisor of the sizes of rows and pages.
func (Single) Most(rowBytes int) int64 {
	last := int64(binio.Page - binio.GCD(rowBytes, binio.Page))
	return binio.AlignUp(last+int64(rowBytes), binio.Page)
}

// Next returns the pages of the row of nodes[0].
func (Single) Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int) {
	begin := int64(nodes[0]) * int64(rowBytes)
	off = begin / binio.Page * binio.Page
	return off, min(binio.AlignUp(begin+int64(rowBytes), binio.Page), size) - off, 1
}
