package extsort

import (
	"encoding/binary"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	head             = 4 + 4 // of a record: place and length
	maxRecordBuckets = 4096
	// Buffers of buckets are as large as half of the memory allows, so that there are few blocks.
	leastBuffer, mostBuffer = 4 << 10, 8 << 20
	// indexBytes is held for each place of the bucket in work: where its record lies, and how long it is.
	indexBytes = 8 + 4
)

// RecordOptions describe a sort of records.
type RecordOptions struct {
	Records int64 // how many; the places are those below
	Bytes   int64 // of all records; a guess does, for the number of buckets
	Memory  int64 // bytes to hold
	Hidden  bool  // the scratch file loses its name at once, so that no crash leaves it
}

// LeastRecords is the memory that every sort of records needs, beside two of the longest records.
const LeastRecords = 1 << 20

// RecordBytes returns the size of the scratch file for records of the given bytes in all.
func RecordBytes(records, bytes int64) int64 { return bytes + head*records }

// Records puts records in the order of their places, in a bounded amount of memory. It is not safe
// for concurrent use.
//
// Records arrive in any order, each with the place that it goes to: 0 … n−1, each once. They are
// bucketed by ranges of places into one scratch file, in blocks; then each bucket is read
// back and its records are handed on in order:
//
//	Add … Add ──► blocks per bucket, on disk ──► Next: read a bucket ─► order ─► record
//
// A block of the scratch file is whole records, each of its place (uint32), its length (uint32)
// and its bytes.
type Records struct {
	file    *blockFile
	o       RecordOptions
	span    int64 // places of a bucket
	buffer  int   // bytes of a bucket's
	buckets []recordBucket
	long    []byte // a record that is longer than a buffer
	added   int64

	bucket int    // the next to be read
	at     int64  // the next place
	data   []byte // blocks of the bucket in work
	where  []int64
	length []uint32
}

type recordBucket struct {
	buf    []byte
	blocks []block
	bytes  int64
}

// NewRecords prepares a sort with a scratch file of the given name, which Close removes.
func NewRecords(fsys vfs.FS, name string, o RecordOptions) (_ *Records, err error) {
	if o.Memory < LeastRecords {
		return nil, fault.New(fault.ErrBudget, "ordering rows needs at least %s of memory", budget.FormatBytes(LeastRecords))
	}
	s := &Records{o: o}
	total := RecordBytes(o.Records, o.Bytes) + indexBytes*o.Records
	// Half of the memory for a bucket, so that one of twice the mean size fits.
	n := 2 * (total + o.Memory - 1) / o.Memory
	n = max(min(n, maxRecordBuckets, o.Memory/2/leastBuffer, o.Records), 1)
	s.span = max((o.Records+n-1)/n, 1)
	s.buckets = make([]recordBucket, max((o.Records+s.span-1)/s.span, 1))
	s.buffer = int(min(o.Memory/2/int64(len(s.buckets)), mostBuffer))
	if s.file, err = createBlocks(fsys, name, o.Hidden); err != nil {
		return nil, err
	}
	return s, nil
}

// Add takes the record that goes to a place, and copies it.
func (s *Records) Add(place uint32, record []byte) error {
	if int64(place) >= s.o.Records {
		return fmt.Errorf("extsort: place %d is out of range: there are %d places", place, s.o.Records)
	}
	b := &s.buckets[int64(place)/s.span]
	if b.buf == nil {
		b.buf = make([]byte, 0, s.buffer)
	}
	size := head + len(record)
	if len(b.buf)+size > cap(b.buf) {
		if err := s.flush(b); err != nil {
			return err
		}
	}
	s.added++
	if size > cap(b.buf) {
		s.long = appendRecord(s.long[:0], place, record)
		return s.write(b, s.long)
	}
	b.buf = appendRecord(b.buf, place, record)
	return nil
}

func appendRecord(b []byte, place uint32, record []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, place)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(record)))
	return append(b, record...)
}

func (s *Records) flush(b *recordBucket) error {
	if len(b.buf) == 0 {
		return nil
	}
	err := s.write(b, b.buf)
	b.buf = b.buf[:0]
	return err
}

// write appends a block of a bucket to the file.
func (s *Records) write(b *recordBucket, raw []byte) error {
	k, err := s.file.Write(raw)
	if err != nil {
		return err
	}
	b.blocks = append(b.blocks, k)
	b.bytes += k.Bytes()
	return nil
}

// A Twice is the error of a place that two records go to, or of one that none does.
type Twice struct {
	Place int64
	None  bool
}

func (e *Twice) Error() string {
	if e.None {
		return fmt.Sprintf("no record goes to place %d", e.Place)
	}
	return fmt.Sprintf("two records go to place %d", e.Place)
}

// Start ends the adding: Next begins with the record of a place.
func (s *Records) Start(place int64) error {
	for i := range s.buckets {
		if err := s.flush(&s.buckets[i]); err != nil {
			return err
		}
		s.buckets[i].buf = nil
	}
	s.at, s.bucket = place, int(place/s.span)
	s.where = nil
	return nil
}

// Next returns the record of the next place, valid until the call after, or io.EOF.
func (s *Records) Next() ([]byte, error) {
	if s.at == s.o.Records {
		return nil, io.EOF
	}
	if s.where == nil || s.at/s.span >= int64(s.bucket) {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	i := s.at % s.span
	s.at++
	return s.data[s.where[i] : s.where[i]+int64(s.length[i])], nil
}

func (s *Records) load() error {
	b := &s.buckets[s.bucket]
	lo := int64(s.bucket) * s.span
	places := min(s.o.Records-lo, s.span)
	if need := b.bytes + indexBytes*places; need > s.o.Memory && places > 1 {
		return fault.New(fault.ErrBudget, "ordering rows %d to %d needs %s of memory, but only %s are allowed", lo, lo+places-1, budget.FormatBytes(need), budget.FormatBytes(s.o.Memory))
	}
	s.data = binio.Grow(s.data, int(b.bytes))
	s.where, s.length = binio.Grow(s.where, int(places)), binio.Grow(s.length, int(places))
	for i := range s.where {
		s.where[i] = -1
	}
	var at int64
	for _, k := range b.blocks {
		raw := s.data[at : at+k.Bytes()]
		if err := s.file.Read(k, raw); err != nil {
			return err
		}
		for len(raw) > 0 {
			place, length := int64(binary.LittleEndian.Uint32(raw)), binary.LittleEndian.Uint32(raw[4:])
			if s.where[place-lo] >= 0 {
				return &Twice{Place: place}
			}
			s.where[place-lo], s.length[place-lo] = at+head, length
			n := head + int64(length)
			raw, at = raw[n:], at+n
		}
	}
	for i, w := range s.where {
		if w < 0 && lo+int64(i) >= s.at {
			return &Twice{Place: lo + int64(i), None: true}
		}
	}
	s.bucket++
	return nil
}

// Close removes the scratch file.
func (s *Records) Close() error { return s.file.Close() }
