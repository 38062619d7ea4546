package plain

import "diskgnn/internal/binio"

// Checksum computes the CRC-32C of each range of data: of ranges[2i+1] bytes from
// ranges[2i] on; see kernels.Checksum.
func Checksum(sums []uint32, data []byte, ranges []uint64, rows int) {
	for i := range rows {
		from, bytes := ranges[2*i], ranges[2*i+1]
		sums[i] = binio.CRC(data[from:][:bytes])
	}
}
