package plain

// Place copies rows of rowBytes bytes into a table: row i of source becomes the table's row index[i]. Rows
// from near on are in far. See kernels.Place.
func Place(table, far []byte, near int, source []byte, rowBytes int, index []uint32, rows int) {
	for i := range rows {
		part, at := table, int(index[i])
		if at >= near {
			part, at = far, at-near
		}
		copy(part[at*rowBytes:][:rowBytes], source[i*rowBytes:])
	}
}
