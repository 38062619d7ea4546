package matrix

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// pageReader reads the pages of a column. The library's own reader gives zeros for pages in LZ4 that
// are hardly smaller than their content, and a value at a time.
type pageReader struct {
	m      *parquetFile
	leaf   parquet.LeafColumn
	chunks []*format.ColumnMetaData // that were not begun
	chunk  *format.ColumnMetaData
	at     int64 // place of the next page, before end
	end    int64
	values int64 // of the chunk that were not read
	window []byte
	page   []byte // decompressed
	dict   dictionary
	texts  texts
}

// dictionary is the distinct values of a row group.
type dictionary struct {
	is   bool
	b    []byte // page
	data []byte
	texts
}

// next sets the batch of a column to the next data page.
func (r *pageReader) next(c *typed) error {
	for {
		if r.at >= r.end {
			if r.values > 0 {
				return r.m.bad("column %s ends %d values early", c.name, r.values)
			}
			if len(r.chunks) == 0 {
				c.batch = batch{}
				return io.EOF
			}
			r.chunk, r.chunks = r.chunks[0], r.chunks[1:]
			r.at, r.end, r.values, r.dict.is = chunkStart(r.chunk), 0, r.chunk.NumValues, false
			r.end = r.at + r.chunk.TotalCompressedSize
			if r.at < 0 || r.end < r.at || r.end > r.m.size {
				return r.m.bad("column %s is outside of the file", c.name)
			}
			continue
		}
		var h format.PageHeader
		n, err := r.m.pageHeader(&h, r.at, r.end, &r.window)
		if err != nil {
			return r.bad(c, err)
		}
		size := int64(h.CompressedPageSize)
		if r.at += n; size < 0 || size > r.end-r.at || h.UncompressedPageSize < 0 {
			return r.m.bad("column %s has a page of %d bytes, which are not there", c.name, size)
		}
		err = r.read(c, &h)
		if r.at += size; err != nil {
			return r.bad(c, err)
		}
		if c.left > 0 {
			return nil
		}
	}
}

// bad describes an error in the content of a column; errors of reading the file stay as they are.
func (r *pageReader) bad(c *typed, err error) error {
	if errors.Is(err, fault.ErrInput) || errors.As(err, new(readError)) {
		return err
	}
	return r.m.bad("column %s: %v", c.name, err)
}

// readError is an error of reading a file.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// chunkStart returns the place of the first page.
func chunkStart(c *format.ColumnMetaData) int64 {
	if d := c.DictionaryPageOffset; d > 0 {
		return min(d, c.DataPageOffset)
	}
	return c.DataPageOffset
}

// read reads the page that begins at r.at.
func (r *pageReader) read(c *typed, h *format.PageHeader) error {
	switch h.Type {
	case format.DictionaryPage:
		return r.readDictionary(c, h)
	case format.DataPage, format.DataPageV2:
	default:
		return nil // an index, which is not needed
	}
	var n int64
	var e format.Encoding
	var body, repetition, definition []byte
	var err error
	if h.Type == format.DataPage {
		d := &h.DataPageHeader.V
		n, e = int64(d.NumValues), d.Encoding
		if body, err = r.unpacked(&r.page, h, 0); err != nil {
			return err
		}
		if r.leaf.MaxRepetitionLevel > 0 {
			if repetition, body, err = levelBytes(body, d.RepetitionLevelEncoding); err != nil {
				return err
			}
		}
		if r.leaf.MaxDefinitionLevel > 0 {
			if definition, body, err = levelBytes(body, d.DefinitionLevelEncoding); err != nil {
				return err
			}
		}
	} else {
		d := &h.DataPageHeaderV2.V
		n, e = int64(d.NumValues), d.Encoding
		first, second := int(d.RepetitionLevelsByteLength), int(d.DefinitionLevelsByteLength)
		if first < 0 || second < 0 || first > int(h.CompressedPageSize)-second {
			return errors.New("the levels of a page are longer than it is")
		}
		plain := first + second
		if d.IsCompressed.Valid && !d.IsCompressed.V {
			plain = int(h.CompressedPageSize)
		}
		if body, err = r.unpacked(&r.page, h, plain); err != nil {
			return err
		}
		repetition, definition, body = body[:first], body[first:first+second], body[first+second:]
	}
	if n < 0 || n > r.values {
		return r.m.bad("column %s has more values than its description says", c.name)
	}
	r.values -= n
	return r.begin(c, int(n), e, repetition, definition, body)
}

// levelBytes cuts the levels off the beginning of a page.
func levelBytes(b []byte, e format.Encoding) (levels, rest []byte, err error) {
	if e != format.RLE {
		return nil, nil, errors.New("its levels are packed as only old programs do: write the file anew")
	}
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, errors.New("a page is too short for its levels")
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n], b[n:], nil
}

// begin sets the batch to a page of n values.
func (r *pageReader) begin(c *typed, n int, e format.Encoding, repetition, definition, body []byte) error {
	b := batch{left: n}
	if most := r.leaf.MaxRepetitionLevel; most > 0 {
		h, err := levels(repetition, most)
		if err != nil {
			return err
		}
		b.starts = equal(h, 0)
	}
	if most := r.leaf.MaxDefinitionLevel; most > 0 {
		h, err := levels(definition, most)
		if err != nil {
			return err
		}
		b.present = equal(h, uint8(most))
	}
	switch {
	case e == format.RLEDictionary || e == plainDictionary:
		if !r.dict.is {
			return errors.New("a page refers to a dictionary that is missing")
		}
		width := 0
		if len(body) > 0 {
			width, body = int(body[0]), body[1:]
		}
		h, err := newHybrid(body, width)
		if err != nil {
			return err
		}
		b.index = func(dst []int32) error { return next(h, dst) }
		b.data, b.word = r.dict.data, r.dict.word
	case c.kind == boolean && e == format.Plain:
		bits := bitmap(body, 0)
		b.index = byBits(bits)
		b.data = noOrYes
	case c.kind == boolean && e == format.RLE:
		if len(body) < 4 {
			return errRuns
		}
		h, err := newHybrid(body[4:], 1)
		if err != nil {
			return err
		}
		b.index = func(dst []int32) error { return next(h, dst) }
		b.data = noOrYes
	default:
		data, err := r.decode(c.kind, e, body, n, b.present == nil, &r.texts)
		if err != nil {
			return err
		}
		b.data, b.word = data, r.texts.word
	}
	c.batch = b
	return nil
}

// noOrYes are the values of booleans, to which bits are the index.
var noOrYes = []byte{0, 1}

func byBits(bits func([]uint8) error) func(dst []int32) error {
	var b [block]uint8
	return func(dst []int32) error {
		if err := bits(b[:len(dst)]); err != nil {
			return err
		}
		for i := range dst {
			dst[i] = int32(b[i])
		}
		return nil
	}
}

// decode returns the numbers of a page as they lie in memory, or sets t to its words. n is the number of
// values with the missing; all says that none is.
func (r *pageReader) decode(k kind, e format.Encoding, body []byte, n int, all bool, t *texts) ([]byte, error) {
	if e == format.Plain {
		if k != words {
			return body, nil
		}
		if !all {
			n = countTexts(body)
		}
		return nil, t.plain(body, n)
	}
	if err := checkDelta(e, body, n); err != nil {
		return nil, err
	}
	d := parquet.LookupEncoding(e)
	if !k.integer() && k != words && e != format.ByteStreamSplit {
		return nil, errors.New("its encoding is not one of real numbers")
	}
	switch k {
	case int32s, uint32s, singles: // their bytes
		v, err := d.DecodeInt32(nil, body)
		return binio.Bytes(v), err
	case int64s, uint64s, doubles:
		v, err := d.DecodeInt64(nil, body)
		return binio.Bytes(v), err
	case halves:
		return d.DecodeFixedLenByteArray(nil, body, dtype.Float16.Size())
	case words:
		b, starts, err := d.DecodeByteArray(nil, body, nil)
		*t = texts{b: b, starts: starts}
		return nil, err
	}
	return nil, errors.New("its encoding is not known")
}

// checkDelta checks the number of values that a page of differences states, which the library believes.
func checkDelta(e format.Encoding, body []byte, n int) error {
	if e == format.ByteStreamSplit {
		return nil
	}
	total := uint64(0)
	for range 3 { // sizes of blocks, their parts, and the values
		v, k := binary.Uvarint(body)
		if k <= 0 {
			return errRuns
		}
		total, body = v, body[k:]
	}
	if total > uint64(n) || total > 1024*uint64(len(body)+1) {
		return errors.New("its pages have more values than they state")
	}
	return nil
}

// unpacked reads a page into *page, which grows. The first plain bytes are not compressed.
func (r *pageReader) unpacked(page *[]byte, h *format.PageHeader, plain int) ([]byte, error) {
	packed, size := int(h.CompressedPageSize), int(h.UncompressedPageSize)
	code := parquetCodec(r.chunk.Codec)
	if code == noCodec {
		plain = packed
	}
	if plain == packed {
		size = packed
	}
	if size < plain {
		return nil, errLength
	}
	if err := checkRatio(code, int64(packed-plain), int64(size-plain)); err != nil {
		return nil, err
	}
	grow(page, size)
	if plain == packed { // all of it
		if err := r.m.readAt(*page, r.at); err != nil {
			return nil, err
		}
		return *page, checkSum(h, *page)
	}
	grow(&r.m.packed, packed)
	if err := r.m.readAt(r.m.packed, r.at); err != nil {
		return nil, err
	}
	if err := checkSum(h, r.m.packed); err != nil {
		return nil, err
	}
	copy(*page, r.m.packed[:plain])
	if code == otherCodec {
		b, err := parquet.LookupCompressionCodec(r.chunk.Codec).Decode(nil, r.m.packed[plain:])
		if err == nil && len(b) != size-plain {
			err = errLength
		}
		copy((*page)[plain:], b)
		return *page, err
	}
	return *page, r.m.unpack((*page)[plain:], r.m.packed[plain:], code)
}

func parquetCodec(c format.CompressionCodec) codec {
	switch c {
	case format.Uncompressed:
		return noCodec
	case format.Snappy:
		return snappyCodec
	case format.Gzip:
		return gzipCodec
	case format.Zstd:
		return zstdCodec
	case format.Lz4Raw:
		return lz4Block
	case 5: // deprecated
		return lz4Hadoop
	}
	return otherCodec
}

// checkSum compares the checksum of a page, if there is one.
func checkSum(h *format.PageHeader, b []byte) error {
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(b) {
		return errors.New("a page has another checksum than it should have")
	}
	return nil
}

// grow sets *b to a slice of n bytes.
func grow(b *[]byte, n int) {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
}

func (r *pageReader) readDictionary(c *typed, h *format.PageHeader) error {
	d := &r.dict
	body, err := r.unpacked(&d.b, h, 0)
	if err != nil {
		return err
	}
	n := int(h.DictionaryPageHeader.V.NumValues)
	if n < 0 {
		return errors.New("its dictionary has a negative length")
	}
	e := h.DictionaryPageHeader.V.Encoding
	if e == plainDictionary {
		e = format.Plain
	}
	d.is = true
	d.data, err = r.decode(c.kind, e, body, n, true, &d.texts)
	return err
}

// countTexts counts words that have their lengths before them.
func countTexts(b []byte) (n int) {
	for len(b) >= 4 {
		size := binary.LittleEndian.Uint32(b)
		if uint64(size) > uint64(len(b)-4) {
			break
		}
		b = b[4+size:]
		n++
	}
	return n
}
