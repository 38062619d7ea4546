package binio

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"iter"

	"diskgnn/internal/fault"
)

// A Checker gets a file's bytes, in order, and fails where they differ from the written ones, with
// an error of kind fault.ErrCorrupt that names file and range. End comes after the last byte, once;
// it must come, whatever Write returned.
type Checker interface {
	Write(p []byte) (int, error)
	End() error
}

// Range is a part of a file under one checksum.
type Range struct {
	Offset, Len int64
	CRC         uint32
}

// Ranges returns the granules of the file.
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

// CheckRanges returns a checker of a file that has the given ranges, ascending, and
// zeros between them and before the first one.
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
	at   int64  // of the file's next byte
	r    Range  // that covers it, or follows it
	more bool   // there is such a range
	crc  uint32 // of the range's bytes so far
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

// CheckHash returns a checker of a small file by its Hash.
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
