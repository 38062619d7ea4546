// Package trace is the file of a trace: what a run asked of its drives, batch by batch,
// and how long it sampled and computed beside. A simulation replays it on other drives.
//
// A batch has reads, rows, or both. Reads are requests as a store made them, of which only
// sizes and numbers are kept: no offsets. Rows are the nodes whose features a batch needs,
// in the order of access: what a store makes of them, and what a cache has of them, is for
// the simulation to say. A trace made of samples has rows alone.
//
// # Format
//
// One file, "diskgnn.trace", version 1. Numbers are little-endian; v is an unsigned varint
// as in encoding/binary.
//
//	header    a line of JSON (Header), of at most 64 KiB, ended by a newline
//	records   one for each batch:
//	  u32     n, bytes of the payload, at least 1
//	  u32     CRC-32C of the payload
//	  n       v sampling, v computing, in nanoseconds
//	          v number of kinds of reads, then of each: v bytes, v how many
//	          v number of rows, then of each: v zigzag of the node less the one before
//	end       u32 0
//	  u32     CRC-32C of the header's line and of the next field
//	  u64     number of batches
//
// A reader accepts this version only, and only what ends properly: a trace that was cut off
// is corrupt. Nodes are below the header's, reads are of at least one byte, and the file ends
// after its last field.
package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Format and Version are what headers say.
const (
	Format  = "diskgnn.trace"
	Version = 1
)

// What a reader accepts.
const (
	maxHeader = 64 << 10
	maxRecord = 1 << 30
	// MaxReads bounds the bytes of a kind of reads and their number, so that no product
	// overflows.
	MaxReads = 1 << 40
	// MaxNodes bounds a table's rows.
	MaxNodes = 1 << 32
)

// Header says what a trace is of.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Source is the store that was recorded, or "samples".
	Source   string `json:"source"`
	Nodes    int64  `json:"nodes"`     // rows of the feature table; 0: the batches have reads alone
	RowBytes int64  `json:"row_bytes"` // of a row; 0 likewise
	// Dataset and Samples are fingerprints, where they are known.
	Dataset string `json:"dataset,omitempty"`
	Samples string `json:"samples,omitempty"`
}

// Read is a number of requests of one size.
type Read struct{ Bytes, Count int64 }

// Batch is one mini-batch of a trace.
type Batch struct {
	SampleNanos, ComputeNanos int64
	Reads                     []Read
	Rows                      []uint32
}

// check refuses what the format has no room for.
func (h *Header) check() error {
	switch {
	case h.Format != Format:
		return fault.New(fault.ErrInput, "it is no trace: its format is %q", h.Format)
	case h.Version != Version:
		return fault.New(fault.ErrVersion, "it is a trace of version %d; this program reads %d", h.Version, Version)
	case h.Nodes < 0 || h.Nodes > MaxNodes || h.RowBytes < 0 || h.RowBytes > MaxReads || (h.Nodes > 0) != (h.RowBytes > 0):
		return fault.New(fault.ErrCorrupt, "%d rows of %d bytes", h.Nodes, h.RowBytes)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a trace. It is for one goroutine.
type Writer struct {
	w       *bufio.Writer
	header  Header
	sum     uint32 // of the header
	batches uint64
	payload []byte
}

// NewWriter begins a trace. Format and Version of the header are filled in.
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
		return nil, fault.New(fault.ErrInput, "a header of %d bytes", len(line))
	}
	t := &Writer{w: bufio.NewWriterSize(w, 1<<18), header: h, sum: crc32.Checksum(line, castagnoli)}
	_, err = t.w.Write(line)
	return t, err
}

// Append writes a batch, which may be reused when it returns.
func (t *Writer) Append(b *Batch) error {
	p := t.payload[:0]
	if b.SampleNanos < 0 || b.ComputeNanos < 0 {
		return fault.New(fault.ErrInput, "batch %d takes %d and %d ns", t.batches, b.SampleNanos, b.ComputeNanos)
	}
	p = binary.AppendUvarint(p, uint64(b.SampleNanos))
	p = binary.AppendUvarint(p, uint64(b.ComputeNanos))
	p = binary.AppendUvarint(p, uint64(len(b.Reads)))
	for _, r := range b.Reads {
		if err := r.check(); err != nil {
			return fmt.Errorf("batch %d: %w", t.batches, err)
		}
		p = binary.AppendUvarint(p, uint64(r.Bytes))
		p = binary.AppendUvarint(p, uint64(r.Count))
	}
	p = binary.AppendUvarint(p, uint64(len(b.Rows)))
	last := int64(0)
	for _, v := range b.Rows {
		if int64(v) >= t.header.Nodes {
			return fault.New(fault.ErrInput, "batch %d: node %d of %d", t.batches, v, t.header.Nodes)
		}
		p = binary.AppendVarint(p, int64(v)-last)
		last = int64(v)
	}
	if t.payload = p; len(p) > maxRecord {
		return fault.New(fault.ErrInput, "batch %d takes %d bytes", t.batches, len(p))
	}
	t.batches++
	if err := t.uint32s(uint32(len(p)), crc32.Checksum(p, castagnoli)); err != nil {
		return err
	}
	_, err := t.w.Write(p)
	return err
}

func (r Read) check() error {
	if r.Bytes < 1 || r.Bytes > MaxReads || r.Count < 0 || r.Count > MaxReads {
		return fault.New(fault.ErrCorrupt, "%d reads of %d bytes", r.Count, r.Bytes)
	}
	return nil
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
	if err := t.uint32s(0, crc32.Update(t.sum, castagnoli, n[:])); err != nil {
		return err
	}
	if _, err := t.w.Write(n[:]); err != nil {
		return err
	}
	return t.w.Flush()
}

// Reader reads a trace. It is for one goroutine.
type Reader struct {
	r       *bufio.Reader
	header  Header
	sum     uint32
	batches uint64
	payload bytes.Buffer
	ended   bool
}

// NewReader reads a trace's header.
func NewReader(r io.Reader) (*Reader, error) {
	t := &Reader{r: bufio.NewReaderSize(r, maxHeader)}
	line, err := t.r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &t.header)
	}
	if err != nil {
		return nil, fault.New(fault.ErrInput, "it is no trace: it does not begin with a line of JSON")
	}
	t.sum = crc32.Checksum(line, castagnoli)
	return t, t.header.check()
}

// Header returns what the trace is of.
func (t *Reader) Header() Header { return t.header }

// Next reads the next batch into b, reusing its memory, and io.EOF after the last. Whatever
// the bytes, a batch without an error is one that the format allows; damage is of kind
// fault.ErrCorrupt.
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
		return t.corrupt("has %d bytes", n)
	}
	t.payload.Reset()
	if _, err := io.CopyN(&t.payload, t.r, int64(n)); err != nil {
		return t.failed(err)
	}
	p := t.payload.Bytes()
	if got := crc32.Checksum(p, castagnoli); got != sum {
		return t.corrupt("does not match its checksum")
	}
	if err := t.decode(p, b); err != nil {
		return err
	}
	t.batches++
	return nil
}

// end reads what follows the last batch.
func (t *Reader) end(sum uint32) error {
	var n [8]byte
	if err := t.full(n[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(n[:]) != t.batches || crc32.Update(t.sum, castagnoli, n[:]) != sum {
		return t.corrupt("is the last, but the trace's end or its header does not match")
	}
	if _, err := t.r.ReadByte(); !errors.Is(err, io.EOF) {
		return t.corrupt("is the last, but more follows")
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

// decode reads a payload.
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
	sample, compute := next(), next()
	if sample > math.MaxInt64 || compute > math.MaxInt64 {
		return t.corrupt("takes longer than can be")
	}
	b.SampleNanos, b.ComputeNanos = int64(sample), int64(compute)
	b.Reads, b.Rows = b.Reads[:0], b.Rows[:0]
	for n := next(); n > 0 && !short; n-- {
		bytes, count := next(), next()
		r := Read{Bytes: int64(min(bytes, math.MaxInt64)), Count: int64(min(count, math.MaxInt64))}
		if err := r.check(); err != nil && !short {
			return t.corrupt("has %v", err)
		}
		b.Reads = append(b.Reads, r)
	}
	last := int64(0)
	for n := next(); n > 0 && !short; n-- {
		d := next()
		last += int64(d>>1) ^ -int64(d&1)
		if last < 0 || last >= t.header.Nodes {
			if short {
				break
			}
			return t.corrupt("has node %d of %d", last, t.header.Nodes)
		}
		b.Rows = append(b.Rows, uint32(last))
	}
	if short || len(p) > 0 {
		return t.corrupt("has another length than its numbers")
	}
	return nil
}

// Create writes a trace to a file that does not exist: write appends the batches. The file
// is there when it is whole and durable, under another name before.
func Create(fsys vfs.FS, name string, h Header, write func(*Writer) error) (err error) {
	if there, err := vfs.Exists(fsys, name); err != nil {
		return err
	} else if there {
		return fault.New(fault.ErrExists, "%s exists: a trace is written to a new file only", name)
	}
	temp := name + ".partial"
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the trace %s: %w", name, errors.Join(err, fsys.Remove(temp)))
		}
	}()
	w, err := NewWriter(f, h)
	if err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.Finish()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return errors.Join(err, fsys.Rename(name, temp))
	}
	return nil
}

// Open reads a trace from a file: each is called for one batch after another, which it must
// not keep, until it returns an error.
func Open(fsys vfs.FS, name string, each func(Header, *Batch) error) (h Header, err error) {
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
			err = each(r.Header(), &b)
		}
		if err != nil {
			return h, fmt.Errorf("read %s: %w", name, err)
		}
	}
}
