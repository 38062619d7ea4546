package array

import (
	"math"

	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
)

// Table says which files are on the drives. Its method may be called from any goroutine.
type Table interface {
	// Find returns the file of a name. An error wraps iostack.ErrElsewhere if the drives do
	// not have it, but it may be read from the file system instead.
	Find(name string) (File, error)
}

// File is where the bytes of a file lie: in runs that begin and end at multiples of
// iostack.Align, of the file and of drives. What follows its end in the last is not its own.
// Methods may be called from any goroutine, and allocate nothing.
type File interface {
	// Size returns the bytes of the file.
	Size() int64
	// Locate returns where an offset below Size lies: the drive, counted from 0, the byte of
	// that drive, and how many bytes from there on lie next to each other, to the end of a
	// run.
	Locate(offset int64) (drive int, at, n int64)
}

// open opens a file of the table.
func (s *Stack) open(path string) (*frontend.File, error) {
	f, err := s.table.Find(path)
	if err != nil {
		return nil, err
	}
	return s.newFile(path, f)
}

func (s *Stack) newFile(path string, f File) (*frontend.File, error) {
	runs := func(offset int64) int {
		if offset >= f.Size() {
			return math.MaxInt
		}
		_, _, n := f.Locate(offset)
		return int(n)
	}
	return s.NewFile(path, f.Size(), runs, f)
}

// Flat opens all blocks of all drives as one file, in which they follow each other: block i
// of drive j is block blocks × j + i, where each drive has as many blocks as the smallest.
func (s *Stack) Flat() (iostack.File, error) {
	f := &flat{drives: len(s.drives)}
	for i, d := range s.drives {
		space := d.c.Namespace()
		bytes := int64(space.Blocks) * int64(space.BlockBytes) / iostack.Align * iostack.Align
		if i == 0 || bytes < f.each {
			f.each = bytes
		}
	}
	return s.newFile(s.drives[0].name, f)
}

// flat is drives one after another.
type flat struct {
	drives int
	each   int64 // bytes
}

func (f *flat) Size() int64 { return int64(f.drives) * f.each }

func (f *flat) Locate(offset int64) (drive int, at, n int64) {
	at = offset % f.each
	return int(offset / f.each), at, f.each - at
}
