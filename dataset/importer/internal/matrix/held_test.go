package matrix

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// heldRow is a row of columns in every encoding, with levels and without.
type heldRow struct {
	Plain  float32   `parquet:"plain"`
	Dict   int64     `parquet:"dict,dict"`
	Delta  int64     `parquet:"delta,delta"`
	Maybe  *float64  `parquet:"maybe,optional"`
	Packed float32   `parquet:"packed,zstd"`
	Split  float64   `parquet:"split,split"`
	List   []float32 `parquet:"list"`
	Word   string    `parquet:"word"`
	Name   string    `parquet:"name,dict"`
	Flag   bool      `parquet:"flag"`
}

func heldRows(n int) []heldRow {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	rows := make([]heldRow, n)
	for i := range rows {
		x := rng.Float64()
		rows[i] = heldRow{float32(x), int64(i % 300), rng.Int64N(1 << 40), &x, 1, x, []float32{1, float32(x), 3}, strconv.Itoa(rng.IntN(1 << 30)), strconv.Itoa(i % 50), i%3 == 0}
		if i%4 == 0 {
			rows[i].Maybe = nil
		}
	}
	return rows
}

// pagesHold reads a file, and returns the bytes of all buffers at the end.
func pagesHold(t *testing.T, name string) (sum int64) {
	t.Helper()
	for _, which := range []struct {
		s Spec
		o columnsOf
	}{{Spec{Except: []string{"list"}}, columnsOf{words: 9, key: -1}}, {Spec{Columns: []string{"list"}}, none}} {
		which.s.Path = name
		m, err := openParquetColumns(vfs.OS, which.s, which.o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.columns {
			for n := int64(0); n < m.rows*int64(c.width); {
				if err := m.ahead(c); err != nil {
					t.Fatal(err)
				}
				n += int64(c.left)
				c.left = 0
			}
		}
		sum += int64(cap(m.packed))
		for _, r := range m.readers {
			sum += int64(cap(r.page)+cap(r.window)+cap(r.dict.b)) + 4*int64(cap(r.texts.starts)+cap(r.dict.starts))
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}

// Reading holds a page and a dictionary of all columns, and not many times that: of every encoding, in
// pages and row groups of any size.
func TestHeldCoversPages(t *testing.T) {
	for i, c := range []struct {
		rows, group int
		options     []parquet.WriterOption
	}{
		{5000, 5000, nil},
		{200_000, 200_000, []parquet.WriterOption{parquet.PageBufferSize(4 << 20)}},
		{200_000, 30_000, []parquet.WriterOption{parquet.PageBufferSize(1 << 20), parquet.DataPageVersion(1)}},
		{100_000, 100_000, []parquet.WriterOption{parquet.Compression(&zstd.Codec{}), parquet.PageBufferSize(64 << 10)}},
	} {
		name := filepath.Join(t.TempDir(), "x.parquet")
		if err := parquet.WriteFile(name, heldRows(c.rows), append(c.options, parquet.MaxRowsPerRowGroup(int64(c.group)))...); err != nil {
			t.Fatal(err)
		}
		held, err := Held(vfs.OS, Spec{Path: name}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if pages := pagesHold(t, name); held.Bytes < pages || held.Bytes > 5*pages+2<<20 {
			t.Errorf("%d: %d bytes are planned, pages and dictionaries have %d", i, held.Bytes, pages)
		}
	}
}

// A file of few bytes may have pages of millions of values, which are runs of equal ones: they are not
// held.
func TestHeldOfEqualValues(t *testing.T) {
	const rows = 2_000_000
	type row struct {
		One int64 `parquet:"one,dict"`
	}
	name := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(name, make([]row, rows), parquet.PageBufferSize(1<<30), parquet.MaxRowsPerRowGroup(rows)); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	held, err := Held(vfs.OS, Spec{Path: name}, 0)
	if err != nil || st.Size() > 10_000 || held.Bytes < 8 || held.Bytes > 100_000 {
		t.Errorf("a file of %d bytes: %+v is held; %v", st.Size(), held, err)
	}
	if !strings.Contains(held.Most, "x.parquet takes ") || !strings.Contains(held.Most, "of each of 1 column; column one takes the most, ") {
		t.Errorf("%+v", held)
	}
	if n, err := Held(vfs.OS, Spec{Path: name, Key: "k"}, 1); n != (Need{}) || err != nil {
		t.Errorf("of another form: %+v, %v", n, err)
	}
}

// The description of a file is as large as its row groups are many: of one that memory has no room
// for nothing is read.
func TestHeldOfDescription(t *testing.T) {
	type row struct{ A, B, C, D, E, F, G, H int64 }
	name := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(name, make([]row, 2000), parquet.MaxRowsPerRowGroup(1)); err != nil {
		t.Fatal(err)
	}
	held, err := Held(vfs.OS, Spec{Path: name}, 1<<30)
	if err != nil || held.Bytes < smallDescription {
		t.Fatalf("%+v, %v", held, err)
	}
	for _, most := range []int64{-1, 1 << 20} {
		if _, err := Held(vfs.OS, Spec{Path: name}, most); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "x.parquet: its footer takes") {
			t.Errorf("of %d bytes: %v", most, err)
		}
	}
}

// A forged description may place pages before the file: that is the file's fault, not an error of reading.
func TestHeldOfPagesBeforeTheFile(t *testing.T) {
	m := new(parquetFile)
	for _, c := range []format.ColumnMetaData{{NumValues: 1, DataPageOffset: -5, TotalCompressedSize: 9}, {NumValues: 1, DataPageOffset: math.MinInt64, TotalCompressedSize: 1}} {
		if err := m.eachPage(&c, nil); err == nil || err.Error() != "its pages begin before the file" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Headers that say anything are an error, or memory that is refused; never a panic.
func FuzzHeld(f *testing.F) {
	name := filepath.Join(f.TempDir(), "x.parquet")
	if err := parquet.WriteFile(name, heldRows(50), parquet.MaxRowsPerRowGroup(20)); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-9])
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		n, err := Held(vfs.OS, Spec{Path: name}, 1<<30)
		if err != nil && !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrBudget) || n.Bytes < 0 {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// By hand, of a dictionary of 100,000 numbers of 8 bytes: itself, and what it is decoded from.
func TestHeldOfDictionary(t *testing.T) {
	type row struct {
		N int64 `parquet:"n,dict"`
	}
	rows := make([]row, 100_000)
	for i := range rows {
		rows[i].N = int64(i)
	}
	name := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(name, rows, parquet.PageBufferSize(4096)); err != nil {
		t.Fatal(err)
	}
	if held, err := Held(vfs.OS, Spec{Path: name}, 0); err != nil || held.Bytes < 2*800_000 || held.Bytes > 4*800_000 {
		t.Errorf("%+v, %v", held, err)
	}
}
