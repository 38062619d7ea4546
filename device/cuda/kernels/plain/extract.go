package plain

// Extract copies rows of rowBytes bytes from source to out: row i, from byte from[i] of source on, becomes
// row to[i] of out, or row i if to is nil. See kernels.Extract.
func Extract(out []byte, to []uint32, source []byte, rowBytes int, from []uint64, rows int) {
	for i := range rows {
		k := i
		if to != nil {
			k = int(to[i])
		}
		copy(out[k*rowBytes:][:rowBytes], source[from[i]:])
	}
}
