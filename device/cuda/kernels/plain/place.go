package plain

// Place copies rows to places in a table; see kernels.Place.
func Place(table, far []byte, near int, source []byte, rowBytes int, index []uint32, rows int) {
	for i := range rows {
		part, at := table, int(index[i])
		if at >= near {
			part, at = far, at-near
		}
		copy(part[at*rowBytes:][:rowBytes], source[i*rowBytes:])
	}
}
