package matrix

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

// A Parquet file is read column by column in step, so that a page of every column is in memory,
// decoded, with the dictionary of its column chunk. How large these are is only said where they lie:
// by the page headers, which are read for it. A page of few bytes may have millions of values.

// smallerPages is the remedy for a file with pages that do not fit in memory.
const smallerPages = "give more --memory, or write the file with smaller pages (pyarrow's write_table: data_page_size, row_group_size, use_dictionary=False)"

// Need is the memory for reading a file, beside buffers of a fixed size.
type Need struct {
	Bytes int64
	// Most is text for the message that memory is short: the largest part of Bytes, and the remedy.
	Most string
}

// Held returns the memory for reading a file. For Parquet it is the footer's, and a page and a
// dictionary of every column, for a file of torch its pickle's; for other forms it is 0. Held reads the footer to compute it. If most is
// not 0, a footer that takes more than most bytes of memory is an error of kind fault.ErrBudget.
func Held(fsys vfs.FS, s Spec, most int64) (n Need, err error) {
	if isTorch(s.Path) {
		n.Bytes, err = torchfile.Held(fsys, s.Path)
		n.Most = fmt.Sprintf("reading %s takes %s of memory for its pickle: save its tensors in files of their own", s.Path, budget.FormatNeed(n.Bytes))
		return n, err
	}
	if s.DType != "" || s.Key != "" || filepath.Ext(s.Path) != ".parquet" {
		return Need{}, nil
	}
	f, err := importer.OpenFile(fsys, s.Path)
	if err != nil {
		return Need{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m := &parquetFile{name: s.Path, f: f}
	err = guard(m.name, func() error {
		n, err = m.held(most)
		return err
	})
	return n, err
}

const (
	// describedBy is how many bytes the library makes of one of a file's description.
	describedBy = 16
	// smallDescription is one that any memory has room for.
	smallDescription = 8 << 20
)

// held is Held of an open file.
func (m *parquetFile) held(most int64) (Need, error) {
	st, err := m.f.Stat()
	if err != nil {
		return Need{}, err
	}
	footer, err := m.checkFooter(st.Size())
	if err != nil {
		return Need{}, err
	}
	sum := describedBy * footer
	if most != 0 && sum > max(most, smallDescription) {
		return Need{}, fault.New(fault.ErrBudget, "%s: its footer takes %s of memory, but --memory leaves %s: give more, or write the file with larger row groups",
			m.name, budget.FormatNeed(sum), budget.FormatBytes(max(most, 0)))
	}
	p, err := m.openLibrary(st.Size())
	if err != nil {
		return Need{}, err
	}
	columns := p.Schema().Columns()
	var turn, largest int64
	var name string
	for i, path := range columns {
		c, err := m.columnMemory(p, i, path)
		if err != nil {
			return Need{}, err
		}
		sum += c.stays + int64(valuesOf(len(columns)))*int64(unsafe.Sizeof(parquet.Value{}))
		turn = max(turn, c.turn)
		if n := c.stays + c.turn; n > largest {
			largest, name = n, path[0]
		}
	}
	return Need{sum + turn, fmt.Sprintf("reading %s takes %s of memory for a page and a dictionary of each of %s; column %s takes the most, %s: %s",
		m.name, budget.FormatNeed(sum+turn), units.Of(len(columns), "column"), name, budget.FormatNeed(largest), smallerPages)}, nil
}

// columnMemory is the memory of a column.
type columnMemory struct {
	stays int64 // a decoded page, and a dictionary
	turn  int64 // also while the next page is read: that page, encoded and decoded
}

// reading are the buffers by which a column is read: one for its pages, one for its dictionary.
const reading = 2 * 4096

// columnMemory looks at all pages of a column.
func (m *parquetFile) columnMemory(p *parquet.File, i int, path []string) (c columnMemory, err error) {
	leaf, ok := p.Schema().Lookup(path...)
	if !ok {
		return c, m.bad("column %s cannot be read", path[0])
	}
	var page, dictionary int64
	for _, g := range p.Metadata().RowGroups {
		chunk := &g.Columns[i].MetaData
		err := m.eachPage(chunk, func(h *format.PageHeader) error {
			u, compressed := int64(h.UncompressedPageSize), int64(h.CompressedPageSize)
			switch h.Type {
			case format.DictionaryPage:
				n := decoded(leaf, format.Plain, u, int64(h.DictionaryPageHeader.V.NumValues))
				dictionary = max(dictionary, n)
				c.turn = max(c.turn, bucket(compressed)+bucket(u))
			case format.DataPage:
				n := decoded(leaf, h.DataPageHeader.V.Encoding, u, int64(h.DataPageHeader.V.NumValues))
				page, c.turn = max(page, n), max(c.turn, n+bucket(compressed)+bucket(u))
			case format.DataPageV2:
				n := decoded(leaf, h.DataPageHeaderV2.V.Encoding, u, int64(h.DataPageHeaderV2.V.NumValues))
				page, c.turn = max(page, n), max(c.turn, n+bucket(compressed)+bucket(u))
			}
			return nil
		})
		if err != nil {
			return c, m.bad("column %s: %v", path[0], err)
		}
	}
	c.stays = page + dictionary + reading
	return c, nil
}

// plainDictionary is the name of older writers for RLEDictionary in a page's header.
const plainDictionary format.Encoding = 2

// decoded returns the memory of n decoded values with their levels; bytes is their encoded length.
func decoded(leaf parquet.LeafColumn, e format.Encoding, bytes, n int64) int64 {
	const widest = 8 // of numbers
	sum, text := int64(0), leaf.Node.Type().Kind() == parquet.ByteArray
	switch {
	case e == plainDictionary || e == format.RLEDictionary:
		sum, text = bucket(4*n), false
	case e == format.Plain || e == format.DeltaLengthByteArray:
		sum = bucket(bytes)
	case text: // each value may repeat the value before and add to it
		sum = bucket(min(n, 1<<20) * bytes)
	default:
		sum = bucket(widest * n)
	}
	if text {
		sum += bucket(4 * (n + 1)) // where they begin
	}
	if leaf.MaxDefinitionLevel > 0 {
		sum += bucket(n)
	}
	if leaf.MaxRepetitionLevel > 0 {
		sum += bucket(n)
	}
	return sum
}

// bucket returns the memory that the library takes for a buffer: it has some sizes of them.
func bucket(n int64) int64 {
	const least, large = 4 << 10, 256 << 10
	size := int64(least)
	for size < n {
		if size < large {
			size *= 2
		} else {
			size += size / 2
		}
	}
	return size
}

// mostHeader bounds a page's header, which may have statistics of the page.
const mostHeader = 1 << 20

func (m *parquetFile) eachPage(chunk *format.ColumnMetaData, see func(h *format.PageHeader) error) error {
	at := chunk.DataPageOffset
	if d := chunk.DictionaryPageOffset; d > 0 {
		at = min(at, d)
	}
	var window []byte
	for end := at + chunk.TotalCompressedSize; at < end; {
		var h format.PageHeader
		n, err := m.pageHeader(&h, at, end, &window)
		if err != nil {
			return err
		}
		if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 {
			return errors.New("a page has a negative length")
		}
		if err := see(&h); err != nil {
			return err
		}
		at += n + int64(h.CompressedPageSize)
	}
	return nil
}

// pageHeader reads the header of the page that lies from at on, before end, and returns its length.
func (m *parquetFile) pageHeader(h *format.PageHeader, at, end int64, window *[]byte) (int64, error) {
	var protocol thrift.CompactProtocol
	for size := int64(512); ; size *= 8 {
		size = min(size, end-at, mostHeader)
		if int64(cap(*window)) < size {
			*window = make([]byte, size)
		}
		b := (*window)[:size]
		n, err := m.f.ReadAt(b, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		*h = format.PageHeader{}
		r := protocol.NewReaderFromBytes(b[:n])
		if err = thrift.NewDecoder(r).Decode(h); err == nil {
			return int64(r.BytesRead()), nil
		}
		if size == min(end-at, mostHeader) {
			return 0, err
		}
	}
}
