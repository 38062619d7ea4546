package matrix

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
)

// allocated returns the bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzParquet reads tables: any bytes end in rows or in bad input, and in little memory.
func FuzzParquet(f *testing.F) {
	for _, name := range []string{"edges", "feat", "feat-lists", "labels", "train"} {
		b, err := os.ReadFile(filepath.Join("../../testdata/raw", name+".parquet"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("PAR1PAR1"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(dir, "x.parquet")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		n := allocated(func() {
			if w, err := OpenWords(vfs.OS, Spec{Path: name}, 1, false); err == nil {
				for range 1000 {
					if _, err = w.Next(); err != nil {
						break
					}
				}
				if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fault.ErrInput) {
					t.Errorf("%v", err)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, fault.ErrInput) {
				t.Errorf("%v", err)
			}
			m, err := Open(vfs.OS, Spec{Path: name})
			if err != nil {
				if !errors.Is(err, fault.ErrInput) {
					t.Errorf("%v", err)
				}
				return
			}
			defer m.Close()
			if m.Columns() > 1000 {
				return
			}
			row := make([]float64, m.Columns())
			for range 1000 {
				n, err := m.Doubles(row)
				if err != nil && !errors.Is(err, fault.ErrInput) {
					t.Errorf("%v", err)
				}
				if err != nil || n == 0 {
					return
				}
			}
		})
		if n > 256<<20 {
			t.Errorf("%d bytes were allocated for %d", n, len(b))
		}
	})
}

// FuzzArrow reads files and streams of Arrow: any bytes end in rows or in bad input, and in little
// memory.
func FuzzArrow(f *testing.F) {
	for _, name := range []string{"lz4.feather", "zstd.feather", "uncompressed.feather", "stream.arrows", "other.feather"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("ARROW1\x00\x00\x00\x00\x00\x00ARROW1"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(dir, "x.arrow")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		n := allocated(func() { readAll(t, name) })
		if n > 256<<20 {
			t.Errorf("%d bytes were allocated for %d", n, len(b))
		}
	})
}

// readAll reads 1000 rows of each column of a file as numbers or as words.
func readAll(t *testing.T, name string) {
	t.Helper()
	d, err := Describe(vfs.OS, Spec{Path: name})
	held, errHeld := Held(vfs.OS, Spec{Path: name}, 0)
	if err != nil && !errors.Is(err, fault.ErrInput) || errHeld != nil && !errors.Is(errHeld, fault.ErrInput) || held.Bytes < 0 {
		t.Errorf("%v, %v, %+v", err, errHeld, held)
	}
	if err != nil {
		return
	}
	for i := range min(d.Columns, 50) {
		s := Spec{Path: name, Columns: []string{"q"}, numbers: []int{i}}
		w, err := OpenColumn(vfs.OS, s)
		if err == nil {
			for range 1000 {
				if _, err = w.Next(); err != nil {
					break
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fault.ErrInput) {
			t.Errorf("column %d: %v", i, err)
		}
		m, err := Open(vfs.OS, s)
		if err == nil && m.Columns() < 1000 {
			n, dst := 1, make([]float64, 100*m.Columns())
			for range 10 {
				if n, err = m.Doubles(dst); err != nil || n == 0 {
					break
				}
			}
		}
		if m != nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if err != nil && !errors.Is(err, fault.ErrInput) {
			t.Errorf("column %d: %v", i, err)
		}
	}
}

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]Spec{
		"a.npy":         {Path: "a.npy", Cols: 1},
		"d/a.npz:key":   {Path: "d/a.npz", Key: "key"},
		"a.bin:f4":      {Path: "a.bin", DType: "f4", Cols: 1},
		"a.bin:int64:5": {Path: "a.bin", DType: "int64", Rows: 5, Cols: 1},
		"a.bin:u1:1x1":  {Path: "a.bin", DType: "u1", Rows: 1, Cols: 1},
		"a.bin:u1:4611686018427387904x4611686018427387904": {Path: "a.bin", DType: "u1", Rows: 1 << 62, Cols: 1 << 62},
		"a.bin:f8:190x109":  {Path: "a.bin", DType: "f8", Rows: 190, Cols: 109},
		"a.bin:<u2:5x3":     {Path: "a.bin", DType: "<u2", Rows: 5, Cols: 3},
		"a.bin:float16:2×7": {Path: "a.bin", DType: "float16", Rows: 2, Cols: 7},
	} {
		if got, err := ParseSpec(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":f4", "a.bin:f3", "a.bin:>i8", "a.bin:f4:0", "a.bin:f4:-1x2", "a.bin:f4:2x0", "a.bin:f4:axb", "a.bin:f4:1x2:3"} {
		if _, err := ParseSpec(text); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestRawFits refuses arrays that are not as long as their shape says, before any memory is
// taken for them.
func TestRawFits(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.bin")
	if err := os.WriteFile(name, make([]byte, 24), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec Spec
		rows int64
	}{
		{Spec{DType: "i4", Cols: 1}, 6}, {Spec{DType: "f8", Rows: 3, Cols: 1}, 3}, {Spec{DType: "u1", Rows: 4, Cols: 6}, 4},
		{Spec{DType: "i4", Rows: 7, Cols: 1}, -1}, {Spec{DType: "i4", Rows: 5, Cols: 1}, -1}, {Spec{DType: "f8", Rows: 1 << 40, Cols: 1 << 40}, -1},
		{Spec{DType: "i4", Rows: 1, Cols: 1 << 60}, -1}, {Spec{DType: "u1", Rows: 1, Cols: 1 << 25}, -1},
	} {
		c.spec.Path = name
		m, err := Open(vfs.OS, c.spec)
		if c.rows < 0 {
			if !errors.Is(err, fault.ErrInput) {
				t.Errorf("%+v: %v", c.spec, err)
			}
			continue
		}
		if err != nil || m.Rows() != c.rows {
			t.Errorf("%+v: %v", c.spec, err)
			continue
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestParquetDamaged changes bytes of good tables: what comes is rows or one error, in little
// memory.
func TestParquetDamaged(t *testing.T) {
	for _, file := range []string{"../../testdata/raw/edges.parquet", "../../testdata/raw/feat-lists.parquet", "testdata/lz4-dict.parquet", "testdata/encodings.parquet", "testdata/zstd.feather", "testdata/uncompressed.feather"} {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "x"+filepath.Ext(file))
		for i := range map[bool]int{true: 100, false: 500}[strings.HasPrefix(file, "testdata")] {
			src := rng.New(rng.Key(uint64(i)))
			bad := bytes.Clone(good)
			for range 1 + i%3 {
				bad[src.Uint64n(uint64(len(bad)))] = byte(src.Uint64())
			}
			if err := os.WriteFile(name, bad, 0o666); err != nil {
				t.Fatal(err)
			}
			n := allocated(func() {
				if strings.HasPrefix(file, "testdata") {
					readAll(t, name)
					return
				}
				m, err := Open(vfs.OS, Spec{Path: name})
				for row := []float64(nil); err == nil; {
					if row == nil {
						row = make([]float64, m.Columns())
						defer m.Close()
					}
					var n int
					if n, err = m.Doubles(row); n == 0 && err == nil {
						return
					}
				}
				if !errors.Is(err, fault.ErrInput) {
					t.Errorf("%s, change %d: %v", file, i, err)
				}
			})
			if n > 64<<20 {
				t.Errorf("%s, change %d: %d bytes were allocated", file, i, n)
			}
		}
	}
}
