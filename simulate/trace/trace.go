// Package trace is the file format of a trace: the requests of a run to its drives, batch by batch, and its
// times of sampling, assembling and computing. A simulation replays it on other drives.
//
// A batch has reads, rows, or both. Reads are the requests of a store to the storage stack, in their
// order: each is a range of a file. Rows are the input nodes of a batch, in the order of access; the
// simulation decides which rows a cache holds, and how a store reads the others. A trace made from samples
// has rows alone, a recorded trace has reads alone.
//
// # Format
//
// One file, "diskgnn.trace", version 2. Numbers are little-endian; v is an unsigned varint
// as in encoding/binary.
//
//	header    a line of JSON (Header), of at most 64 KiB, ended by a newline
//	records   one for each batch:
//	  u32     n, bytes of the payload, at least 1
//	  u32     CRC-32C of the payload
//	  n       v sampling, v assembling, v computing, in nanoseconds
//	          v number of files that no earlier record has; then for each file, which are
//	            numbered in this order from 0: v bytes of its name, the name, v its size,
//	            v 1 if it is read in whole pages, else 0
//	          v number of reads, then of each: v file, v zigzag of the offset less the end of
//	            the read before, v bytes
//	          v number of rows, then of each: v zigzag of the node less the one before
//	end       u32 0
//	  u32     CRC-32C of the header's line and of the next field
//	  u64     number of batches
//
// A truncated trace is corrupt. Nodes are below the header's nodes, reads have at least one byte and are
// within a file of this or an earlier record, and the trace ends after its last field. Version 1 had no
// files and offsets.
package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

// Format and Version identify the format in headers.
const (
	Format  = "diskgnn.trace"
	Version = 2
)

// Limits of a reader.
const (
	maxHeader = 64 << 10
	maxRecord = 1 << 30
	// MaxBytes bounds the size of a row and of a file, in bytes, so that sums of a few sizes do not overflow.
	MaxBytes = 1 << 50
	maxName  = 4096    // bytes of a file's name
	maxFiles = 1 << 20 // files of a trace
	maxCount = 1 << 30 // counts in the header
	// MaxNodes bounds the rows of a feature table.
	MaxNodes = 1 << 32
)

// Header describes the traced run.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Source is the store that was recorded, or "samples".
	Source   string `json:"source"`
	Nodes    int64  `json:"nodes"`     // rows of the feature table; 0: the batches have reads alone
	RowBytes int64  `json:"row_bytes"` // bytes of a row; 0 if Nodes is 0
	// Dataset and Samples are fingerprints; "": unknown.
	Dataset string `json:"dataset,omitempty"`
	Samples string `json:"samples,omitempty"`
	// For a recorded run: the batches of an epoch, the batches under way at a time, the reads in flight of
	// the storage stack, and its longest read in bytes: it cuts longer requests. 0: unknown.
	BatchesPerEpoch int `json:"batches_per_epoch,omitempty"`
	Slots           int `json:"slots,omitempty"`
	InFlight        int `json:"in_flight,omitempty"`
	LongestRead     int `json:"longest_read,omitempty"`
}

// File is a file with reads in the trace.
type File struct {
	Name  string // without its directory
	Size  int64  // bytes
	Pages bool   // it is read directly, in whole pages
}

// Extent returns the bytes that a drive reads for a request of n bytes from off on.
func (f *File) Extent(off, n int64) int64 {
	if !f.Pages {
		return n
	}
	return min(binio.AlignUp(off+n, binio.Page), f.Size) - off/binio.Page*binio.Page
}

func (f *File) check() error {
	if len(f.Name) == 0 || len(f.Name) > maxName || f.Size < 0 || f.Size > MaxBytes {
		return fault.New(fault.ErrCorrupt, "a file of %d bytes with a name of %d bytes is impossible", f.Size, len(f.Name))
	}
	return nil
}

// Read is a request for Bytes bytes from Offset on, of file number File of the trace.
type Read struct {
	Offset, Bytes int64
	File          int32
}

func (r *Read) check(files []File) error {
	if r.File < 0 || int(r.File) >= len(files) {
		return fault.New(fault.ErrCorrupt, "a read of file %d, but only %d files are named", r.File, len(files))
	}
	if size := files[r.File].Size; r.Bytes < 1 || r.Offset < 0 || r.Bytes > size || r.Offset > size-r.Bytes {
		return fault.New(fault.ErrCorrupt, "a read of %d bytes at byte %d of a file of %d bytes", r.Bytes, r.Offset, size)
	}
	return nil
}

// Batch is one mini-batch of a trace.
type Batch struct {
	SampleNanos   int64 // time of drawing the batch, or of decoding its graph
	AssembleNanos int64 // time of checking the bytes read, and of assembling them
	ComputeNanos  int64
	Reads         []Read
	Rows          []uint32
}

// check returns an error if a value is out of the format's range.
func (h *Header) check() error {
	if h.Format != Format {
		return fault.New(fault.ErrInput, "it is no trace: its format is %q", h.Format)
	}
	if _, err := versions.Decoder(h.Version, "it is a trace of version %d; this program reads %s"); err != nil {
		return err
	}
	switch {
	case h.Nodes < 0 || h.Nodes > MaxNodes || h.RowBytes < 0 || h.RowBytes > MaxBytes || (h.Nodes > 0) != (h.RowBytes > 0):
		return fault.New(fault.ErrCorrupt, "its header has a table of %d rows of %d bytes: at most %d rows and %d bytes are possible, both or neither 0", h.Nodes, h.RowBytes, MaxNodes, int64(MaxBytes))
	}
	for i, n := range []int{h.BatchesPerEpoch, h.Slots, h.InFlight, h.LongestRead} {
		if n < 0 || n > maxCount {
			key := [...]string{"batches_per_epoch", "slots", "in_flight", "longest_read"}[i]
			return fault.New(fault.ErrCorrupt, "%s of its header is %d, not between 0 and %d", key, n, maxCount)
		}
	}
	return nil
}

// Writer writes a trace. It belongs to one goroutine.
type Writer struct {
	w       *bufio.Writer
	header  Header
	sum     uint32 // of the header
	batches uint64
	files   []File
	written int // files in the records so far
	payload []byte
}

// NewWriter begins a trace. It sets Format and Version of the header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format, h.Version = Format, Version
	if err := h.check(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if line = append(line, '\n'); len(line) > maxHeader {
		return nil, fault.New(fault.ErrInput, "the header of a trace has %d bytes, more than %d", len(line), maxHeader)
	}
	t := &Writer{w: bufio.NewWriterSize(w, 1<<18), header: h, sum: binio.CRC(line)}
	_, err = t.w.Write(line)
	return t, err
}

// AddFile adds a file for the reads of later batches, and returns its number: 0, 1, ….
func (t *Writer) AddFile(f File) (number int32, err error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if len(t.files) == maxFiles {
		return 0, fault.New(fault.ErrInput, "a trace has at most %d files", maxFiles)
	}
	t.files = append(t.files, f)
	return int32(len(t.files) - 1), nil
}

// Append writes a batch. The caller may reuse b afterwards.
func (t *Writer) Append(b *Batch) error {
	p := t.payload[:0]
	for _, n := range []int64{b.SampleNanos, b.AssembleNanos, b.ComputeNanos} {
		if n < 0 {
			return fault.New(fault.ErrInput, "batch %d has a negative time: %s", t.batches, units.Duration(time.Duration(n)))
		}
		p = binary.AppendUvarint(p, uint64(n))
	}
	p = binary.AppendUvarint(p, uint64(len(t.files)-t.written))
	for i := range t.files[t.written:] {
		p = t.files[t.written+i].append(p)
	}
	p = binary.AppendUvarint(p, uint64(len(b.Reads)))
	end := int64(0)
	for i := range b.Reads {
		r := &b.Reads[i]
		if err := r.check(t.files); err != nil {
			return fmt.Errorf("batch %d: %w", t.batches, err)
		}
		p = binary.AppendUvarint(p, uint64(r.File))
		p = binary.AppendVarint(p, r.Offset-end)
		p = binary.AppendUvarint(p, uint64(r.Bytes))
		end = r.Offset + r.Bytes
	}
	p = binary.AppendUvarint(p, uint64(len(b.Rows)))
	last := int64(0)
	for _, v := range b.Rows {
		if int64(v) >= t.header.Nodes {
			return fault.New(fault.ErrInput, "batch %d: node %d is not in the table, which has %d rows", t.batches, v, t.header.Nodes)
		}
		p = binary.AppendVarint(p, int64(v)-last)
		last = int64(v)
	}
	if t.payload = p; len(p) > maxRecord {
		return fault.New(fault.ErrInput, "batch %d takes %d bytes, more than %d", t.batches, len(p), maxRecord)
	}
	t.batches++
	t.written = len(t.files)
	if err := t.uint32s(uint32(len(p)), binio.CRC(p)); err != nil {
		return err
	}
	_, err := t.w.Write(p)
	return err
}

func (f *File) append(p []byte) []byte {
	p = binary.AppendUvarint(p, uint64(len(f.Name)))
	p = append(p, f.Name...)
	p = binary.AppendUvarint(p, uint64(f.Size))
	if f.Pages {
		return append(p, 1)
	}
	return append(p, 0)
}

func (t *Writer) uint32s(v ...uint32) error {
	var b [8]byte
	for i, x := range v {
		binary.LittleEndian.PutUint32(b[4*i:], x)
	}
	_, err := t.w.Write(b[:4*len(v)])
	return err
}

// Finish ends the trace. The underlying writer stays open.
func (t *Writer) Finish() error {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], t.batches)
	if err := t.uint32s(0, binio.UpdateCRC(t.sum, n[:])); err != nil {
		return err
	}
	if _, err := t.w.Write(n[:]); err != nil {
		return err
	}
	return t.w.Flush()
}

// Reader reads a trace. It belongs to one goroutine.
type Reader struct {
	r       *bufio.Reader
	header  Header
	sum     uint32
	batches uint64
	files   []File
	payload bytes.Buffer
	ended   bool
}

// NewReader reads the header of a trace.
func NewReader(r io.Reader) (*Reader, error) {
	t := &Reader{r: bufio.NewReaderSize(r, maxHeader)}
	line, err := t.r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &t.header)
	}
	if err != nil {
		return nil, fault.New(fault.ErrInput, "it is no trace: it does not begin with a line of JSON")
	}
	t.sum = binio.CRC(line)
	return t, t.header.check()
}

// Header returns the description of the traced run.
func (t *Reader) Header() Header { return t.header }

// Files returns the files of the batches read so far, by number.
func (t *Reader) Files() []File { return t.files }

// Next reads the next batch into b, reusing its memory. After the last batch the error is io.EOF. If the
// bytes are not valid, the error is of kind fault.ErrCorrupt.
func (t *Reader) Next(b *Batch) error {
	if t.ended {
		return io.EOF
	}
	var head [8]byte
	if err := t.full(head[:]); err != nil {
		return err
	}
	n, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if n == 0 {
		return t.end(sum)
	}
	if n > maxRecord {
		return t.corrupt("has %d bytes, more than %d", n, maxRecord)
	}
	t.payload.Reset()
	if _, err := io.CopyN(&t.payload, t.r, int64(n)); err != nil {
		return t.failed(err)
	}
	p := t.payload.Bytes()
	if got := binio.CRC(p); got != sum {
		return t.corrupt("does not match its checksum")
	}
	if err := versions[t.header.Version](t, p, b); err != nil {
		return err
	}
	t.batches++
	return nil
}

// end reads and checks the fields after the last batch.
func (t *Reader) end(sum uint32) error {
	var n [8]byte
	if err := t.full(n[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(n[:]) != t.batches || binio.UpdateCRC(t.sum, n[:]) != sum {
		return fault.New(fault.ErrCorrupt, "the end of the trace, after %d batches, does not match its header or its number of batches", t.batches)
	}
	if _, err := t.r.ReadByte(); !errors.Is(err, io.EOF) {
		return fault.New(fault.ErrCorrupt, "bytes follow the end of the trace, after %d batches", t.batches)
	}
	t.ended = true
	return io.EOF
}

func (t *Reader) full(b []byte) error {
	if _, err := io.ReadFull(t.r, b); err != nil {
		return t.failed(err)
	}
	return nil
}

func (t *Reader) failed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return t.corrupt("is cut off")
	}
	return fmt.Errorf("read batch %d of the trace: %w", t.batches, err)
}

func (t *Reader) corrupt(format string, args ...any) error {
	return fault.New(fault.ErrCorrupt, "batch %d of the trace %s", t.batches, fmt.Sprintf(format, args...))
}

// versions has the decoder of a batch for each version.
var versions = stage.Versions[func(*Reader, []byte, *Batch) error]{Version: (*Reader).decode}

func (t *Reader) decode(p []byte, b *Batch) error {
	short := false
	next := func() uint64 {
		v, n := binary.Uvarint(p)
		if n <= 0 {
			short, n, v = true, len(p), 0
		}
		p = p[n:]
		return v
	}
	for _, n := range []*int64{&b.SampleNanos, &b.AssembleNanos, &b.ComputeNanos} {
		v := next()
		if v > math.MaxInt64 {
			return t.corrupt("has a time above 2⁶³ ns")
		}
		*n = int64(v)
	}
	b.Reads, b.Rows = b.Reads[:0], b.Rows[:0]
	for n := next(); n > 0 && !short; n-- {
		name := next()
		if name > maxName || name > uint64(len(p)) {
			return t.corrupt("has a file name of %d bytes: it exceeds %d or the record", name, maxName)
		}
		f := File{Name: string(p[:name])}
		p = p[name:]
		size, pages := next(), next()
		if f.Size, f.Pages = int64(min(size, math.MaxInt64)), pages == 1; short {
			break
		}
		if err := f.check(); err != nil || pages > 1 || len(t.files) == maxFiles {
			return t.corrupt("names an impossible file, or too many files")
		}
		t.files = append(t.files, f)
	}
	end := int64(0)
	for n := next(); n > 0 && !short; n-- {
		file, step, bytes := next(), next(), next()
		r := Read{File: int32(min(file, math.MaxInt32)), Offset: end + unzigzag(step), Bytes: int64(min(bytes, math.MaxInt64))}
		if short {
			break
		}
		if err := r.check(t.files); err != nil {
			return t.corrupt("has %v", err)
		}
		end = r.Offset + r.Bytes
		b.Reads = append(b.Reads, r)
	}
	last := int64(0)
	for n := next(); n > 0 && !short; n-- {
		last += unzigzag(next())
		if last < 0 || last >= t.header.Nodes {
			if short {
				break
			}
			return t.corrupt("has node %d, but the table has %d rows", last, t.header.Nodes)
		}
		b.Rows = append(b.Rows, uint32(last))
	}
	if short || len(p) > 0 {
		return t.corrupt("does not end where its last number ends")
	}
	return nil
}

// unzigzag decodes a signed number of binary.AppendVarint.
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// Open reads a trace from a file, and calls each for one batch after another until each returns an error.
// each must not keep the batch; its Reader has the header and the files.
func Open(fsys vfs.FS, name string, each func(*Reader, *Batch) error) (h Header, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := NewReader(f)
	if err != nil {
		return h, fmt.Errorf("read %s: %w", name, err)
	}
	var b Batch
	for {
		if err = r.Next(&b); errors.Is(err, io.EOF) {
			return r.Header(), nil
		}
		if err == nil {
			err = each(r, &b)
		}
		if err != nil {
			return h, fmt.Errorf("read %s: %w", name, err)
		}
	}
}
