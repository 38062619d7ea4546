package online

import "diskgnn/internal/binio"

// Planner cuts the rows that a batch must read into requests, each of whole pages of the
// feature file but where that ends before.
type Planner interface {
	// Most returns the most bytes of a request for rows of so many bytes, whole pages.
	Most(rowBytes int) int64
	// Next returns the bytes of the file that the request for the first of some nodes reads,
	// at least one, and how many of the nodes, from the first on, it serves. size is that of
	// the file.
	Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int)
}

// Single reads each row by itself: the pages that cover it. Rows on one page are read once
// each.
type Single struct{}

// Most returns the pages of a row that begins as late in a page as rows may: rows begin at
// multiples of the greatest common divisor of the sizes of rows and pages.
func (Single) Most(rowBytes int) int64 {
	last := int64(binio.Page - gcd(rowBytes, binio.Page))
	return binio.AlignUp(last+int64(rowBytes), binio.Page)
}

// Next returns the pages of the first node's row.
func (Single) Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int) {
	begin := int64(nodes[0]) * int64(rowBytes)
	off = begin / binio.Page * binio.Page
	return off, min(binio.AlignUp(begin+int64(rowBytes), binio.Page), size) - off, 1
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
