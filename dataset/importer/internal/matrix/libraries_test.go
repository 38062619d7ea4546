package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// libraryNames are the columns of testdata/make.py, without the columns of words.
var libraryNames = []string{"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "b", "maybe", "list", "list"}

// libraryRow is the row of the number i, as make.py has it.
func libraryRow(i int64) (row []float64) {
	mixed := i * 2654435761 % (1 << 32)
	b, maybe := 0.0, float64(i)
	if i%3 == 0 {
		b = 1
	}
	if i%5 == 0 {
		maybe = math.NaN()
	}
	return []float64{float64(i - 60), float64(i + 100), float64(i*500 - 30000), float64(i * 500), float64(mixed - 1<<31), float64(mixed), float64(mixed*1000003 - 5), float64(mixed * 1000003),
		float64(i) / 4, float64(float32(float64(mixed) / 8)), float64(mixed) / 3, b, maybe, float64(i), float64(i) + .5}
}

// libraryFiles are all files of the table.
func libraryFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.parquet", "*.feather", "*.arrows"} {
		found, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return slices.DeleteFunc(files, func(name string) bool {
		return formOf(Spec{Path: name}) == unknownForm || slices.Contains([]string{"pandas.parquet", "decimal.parquet", "nested.parquet", "other.feather", "few.feather", "none.parquet", "groups.parquet"}, filepath.Base(name))
	})
}

// TestLibraries reads a table that pyarrow wrote in many ways, all numbers and all words.
func TestLibraries(t *testing.T) {
	for _, name := range libraryFiles(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s := Spec{Path: name, Except: []string{"s", "ls", "d"}}
			d, err := Describe(vfs.OS, s)
			if err != nil || d.Columns != 17 || d.Rows != 120 || fmt.Sprint(d.Text[13:], d.Integer[6:9]) != "[false true true true] [true true false]" {
				t.Errorf("%+v, %v", d, err)
			}
			m, err := Open(vfs.OS, s)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.Names(), libraryNames) || m.Rows() != 120 || m.Integer() || m.Half() || m.Mask() {
				t.Errorf("%q, %d rows", m.Names(), m.Rows())
			}
			rows, err := numbersOf(m, nil)
			want := ""
			for i := range int64(120) {
				want += fmt.Sprint(libraryRow(i))
			}
			if rows != want || err != nil {
				t.Errorf("%.300s, want %.300s; %v", rows, want, err)
			}
			for column, word := range map[string]func(i int) string{
				"s": func(i int) string {
					if i%11 == 0 {
						return ""
					}
					return fmt.Sprintf("w%d", i%7)
				},
				"ls": func(i int) string { return fmt.Sprintf("ü%d", i) }, "d": func(i int) string { return fmt.Sprintf("class %d", i%3) },
				"b": func(i int) string { return fmt.Sprint(i%3 == 0) }, "f16": func(i int) string { return fmt.Sprint(float64(i) / 4) },
				"i8": func(i int) string { return fmt.Sprint(i - 60) }, "u64": func(i int) string { return fmt.Sprint(uint64(i) * 2654435761 % (1 << 32) * 1000003) },
				"maybe": func(i int) string {
					if i%5 == 0 {
						return ""
					}
					return fmt.Sprint(i)
				},
			} {
				var words []string
				for i := range 120 {
					words = append(words, word(i))
				}
				if got, err := all(OpenColumn(vfs.OS, Spec{Path: name, Columns: []string{column}})); got != strings.Join(words, ";") || err != nil {
					t.Errorf("%s: %.200s; %v", column, got, err)
				}
			}
			if _, err := all(OpenWords(vfs.OS, Spec{Path: name, Columns: []string{"s"}}, 1, true)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "column s has a row without a value") {
				t.Errorf("missing words: %v", err)
			}
			if _, err := all(OpenColumn(vfs.OS, Spec{Path: name, Columns: []string{"list"}})); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "column list has lists of 2 values") {
				t.Errorf("lists as words: %v", err)
			}
			if n, err := Held(vfs.OS, s, 0); err != nil || n.Bytes < 1000 {
				t.Errorf("%+v is held, %v", n, err)
			}
			if !t.Failed() {
				skipped(t, s)
			}
		})
	}
}

// skipped reads integers, singles and doubles after any number of rows.
func skipped(t *testing.T, s Spec) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		s := s
		columns := rapid.SliceOfNDistinct(rapid.SampledFrom(libraryNames[:13]), 1, 5, rapid.ID[string]).Draw(t, "columns")
		s.Columns, s.Except = columns, nil
		m, err := Open(vfs.OS, s)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for at := int64(0); at < 120; {
			n := rapid.Int64Range(0, 120-at).Draw(t, "skipped")
			if err := m.Skip(n); err != nil {
				t.Fatal(err)
			}
			at += n
			rows := rapid.Int64Range(1, 70).Draw(t, "rows")
			dst := make([]float32, rows*int64(len(columns)))
			got, err := m.Floats(dst)
			if err != nil || got != int(min(rows, 120-at))*len(columns) {
				t.Fatalf("%d elements after row %d: %v", got, at, err)
			}
			for i, x := range dst[:got] {
				want := float32(libraryRow(at + int64(i/len(columns)))[slices.Index(libraryNames, columns[i%len(columns)])])
				if x != want && x == x || (x == x) != (want == want) {
					t.Fatalf("row %d, %s: %v, want %v", at+int64(i/len(columns)), columns[i%len(columns)], x, want)
				}
			}
			at += int64(got / len(columns))
		}
		if got, err := m.Ints(make([]int64, len(columns))); got != 0 || err != nil {
			t.Fatalf("%d behind the last row, %v", got, err)
		}
	})
}

// TestLibraryOthers: pandas' index, and types that are no numbers.
func TestLibraryOthers(t *testing.T) {
	at := func(name string) string { return filepath.Join("testdata", name) }
	for name, says := range map[string]string{"decimal.parquet": "column x has decimals: write it as float64 or int64", "other.feather": "column x has decimals: write it as float64 or int64"} {
		if _, err := Open(vfs.OS, Spec{Path: at(name)}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(vfs.OS, Spec{Path: at("other.feather"), Columns: []string{"l"}}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "column l has lists of any length") {
		t.Errorf("lists: %v", err)
	}
	m, err := Open(vfs.OS, Spec{Path: at("pandas.parquet")})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = WithoutIDs(m); err != nil {
		t.Fatal(err)
	}
	left, is := LeftOut(m)
	_, err = numbersOf(m, nil)
	if names := m.Names(); !slices.Equal(names, []string{"i64", "f32"}) || left != "__index_level_0__" || !is || !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), `row 1: the column "__index_level_0__" is 3`) {
		t.Errorf("%q without %q, %v", names, left, err)
	}
	m, err = Open(vfs.OS, Spec{Path: at("lz4.parquet"), Columns: []string{"u64", "i8"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dst := make([]int64, 4)
	if n, err := m.Ints(dst); n != 4 || err != nil || !slices.Equal(dst, []int64{0, -60, 2654435761 * 1000003, -59}) {
		t.Errorf("%v, %v", dst, err)
	}
}

// edge is a row of the tables of benchmarks: integers that a dictionary has, and others.
type edge struct {
	Src int64 `parquet:"src"`
	Dst int64 `parquet:"dst"`
}

type dictEdge struct {
	Src int64 `parquet:"src,dict"`
	Dst int64 `parquet:"dst,dict"`
}

const benchEdges = 2_000_000

func benchRow(i int) (src, dst int64) {
	return int64(i / 16), int64(uint64(i) * 2654435761 % (1 << 17))
}

// processorTime returns the nanoseconds of all processors.
func processorTime(b *testing.B) int64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// BenchmarkEdges reads tables of edges in Parquet and as text.
func BenchmarkEdges(b *testing.B) {
	dir := b.TempDir()
	plain, dict := make([]edge, benchEdges), make([]dictEdge, benchEdges)
	text := []byte("src,dst\n")
	for i := range plain {
		src, dst := benchRow(i)
		plain[i], dict[i] = edge{src, dst}, dictEdge{src, dst}
		text = fmt.Appendf(text, "%d,%d\n", src, dst)
	}
	if err := os.WriteFile(filepath.Join(dir, "edges.csv"), text, 0o666); err != nil {
		b.Fatal(err)
	}
	for name, codec := range map[string]compress.Codec{"snappy": &snappy.Codec{}, "zstd": &zstd.Codec{}} {
		o := []parquet.WriterOption{parquet.Compression(codec), parquet.PageBufferSize(1 << 20)}
		if err := errors.Join(parquet.WriteFile(filepath.Join(dir, name+"-plain.parquet"), plain, o...), parquet.WriteFile(filepath.Join(dir, name+"-dict.parquet"), dict, o...)); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range []string{"edges.csv", "snappy-plain.parquet", "snappy-dict.parquet", "zstd-plain.parquet", "zstd-dict.parquet"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(16 * benchEdges)
			dst := make([]int64, chunk)
			before := processorTime(b)
			for b.Loop() {
				m, err := Open(vfs.OS, Spec{Path: filepath.Join(dir, name)})
				if err != nil {
					b.Fatal(err)
				}
				rows := 0
				for n := 1; n > 0; rows += n / 2 {
					if n, err = m.Ints(dst); err != nil {
						b.Fatal(err)
					}
				}
				if err := m.Close(); err != nil || rows != benchEdges {
					b.Fatal(rows, err)
				}
			}
			b.ReportMetric(float64(b.N)*benchEdges/b.Elapsed().Seconds()/1e6, "Medges/s")
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N)/benchEdges, "cpu-ns/edge")
		})
	}
}

// TestViews reads the columns of Arrow that lie behind columns of views, structs and nothing.
func TestViews(t *testing.T) {
	name := filepath.Join("testdata", "views.arrow")
	var v, v2, x, dv []string
	for i := range 120 {
		word := strings.Repeat(fmt.Sprintf("w%d", i), i%8)
		if i%9 == 0 {
			word = ""
		}
		v, v2, x = append(v, word), append(v2, fmt.Sprintf("a word that is long, of row %d", i)), append(x, fmt.Sprint(i))
		dv = append(dv, []string{"short", "a word that is long"}[i%2])
	}
	for column, want := range map[string][]string{"v": v, "v2": v2, "x": x, "dv": dv} {
		if got, err := all(OpenColumn(vfs.OS, Spec{Path: name, Columns: []string{column}})); got != strings.Join(want, ";") || err != nil {
			t.Errorf("%s: %.300s, %v", column, got, err)
		}
	}
	for column, says := range map[string]string{"n": "neither numbers nor words", "st": "neither numbers nor words", "dec": "decimals", "v": "words instead of numbers"} {
		if _, err := Open(vfs.OS, Spec{Path: name, Columns: []string{column}}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", column, err)
		}
	}
	if n, err := Held(vfs.OS, Spec{Path: name}, 0); err != nil || n.Bytes < 5000 || n.Bytes > 1<<20 {
		t.Errorf("%+v, %v", n, err)
	}
	if d, err := Describe(vfs.OS, Spec{Path: "testdata/nested.parquet"}); err != nil || !slices.Equal(d.Names, []string{"x", "st", "st"}) {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestArrowEdges: the last buffer of a file may be empty, missing numbers are not refused as fractions,
// and a file that ends early says so.
func TestArrowEdges(t *testing.T) {
	few := Spec{Path: filepath.Join("testdata", "few.feather"), Columns: []string{"s"}}
	if got, err := all(OpenColumn(vfs.OS, few)); got != ";;" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	few.Columns = []string{"f"}
	m, err := Open(vfs.OS, few)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Ints(make([]int64, 3)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "row 2: column f has the number 2.5, which is not an integer") {
		t.Errorf("%v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	m, err = Open(vfs.OS, few)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Ints(make([]int64, 2)); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "column f has a row without a value") {
		t.Errorf("%v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join("testdata", "stream.arrows"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.arrows")
	for n, says := range map[int]string{len(b) - 20: "truncated: a message of", 7: "not an Arrow file: it has 7 bytes", 12: "a message has a description of"} {
		importertest.Save(t, name, b[:n])
		if _, err := Open(vfs.OS, Spec{Path: name}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v, want %q", n, err, says)
		}
	}
	for text, says := range map[string]string{"FEA1xxxxxxxx": "Feather's first version", "ARROW1\x00\x00xx": "truncated", "ARROW1\x00\x00\x00\x00\x00\x00ARROW2": "not an Arrow file, or truncated", "\xff\xff\xff\xff\x00\x00\x00\x00": "it has no schema"} {
		importertest.Save(t, name, []byte(text))
		if _, err := Open(vfs.OS, Spec{Path: name}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// TestHeldOfArrow: by hand, 50 rows of a record batch in memory, and as they lie in the file, for 8 bytes
// and for 1 byte each.
func TestHeldOfArrow(t *testing.T) {
	held := func(name, column string) int64 {
		n, err := Held(vfs.OS, Spec{Path: filepath.Join("testdata", name), Columns: []string{column}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n.Bytes
	}
	if got := held("uncompressed.feather", "i64") - held("uncompressed.feather", "i8"); got != 2*(400-56) { // buffers are multiples of 8 bytes
		t.Errorf("%d bytes more", got)
	}
	if got := held("zstd.feather", "i64") - held("zstd.feather", "i8"); got < 400-56 || got > 2*(400-56)+100 {
		t.Errorf("compressed: %d bytes more", got)
	}
	if got := held("uncompressed.feather", "d") - held("uncompressed.feather", "i8"); got < 21 {
		t.Errorf("%d bytes of a dictionary", got)
	}
	b := []byte("ARROW1\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00ARROW1") // 22 bytes: a footer of 4 may be there, 5 may not
	name := filepath.Join(t.TempDir(), "x.arrow")
	for n, says := range map[byte]string{4: "it has no schema", 5: "not an Arrow file, or truncated"} {
		b[12] = n
		importertest.Save(t, name, b)
		if _, err := Open(vfs.OS, Spec{Path: name}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("a footer of %d bytes: %v, want %q", n, err, says)
		}
	}
}

// TestBufferInMessage: a buffer lies in the body of its message, which has 100 bytes here, to the last.
func TestBufferInMessage(t *testing.T) {
	m := &arrowFile{columnar: columnar{name: "x"}}
	for _, c := range []struct {
		at, length int64
		ok         bool
	}{{0, 100, true}, {100, 0, true}, {40, 60, true}, {40, 61, false}, {101, 0, false}, {-1, 1, false}, {0, -1, false}, {1 << 62, 1 << 62, false}} {
		p := part{g: &message{body: 300, next: 400}, buffers: binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(c.at)), uint64(c.length))}
		at, packed, size, code, err := m.where(p, 0)
		if !c.ok && !errors.Is(err, fault.ErrInput) || c.ok && (err != nil || at != 300+c.at || packed != c.length || size != c.length || code != noCodec) {
			t.Errorf("%+v: %d, %d, %d, %v", c, at, packed, size, err)
		}
		if _, _, _, _, err := m.where(p, 1); !errors.Is(err, fault.ErrInput) {
			t.Errorf("a second buffer: %v", err)
		}
	}
}

// TestTooFewValues: a buffer of 8 bytes has 64 flags, 2 numbers of 4 bytes, or the ends of 1 word, and no
// more.
func TestTooFewValues(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	importertest.Save(t, name, make([]byte, 8))
	f, err := vfs.OS.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := &arrowFile{columnar: columnar{name: "x", f: f}}
	buffers := make([]byte, 3*16) // the first is of missing values, the last of text: both are empty
	buffers[16+8] = 8
	for k, most := range map[kind]int64{boolean: 64, int32s: 2, words: 1} {
		r := &arrowReader{m: m, f: arrowField{name: "a", kind: k, offset: 4}}
		for n, ok := range map[int64]bool{most: true, most + 1: false} {
			p := part{g: &message{next: 8}, buffers: buffers, n: n}
			_, err := r.values(&arrowWords{bufs: make([][]byte, 3)}, p, k, 0)
			if ok && err != nil || !ok && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "column a has fewer values than it should have")) {
				t.Errorf("%d values of kind %v: %v", n, k, err)
			}
		}
	}
}

// TestPickKey picks a value of a dictionary by its name, and the saved value itself where there is no
// dictionary. None is no value.
func TestPickKey(t *testing.T) {
	both := &pickle.Dict{Keys: []any{"x", "y"}, Values: []any{int64(7), nil}}
	for _, c := range []struct {
		root any
		key  string
		want any
		says string
	}{
		{both, "x", int64(7), ""},
		{both, "y", nil, "it has x: name one of them"},
		{both, "z", nil, "it has x: name one of them"},
		{both, "", nil, "it has x: name one of them"},
		{int64(7), "", int64(7), ""},
		{int64(7), "x", nil, `it has a single value, without the name "x"`},
	} {
		got, err := pickKey(c.key)(c.root)
		if got != c.want || c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q of %v: %v, %v", c.key, c.root, got, err)
		}
	}
}
