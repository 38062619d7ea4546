package iostack

import "diskgnn/internal/binio"

// Extent returns the bytes that reading n bytes of a file from off on moves: whole pages
// where reads are direct, but for what the file ends before.
func Extent(f File, off, n int64) int64 {
	if direct, _ := f.Direct(); !direct || n == 0 {
		return n
	}
	return min(binio.AlignUp(off+n, binio.Page), f.Size()) - off/binio.Page*binio.Page
}
