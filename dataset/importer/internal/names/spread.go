package names

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// spread is a set of buckets of records in one scratch file without a name: the file is gone when it
// is closed or the process ends. A record is a place (uint64), a length (uint16) and its bytes.
// Records of a bucket are added, and read, in ascending order of their places. A bucket consists of
// blocks of whole records; the CRC-32C of a block is kept in memory and checked on reading.
type spread struct {
	f       vfs.File
	name    string
	size    int // of a buffer
	buckets []spreadBucket
	end     int64
}

type spreadBucket struct {
	buf    []byte
	blocks []spreadBlock
}

type spreadBlock struct {
	off  int64
	size uint32
	crc  uint32
}

const (
	recordHead             = 8 + 2
	leastBlock, largeBlock = 16 << 10, 1 << 20
)

// newSpread makes a file with the given number of buckets. They hold at most memory bytes while they
// are filled, and again while they are merged.
func newSpread(fsys vfs.FS, name string, buckets int, memory int64) (*spread, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if err := fsys.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &spread{f: f, name: name, size: int(max(min(memory/int64(buckets), largeBlock), leastBlock)), buckets: make([]spreadBucket, buckets)}, nil
}

func (s *spread) add(bucket int, place uint64, record []byte) error {
	b := &s.buckets[bucket]
	if b.buf == nil {
		b.buf = make([]byte, 0, s.size)
	}
	if len(b.buf)+recordHead+len(record) > cap(b.buf) {
		if err := s.write(b); err != nil {
			return err
		}
	}
	b.buf = binary.LittleEndian.AppendUint64(b.buf, place)
	b.buf = binary.LittleEndian.AppendUint16(b.buf, uint16(len(record)))
	b.buf = append(b.buf, record...)
	return nil
}

func (s *spread) write(b *spreadBucket) error {
	if len(b.buf) == 0 {
		return nil
	}
	if _, err := s.f.Write(b.buf); err != nil {
		return fmt.Errorf("write %s: %w", s.name, err)
	}
	b.blocks = append(b.blocks, spreadBlock{s.end, uint32(len(b.buf)), binio.CRC(b.buf)})
	s.end += int64(len(b.buf))
	b.buf = b.buf[:0]
	return nil
}

// flush ends the adding, and gives the buffers back.
func (s *spread) flush() error {
	for i := range s.buckets {
		if err := s.write(&s.buckets[i]); err != nil {
			return err
		}
		s.buckets[i].buf = nil
	}
	return nil
}

// cursor reads a bucket.
type cursor struct {
	s      *spread
	blocks []spreadBlock
	buf    []byte
	rest   []byte
	place  uint64
	record []byte
}

// next goes to the next record, or returns io.EOF.
func (c *cursor) next() error {
	if len(c.rest) == 0 {
		if len(c.blocks) == 0 {
			return io.EOF
		}
		b := c.blocks[0]
		c.blocks = c.blocks[1:]
		c.buf = binio.Grow(c.buf, int(b.size))
		if n, err := c.s.f.ReadAt(c.buf, b.off); n < len(c.buf) {
			if errors.Is(err, io.EOF) { // which would be taken for the end of the bucket
				err = fault.New(fault.ErrCorrupt, "the file shrank")
			}
			return fmt.Errorf("read %s: bytes %d to %d: %w", c.s.name, b.off, b.off+int64(b.size), err)
		}
		if binio.CRC(c.buf) != b.crc {
			return binio.BadRange(c.s.name, b.off, int64(b.size))
		}
		c.rest = c.buf
	}
	c.place = binary.LittleEndian.Uint64(c.rest)
	n := recordHead + int(binary.LittleEndian.Uint16(c.rest[8:]))
	c.record, c.rest = c.rest[recordHead:n], c.rest[n:]
	return nil
}

// each calls see for all records of a bucket, once the adding has ended.
func (s *spread) each(ctx context.Context, bucket int, see func(place uint64, record []byte) error) error {
	c := cursor{s: s, blocks: s.buckets[bucket].blocks}
	for i := 0; ; i++ {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		err := c.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = see(c.place, c.record)
		}
		if err != nil {
			return err
		}
	}
}

// merge calls see for all records of all buckets in ascending order of their places, once the adding
// has ended.
func (s *spread) merge(ctx context.Context, see func(bucket int, place uint64, record []byte) error) error {
	cursors := make([]*cursor, len(s.buckets))
	for i := range s.buckets {
		cursors[i] = &cursor{s: s, blocks: s.buckets[i].blocks}
	}
	var heap []int // buckets, the one with the least place first
	less := func(i, j int) bool { return cursors[heap[i]].place < cursors[heap[j]].place }
	down := func(i int) {
		for {
			k := 2*i + 1
			if k >= len(heap) {
				return
			}
			if k+1 < len(heap) && less(k+1, k) {
				k++
			}
			if !less(k, i) {
				return
			}
			heap[i], heap[k] = heap[k], heap[i]
			i = k
		}
	}
	for b, c := range cursors {
		switch err := c.next(); {
		case errors.Is(err, io.EOF):
		case err != nil:
			return err
		default:
			heap = append(heap, b)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		down(i)
	}
	for n := 0; len(heap) > 0; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c := cursors[heap[0]]
		if err := see(heap[0], c.place, c.record); err != nil {
			return err
		}
		switch err := c.next(); {
		case errors.Is(err, io.EOF):
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		case err != nil:
			return err
		}
		down(0)
	}
	return nil
}

func (s *spread) close() error {
	if s.f == nil {
		return nil
	}
	f := s.f
	s.f = nil
	return f.Close()
}
