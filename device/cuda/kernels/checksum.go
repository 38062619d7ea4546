package kernels

import "diskgnn/device/cuda"

// Checksum computes the CRC-32C of ranges of device memory, as internal/binio does for host memory:
//
//	Sums[i] = CRC-32C of Ranges[2i+1] bytes of Data, from byte Ranges[2i] on
//
// Ranges may begin anywhere and overlap. The threads of a block share the bytes of a range, so one range of
// a megabyte takes no longer than many small ranges of a megabyte in all. There should be more ranges than
// multiprocessors.
type Checksum struct {
	Sums   cuda.Buffer // uint32
	Data   cuda.Buffer
	Ranges cuda.Buffer // uint64: offset and size of each range, in bytes
	Rows   Count       // number of ranges
}

const (
	// checksumThreads is the number of threads of a block. The kernel's constants assume it.
	checksumThreads = 256
	// checksumBlocks is the number of blocks that a multiprocessor runs at once. A block takes several
	// ranges if there are more, and reads its tables once.
	checksumBlocks = 8
)

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Checksum) Launch(s *cuda.Stream) error {
	l := begin(s, "checksum")
	l.Buffer("the checksums", a.Sums, 4*int64(a.Rows.Most))
	l.Buffer("the data", a.Data, 0)
	l.Buffer("the ranges", a.Ranges, 16*int64(a.Rows.Most))
	l.count(a.Rows)
	blocks := min(a.Rows.Most, max(1, s.Device().Multiprocessors)*checksumBlocks)
	return l.grid(checksum, 1, cuda.Dims{uint32(blocks), 1}, cuda.Dims{checksumThreads, 1})
}
