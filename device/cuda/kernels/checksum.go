package kernels

import "diskgnn/device/cuda"

// Checksum computes the CRC-32C of ranges of device memory, as internal/binio does for host memory:
//
//	Sums[i] = CRC-32C of Ranges[2i+1] bytes of Data, from byte Ranges[2i] on
//
// Ranges may begin anywhere and overlap. The work is spread over a range's bytes, so
// one of a megabyte is no slower than many small ones, as long as there are enough
// ranges for the device's multiprocessors.
type Checksum struct {
	Sums   cuda.Buffer // uint32
	Data   cuda.Buffer
	Ranges cuda.Buffer // uint64: where each range begins, and how many bytes it has
	Rows   Count       // ranges
}

const (
	// checksumThreads is a block's, which the kernel's constants are made for.
	checksumThreads = 256
	// checksumBlocks is how many blocks a multiprocessor takes at once. A block walks
	// several ranges where there are more, and reads its tables once.
	checksumBlocks = 8
)

// Launch gives the stream the work.
func (a Checksum) Launch(s *cuda.Stream) error {
	l := begin(s, "checksum")
	l.Buffer("the checksums", a.Sums, 4*int64(a.Rows.Most))
	l.Buffer("the data", a.Data, 0)
	l.Buffer("the ranges", a.Ranges, 16*int64(a.Rows.Most))
	l.count(a.Rows)
	blocks := min(a.Rows.Most, max(1, s.Device().Multiprocessors)*checksumBlocks)
	return l.grid(checksum, 1, cuda.Dims{uint32(blocks), 1}, cuda.Dims{checksumThreads, 1})
}
