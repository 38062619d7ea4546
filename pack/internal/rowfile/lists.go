package rowfile

import (
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Lists is a scratch file of one list of numbers per batch. Lists of different batches may be written and
// read concurrently. Nothing is made durable, and the checksums are in memory: only the run that writes it
// can read it.
type Lists struct {
	fs    vfs.FS
	f     vfs.File
	start []int64 // where every batch's list begins, in numbers
	crc   []uint32
}

// NewLists creates the file name. The list of batch t has start[t+1]-start[t] numbers. The caller calls
// Finish or Remove.
func NewLists(fsys vfs.FS, name string, start []int64) (*Lists, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create scratch: %w", err)
	}
	if f, err = reopen(fsys, f); err != nil {
		return nil, err
	}
	return &Lists{fs: fsys, f: f, start: start, crc: make([]uint32, len(start)-1)}, nil
}

// reopen opens a newly created file again, for reading and writing.
func reopen(fsys vfs.FS, f vfs.File) (vfs.File, error) {
	if err := f.Close(); err != nil {
		return nil, err
	}
	return fsys.OpenReadWrite(f.Name())
}

// Write stores the list of batch t. Each list is written once; another length than the announced one is an
// error.
func (l *Lists) Write(t int, list []uint32) error {
	b := binio.Bytes(list)
	if int64(len(list)) != l.start[t+1]-l.start[t] {
		return fmt.Errorf("batch %d: a list of %d entries instead of %d", t, len(list), l.start[t+1]-l.start[t])
	}
	l.crc[t] = binio.CRC(b)
	if _, err := l.f.WriteAt(b, 4*l.start[t]); err != nil {
		return fmt.Errorf("write %s: %w", l.f.Name(), err)
	}
	return nil
}

// Read returns the list of batch t, in the memory of buf if its capacity suffices. A wrong checksum is an
// error of kind fault.ErrCorrupt.
func (l *Lists) Read(t int, buf []uint32) ([]uint32, error) {
	buf = binio.Grow(buf, int(l.start[t+1]-l.start[t]))
	b := binio.Bytes(buf)
	if n, err := l.f.ReadAt(b, 4*l.start[t]); n < len(b) && !errors.Is(err, io.EOF) {
		return buf, fmt.Errorf("read %s: %w", l.f.Name(), err)
	}
	if binio.CRC(b) != l.crc[t] { // also if the file was cut short
		return buf, fault.New(fault.ErrCorrupt, "%s: the bytes read back differ from the bytes written", l.f.Name())
	}
	return buf, nil
}

// ListSums describe a file of lists.
type ListSums struct {
	Name  string
	Start []int64  // index of the first number of every batch's list, and of the end
	CRC   []uint32 // CRC-32C of every list
}

// Finish closes the file and describes it, for OpenLists.
func (l *Lists) Finish() (ListSums, error) {
	s := ListSums{l.f.Name(), l.start, l.crc}
	err := l.f.Close()
	l.f = nil
	return s, err
}

// OpenLists opens a file of lists to read it.
func OpenLists(fsys vfs.FS, s ListSums) (*Lists, error) {
	f, err := fsys.OpenReadWrite(s.Name)
	if err != nil {
		return nil, err
	}
	return &Lists{fs: fsys, f: f, start: s.Start, crc: s.CRC}, nil
}

// Remove closes and removes the file. On a nil Lists it does nothing.
func (l *Lists) Remove() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return errors.Join(f.Close(), l.fs.Remove(f.Name()))
}
