package volume

import "diskgnn/internal/binio"

// Drive reads and writes numbered blocks. It is for one goroutine at a time. Buffers are any number of
// whole blocks, at any address.
type Drive interface {
	// Name returns the drive's name in the form of flags.
	Name() string
	// Blocks returns the number of blocks, and BlockBytes the size of each: a power of two from 512 to
	// 4096.
	Blocks() uint64
	BlockBytes() int
	// MaxTransfer returns the largest transfer of a command in bytes. The drive divides longer buffers.
	MaxTransfer() int

	// ReadBlocks fills buf with the blocks from block first on.
	ReadBlocks(first uint64, buf []byte) error
	// WriteBlocks writes buf to the blocks from block first on. They are durable after Flush; a loss of
	// power before that may leave the old or the new content of each of them.
	WriteBlocks(first uint64, buf []byte) error
	// Flush makes all writes durable. After an error, the writes since the last Flush may be lost.
	Flush() error
}

// Page is the size of a page, the unit of extents, in bytes.
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
