package volume

import "diskgnn/internal/binio"

// Drive is a range of blocks that is read and written by their numbers. It is for one
// goroutine at a time. Buffers are whole blocks, of any number and at any address.
type Drive interface {
	// Name says which drive it is, as flags name it.
	Name() string
	// Blocks returns how many there are, BlockBytes the size of each: a power of two from
	// 512 to 4096.
	Blocks() uint64
	BlockBytes() int
	// MaxTransfer returns the bytes of one command. Longer buffers are divided.
	MaxTransfer() int

	// ReadBlocks fills buf with blocks from the first on.
	ReadBlocks(first uint64, buf []byte) error
	// WriteBlocks writes buf to blocks from the first on. They are durable after Flush; before
	// that, each of them may be found as it was or as it became, in any order.
	WriteBlocks(first uint64, buf []byte) error
	// Flush makes all writes durable. After an error, the writes since the last Flush may be lost.
	Flush() error
}

// Page is the unit of extents, in bytes.
const Page = binio.Page

func bytesOf(d Drive) int64 { return int64(d.Blocks()) * int64(d.BlockBytes()) }

// readBytes reads bytes of a drive; both ends are ends of pages.
func readBytes(d Drive, at int64, b []byte) error {
	return d.ReadBlocks(uint64(at)/uint64(d.BlockBytes()), b)
}

// writeBytes writes bytes of a drive; both ends are ends of pages.
func writeBytes(d Drive, at int64, b []byte) error {
	return d.WriteBlocks(uint64(at)/uint64(d.BlockBytes()), b)
}
