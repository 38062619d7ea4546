package matrix

import (
	"errors"
	"fmt"
	"io"
	"slices"

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

// A Parquet file is read column by column in step, so that a page of every column is in memory, and a
// dictionary. How large these are is only said where they lie: by the page headers, which are read for
// it.

// smallerPages is the remedy for a file with pages that do not fit in memory.
const smallerPages = "give more --memory, or write the file with smaller pages (pyarrow's write_table: data_page_size, row_group_size, use_dictionary=False)"

// Need is the memory for reading a file, beside buffers of a fixed size.
type Need struct {
	Bytes int64
	// Most is text for the message that memory is short: the largest part of Bytes, and the remedy.
	Most string
}

// Held returns the memory for reading the chosen columns of a file. For Parquet it is the footer's, and
// a page and a dictionary of every column; for Arrow a record batch, and dictionaries; for a file of
// torch its pickle's; for other forms it is 0. Of several files, it is the largest. Held reads the footer
// to compute it. If most is not 0, a footer that takes more than most bytes of memory is an error of kind
// fault.ErrBudget.
func Held(fsys vfs.FS, s Spec, most int64) (n Need, err error) {
	if files, is, err := partsOf(fsys, s); err != nil || is {
		if err != nil {
			return n, err
		}
		err = eachPart(s, files, func(part Spec) error { // one is open at a time
			more, err := Held(fsys, part, most)
			if more.Bytes > n.Bytes {
				n = more
			}
			return err
		})
		return n, err
	}
	if isTorch(s.Path) {
		n.Bytes, err = torchfile.Held(fsys, s.Path)
		n.Most = fmt.Sprintf("reading %s takes %s of memory for its pickle: give more --memory, or write the array with numpy.save", s.Path, budget.FormatNeed(n.Bytes))
		return n, err
	}
	if formOf(s) == arrowForm {
		n.Bytes, err = arrowHeld(fsys, s)
		n.Most = fmt.Sprintf("reading %s takes %s of memory for a record batch: give more --memory, or write the file with smaller ones (pyarrow's write_feather: chunksize)", s.Path, budget.FormatNeed(n.Bytes))
		return n, err
	}
	if formOf(s) != parquetForm {
		return Need{}, nil
	}
	f, err := importer.OpenFile(fsys, s.Path)
	if err != nil {
		return Need{}, err
	}
	m := &parquetFile{columnar: columnar{name: s.Path, f: f, scratch: new(scratch), guard: guard}}
	defer func() { err = errors.Join(err, m.Close()) }()
	err = guard(m.name, func() error {
		n, err = m.held(s, most)
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
func (m *parquetFile) held(s Spec, most int64) (Need, error) {
	st, err := m.f.Stat()
	if err != nil {
		return Need{}, err
	}
	m.size = st.Size()
	footer, err := m.checkFooter(m.size)
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
	d := m.describe(p)
	chosen, err := d.Select(s)
	if err != nil {
		return Need{}, err
	}
	chosen = append(slices.Clone(chosen), d.keys(s)...)
	columns := p.Schema().Columns()
	var turn, largest int64
	var name string
	for _, i := range chosen {
		path := columns[i]
		c, err := m.columnMemory(p, i, path)
		if err != nil {
			return Need{}, err
		}
		sum += c.stays
		turn = max(turn, c.turn)
		if n := c.stays + c.turn; n > largest {
			largest, name = n, path[0]
		}
	}
	return Need{sum + turn, fmt.Sprintf("reading %s takes %s of memory for a page and a dictionary of each of %s; column %s takes the most, %s: %s",
		m.name, budget.FormatNeed(sum+turn), units.Of(len(chosen), "column"), name, budget.FormatNeed(largest), smallerPages)}, nil
}

// keys returns the column of ids, unless it is among the chosen ones.
func (d *Description) keys(s Spec) []int {
	if s.IDs == "" {
		return nil
	}
	found, err := d.find(s.Path, s.IDs)
	if err != nil {
		return nil // opening the file reports it
	}
	return found
}

// columnMemory is the memory of a column.
type columnMemory struct {
	stays int64 // a decompressed page, and a dictionary
	turn  int64 // also while a page is read: its bytes in the file, and a smaller page before it
}

// reading is memory for what the pages of a column begin with.
const reading = 4096

// columnMemory looks at all pages of a column.
func (m *parquetFile) columnMemory(p *parquet.File, i int, path []string) (c columnMemory, err error) {
	leaf, ok := p.Schema().Lookup(path...)
	if !ok {
		return c, m.bad("column %s cannot be read", path[0])
	}
	text := leaf.Node.Type().Kind() == parquet.ByteArray
	var page, dictionary int64
	for _, g := range p.Metadata().RowGroups {
		if i >= len(g.Columns) {
			return c, m.bad("a row group has %d columns", len(g.Columns))
		}
		err := m.eachPage(&g.Columns[i].MetaData, func(h *format.PageHeader) error {
			size, packed := int64(h.UncompressedPageSize), int64(h.CompressedPageSize)
			switch h.Type {
			case format.DictionaryPage:
				dictionary = max(dictionary, size+decoded(text, h.DictionaryPageHeader.V.Encoding, size, int64(h.DictionaryPageHeader.V.NumValues)))
			case format.DataPage:
				page = max(page, size+decoded(text, h.DataPageHeader.V.Encoding, size, int64(h.DataPageHeader.V.NumValues)))
			case format.DataPageV2:
				page = max(page, size+decoded(text, h.DataPageHeaderV2.V.Encoding, size, int64(h.DataPageHeaderV2.V.NumValues)))
			}
			c.turn = max(c.turn, packed+max(page, dictionary))
			return nil
		})
		if errors.As(err, new(readError)) {
			return c, err
		}
		if err != nil {
			return c, m.bad("column %s: %v", path[0], err)
		}
	}
	c.stays = page + dictionary + reading
	return c, nil
}

// plainDictionary is the name of older writers for RLEDictionary in a page's header.
const plainDictionary format.Encoding = 2

// decoded returns the memory for n values of a page beside its bytes: places of words, and numbers that
// do not lie in the page as they are.
func decoded(text bool, e format.Encoding, bytes, n int64) int64 {
	const widest = 8 // of numbers
	places := int64(0)
	if text {
		places = 4 * (n + 1)
	}
	switch {
	case e == plainDictionary || e == format.RLEDictionary || e == format.RLE:
		return 0
	case e == format.Plain:
		return places
	case e == format.DeltaLengthByteArray:
		return 2*places + bytes
	case text: // each value may repeat the value before and add to it
		return 3*places + min(n, 1<<20)*bytes
	}
	return widest * n
}

// mostHeader bounds a page's header, which may have statistics of the page.
const mostHeader = 1 << 20

func (m *parquetFile) eachPage(chunk *format.ColumnMetaData, see func(h *format.PageHeader) error) error {
	if chunk.NumValues == 0 {
		return nil
	}
	at := chunkStart(chunk)
	if at < 0 {
		return errors.New("its pages begin before the file")
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
			return 0, readError{fmt.Errorf("%s: %w", m.name, err)}
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
