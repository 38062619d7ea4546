package plain

// Extract copies rows out of bytes in which they lie anywhere; see kernels.Extract.
func Extract(out, source []byte, rowBytes int, from []uint64, rows int) {
	for i := range rows {
		copy(out[i*rowBytes:][:rowBytes], source[from[i]:])
	}
}
