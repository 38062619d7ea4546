package binio

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"iter"

	"diskgnn/internal/fault"
)

// A Checker compares the bytes of a file with its checksums. Write gets all bytes, in order. End must be
// called once, after the last Write, even if a Write failed. A mismatch is an error of kind
// fault.ErrCorrupt, from either, that names the file and the range.
type Checker interface {
	Write(p []byte) (int, error)
	End() error
}

// Range is a part of a file with its checksum, a CRC-32C. Offset and length are in bytes.
type Range struct {
	Offset, Len int64
	CRC         uint32
}

// Ranges yields the granules of the file, in order.
func (s *Sums) Ranges() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		for i, crc := range s.CRC {
			off := int64(i) * s.Granule
			if !yield(Range{off, min(s.Granule, s.Size-off), crc}) {
				return
			}
		}
	}
}

// CheckRanges returns a checker of a file with the given ranges, ascending, and with zeros between them
// and before the first one. name is the file's name in errors.
func CheckRanges(name string, ranges iter.Seq[Range]) Checker {
	c := &rangeChecker{name: name}
	c.next, c.stop = iter.Pull(ranges)
	c.advance()
	return c
}

type rangeChecker struct {
	name string
	next func() (Range, bool)
	stop func()
	at   int64  // offset of the file's next byte
	r    Range  // the range that contains this byte, or the next one
	more bool   // r is valid
	crc  uint32 // of the bytes of r so far
}

func (c *rangeChecker) advance() {
	c.crc = 0
	for {
		if c.r, c.more = c.next(); !c.more || c.r.Len > 0 {
			return
		}
	}
}

func (c *rangeChecker) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if !c.more || c.at < c.r.Offset {
			k := len(p)
			if c.more {
				k = int(min(int64(k), c.r.Offset-c.at))
			}
			for i, b := range p[:k] {
				if b != 0 {
					return 0, fault.New(fault.ErrCorrupt, "%s: byte %d lies between parts and is not zero", c.name, c.at+int64(i))
				}
			}
			c.at, p = c.at+int64(k), p[k:]
			continue
		}
		k := min(int64(len(p)), c.r.Offset+c.r.Len-c.at)
		c.crc = UpdateCRC(c.crc, p[:k])
		c.at, p = c.at+k, p[k:]
		if c.at == c.r.Offset+c.r.Len {
			if c.crc != c.r.CRC {
				return 0, BadRange(c.name, c.r.Offset, c.r.Len)
			}
			c.advance()
		}
	}
	return n, nil
}

func (c *rangeChecker) End() error {
	defer c.stop()
	if c.more {
		return fault.New(fault.ErrCorrupt, "%s: ends at byte %d, before byte %d: it was truncated", c.name, c.at, c.r.Offset+c.r.Len)
	}
	return nil
}

// CheckHash returns a checker that compares a whole file with its Hash.
func CheckHash(name, want string) Checker { return &hashChecker{name, want, sha256.New(), 0} }

type hashChecker struct {
	name, want string
	hash.Hash
	size int64
}

func (c *hashChecker) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	return c.Hash.Write(p)
}

func (c *hashChecker) End() error {
	if hex.EncodeToString(c.Sum(nil)) != c.want {
		return BadRange(c.name, 0, c.size)
	}
	return nil
}
