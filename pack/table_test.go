package pack

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/pread"
)

// asPacked converts rows in the plain way.
func asPacked(src []byte, from, to dtype.Type, dim int) []byte {
	src = slices.Clone(src)
	n := len(src) / (dim * from.Size())
	out := make([]byte, n*to.RowBytes(dim))
	if to != dtype.Int8 {
		dtype.Convert(out, to, src, from)
		return out
	}
	wide := make([]float32, n*dim)
	dtype.Convert(binio.Bytes(wide), dtype.Float32, src, from)
	for i := range n {
		dtype.QuantizeRow(out[i*to.RowBytes(dim):], wide[i*dim:(i+1)*dim])
	}
	return out
}

// TestTableReader reads ranges of tables whose rows divide pieces, straddle them, and
// are longer than what straddling is for.
func TestTableReader(t *testing.T) {
	stack, err := pread.New(iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	for _, dim := range []int{128, 1500, 40_000} {
		for _, from := range []dtype.Type{dtype.Float32, dtype.Float16} {
			raw := datasettest.Params{Nodes: max(5<<20/(dim*from.Size()), 3), AvgDegree: 1, Dim: dim, DType: from, Seed: 7}.Raw()
			for _, to := range []dtype.Type{from, dtype.BFloat16, dtype.Int8} {
				testTable(t, stack, raw, to)
			}
		}
	}
}

func testTable(t *testing.T, stack iostack.Stack, raw dataset.Raw, to dtype.Type) {
	t.Helper()
	ds := datasettest.Create(t, t.TempDir(), raw)
	rows, err := ds.Features()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	table, err := newTableReader(rows, stack, raw.DType, to, raw.Dim, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer table.close()
	sb, rb := int64(raw.Dim*raw.DType.Size()), int64(to.RowBytes(raw.Dim))
	n := int64(len(raw.Features)) / sb
	want := asPacked(raw.Features, raw.DType, to, raw.Dim)
	for _, span := range [][2]int64{{0, n}, {0, 1}, {n - 1, n}, {1, n / 2}, {n / 3, n - 1}} {
		got := make([]byte, (span[1]-span[0])*rb)
		if err := table.read(t.Context(), span[0], span[1], got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[span[0]*rb:span[1]*rb]) {
			t.Errorf("rows %v of %d elements, %s as %s, differ", span, raw.Dim, raw.DType, to)
		}
	}
	if hi := table.end(0, n-1, n); hi < 1 || hi > n-1 {
		t.Errorf("a range of %d rows ends at %d", n-1, hi)
	}
}

// TestTableReaderHolds reads a range of wide rows, most of which lie in two pieces: the
// reader holds a few of these at a time, however many there are, and the next range takes
// no memory.
func TestTableReaderHolds(t *testing.T) {
	stack, err := pread.New(iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	raw := datasettest.Params{Nodes: 800, AvgDegree: 1, Dim: 15_000, Seed: 7}.Raw()
	ds := datasettest.Create(t, t.TempDir(), raw)
	rows, err := ds.Features()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	table, err := newTableReader(rows, stack, raw.DType, dtype.Int8, raw.Dim, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer table.close()
	got := make([]byte, 800*dtype.Int8.RowBytes(raw.Dim))
	seams := tableMemory(table.srcRow(), raw.Dim, false) - wiresMemory(false)
	for _, most := range []int64{seams, seams / 8} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := table.read(t.Context(), 0, 800, got); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > most {
			t.Errorf("%d bytes were allocated, at most %d are planned", n, most)
		}
	}
	if want := asPacked(raw.Features, raw.DType, dtype.Int8, raw.Dim); !bytes.Equal(got, want) {
		t.Error("the rows differ")
	}
}

// TestWriters puts bytes at scattered places of a file, longer and shorter than blocks
// and pages, and fails a write.
func TestWriters(t *testing.T) {
	fsys := vfs.Unsynced(vfs.OS)
	boom := errors.New("boom")
	for _, fails := range []bool{false, true} {
		in := &vfs.FailAt{N: 1, Err: boom, Match: func(op vfs.Op, name string) bool { return fails && op == vfs.OpWrite && filepath.Base(name) == "f" }}
		dir, _, err := stage.Begin(vfs.Inject(fsys, in), filepath.Join(t.TempDir(), "D"), stage.Spec{}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		want := make([]byte, 5<<20)
		set := newFileSet(dir, 0)
		defer set.close()
		out, err := set.create("f", int64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		w, err := newWriters(1)
		if err != nil {
			t.Fatal(err)
		}
		s := stream{w: w}
		for _, span := range [][2]int{{0, 3}, {3, 5000}, {8192, 8193}, {10_000, 3 << 20}, {3<<20 + 1, 3<<20 + 70_000}, {4 << 20, 5 << 20}} {
			for i := span[0]; i < span[1]; i++ {
				want[i] = byte(i%255) + 1
			}
			if err = s.seek(t.Context(), out, int64(span[0])); err == nil {
				err = s.write(t.Context(), want[span[0]:span[1]])
			}
			if err != nil {
				break
			}
		}
		s.flush()
		if err := errors.Join(err, w.drain()); fails != errors.Is(err, boom) {
			t.Errorf("a write fails (%t): %v", fails, err)
		}
		w.close()
		if got, err := vfs.ReadFile(fsys, dir.File("f")); err != nil || !fails && !bytes.Equal(got, want) {
			t.Error("the file is not what was written", err)
		}
	}
}

// TestChooseCodec decides by hand-made measurements.
func TestChooseCodec(t *testing.T) {
	for _, c := range []struct {
		drive      float64
		s2, zstd   codecMeasure
		cores      int
		want, says string
	}{
		{1e9, codecMeasure{ratio: 0.5, decode: 4e9}, codecMeasure{ratio: 0.4, decode: 1e9}, 1, "s2", "2.00"},   // zstd decodes as slowly as the drive reads
		{1e9, codecMeasure{ratio: 0.5, decode: 4e9}, codecMeasure{ratio: 0.4, decode: 1e9}, 4, "zstd", "2.50"}, // four cores do not
		{1e9, codecMeasure{ratio: 1, decode: 9e9}, codecMeasure{ratio: 0.96, decode: 9e9}, 4, "none", "1.04"},  // not worth it
		{9e9, codecMeasure{ratio: 0.1, decode: 4e9}, codecMeasure{ratio: 0.1, decode: 1e9}, 2, "none", "1.00"}, // a drive faster than decoding
	} {
		c.s2.codec, c.zstd.codec = "s2", "zstd"
		m := codecMeasures{drive: c.drive, of: []codecMeasure{c.s2, c.zstd}}
		if got := m.choose(c.cores); got != c.want || !bytes.Contains([]byte(m.String()), []byte(c.says)) {
			t.Errorf("%+v: %s, %s", c, got, m.String())
		}
	}
}

// TestRefusesBeyond names the element that the pack's type cannot hold.
func TestRefusesBeyond(t *testing.T) {
	table := &tableReader{rows: &dataset.FeatureReader{}, from: dtype.Float32, to: dtype.Float16, dim: 3}
	src := []float32{1, 2, 3, 4, 5, 70_000}
	err := table.convert(&wire{}, make([]byte, 12), binio.Bytes(src), 10)
	if !errors.Is(err, fault.ErrInput) || !bytes.Contains([]byte(err.Error()), []byte("feature 2 of node 11")) {
		t.Error(err)
	}
}
