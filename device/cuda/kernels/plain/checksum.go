package plain

import "diskgnn/internal/binio"

// Checksum stores in sums[i] the CRC-32C of ranges[2i+1] bytes of data from byte ranges[2i] on, for i <
// rows; see kernels.Checksum.
func Checksum(sums []uint32, data []byte, ranges []uint64, rows int) {
	for i := range rows {
		from, bytes := ranges[2*i], ranges[2*i+1]
		sums[i] = binio.CRC(data[from:][:bytes])
	}
}
