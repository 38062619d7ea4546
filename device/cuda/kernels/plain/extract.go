package plain

// Extract copies rows out of bytes in which they lie anywhere; see kernels.Extract.
func Extract(out []byte, to []uint32, source []byte, rowBytes int, from []uint64, rows int) {
	for i := range rows {
		k := i
		if to != nil {
			k = int(to[i])
		}
		copy(out[k*rowBytes:][:rowBytes], source[from[i]:])
	}
}
