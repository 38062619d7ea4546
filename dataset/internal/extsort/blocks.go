package extsort

import (
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// blockFile is a file of blocks that memory has no room for. It lasts as long as the run that
// writes it: nothing is made durable, and checksums are held in memory. Write and Close are for one goroutine; any number may Read meanwhile.
type blockFile struct {
	fs     vfs.FS
	name   string
	f      vfs.File
	hidden bool
	end    int64
}

// block is a piece of the file.
type block struct {
	off  int64
	size uint32
	crc  uint32 // CRC-32C
}

// blockEntry is the memory of a block.
const blockEntry = 16

// Bytes returns the size of the block.
func (b block) Bytes() int64 { return int64(b.size) }

// createBlocks makes a file of the given name, which Close removes. A hidden one loses its name at
// once, so that no crash leaves it.
func createBlocks(fsys vfs.FS, name string, hidden bool) (*blockFile, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if hidden {
		if err := fsys.Remove(name); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &blockFile{fs: fsys, name: name, f: f, hidden: hidden}, nil
}

// Write appends a block of less than 4 GiB.
func (s *blockFile) Write(raw []byte) (block, error) {
	if _, err := s.f.Write(raw); err != nil {
		return block{}, fmt.Errorf("write %s: %w", s.name, err)
	}
	b := block{s.end, uint32(len(raw)), binio.CRC(raw)}
	s.end += b.Bytes()
	return b, nil
}

// Read fills raw, of the block's size, with its bytes. Where they are not those that were
// written, the error is one of kind fault.ErrCorrupt.
func (s *blockFile) Read(b block, raw []byte) error {
	if n, err := s.f.ReadAt(raw, b.off); n < len(raw) {
		if errors.Is(err, io.EOF) {
			err = fault.New(fault.ErrCorrupt, "the file shrank")
		}
		return fmt.Errorf("read %s: bytes %d to %d: %w", s.name, b.off, b.off+b.Bytes(), err)
	}
	if binio.CRC(raw) != b.crc {
		return binio.BadRange(s.name, b.off, b.Bytes())
	}
	return nil
}

// Close removes the file. It may be called again.
func (s *blockFile) Close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	if s.hidden {
		return f.Close()
	}
	return errors.Join(f.Close(), s.fs.Remove(s.name))
}
