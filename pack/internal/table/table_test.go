package table

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
	"diskgnn/iostack/pread"
)

// asPacked converts rows in the plain way.
func asPacked(src []byte, from, to dtype.Type, dim int) []byte {
	src = slices.Clone(src)
	n := len(src) / (dim * from.Size())
	out := make([]byte, n*to.RowBytes(dim))
	if !to.Quantized() {
		dtype.Convert(out, to, src, from)
		return out
	}
	wide := make([]float32, n*dim)
	dtype.Convert(binio.Bytes(wide), dtype.Float32, src, from)
	for i := range n {
		dtype.QuantizeRow(out[i*to.RowBytes(dim):], to, wide[i*dim:(i+1)*dim])
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
			for _, to := range []dtype.Type{from, dtype.BFloat16, dtype.Int8, dtype.Int4} {
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
	table, err := New(rows, stack, raw.DType, to, raw.Dim, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	sb, rb := int64(raw.Dim*raw.DType.Size()), int64(to.RowBytes(raw.Dim))
	n := int64(len(raw.Features)) / sb
	want := asPacked(raw.Features, raw.DType, to, raw.Dim)
	for _, span := range [][2]int64{{0, n}, {0, 1}, {n - 1, n}, {1, n / 2}, {n / 3, n - 1}} {
		got := make([]byte, (span[1]-span[0])*rb)
		if err := table.Read(t.Context(), span[0], span[1], got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[span[0]*rb:span[1]*rb]) {
			t.Errorf("rows %v of %d elements, %s as %s, differ", span, raw.Dim, raw.DType, to)
		}
	}
	if hi := table.End(0, n-1, n); hi < 1 || hi > n-1 {
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
	table, err := New(rows, stack, raw.DType, dtype.Int8, raw.Dim, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	got := make([]byte, 800*dtype.Int8.RowBytes(raw.Dim))
	seams := Memory(table.RowBytes(), raw.Dim, false) - pieces.Memory(dataset.Granule, false)
	for _, most := range []int64{seams, seams / 8} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := table.Read(t.Context(), 0, 800, got); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > most && (!racing || most == seams) {
			t.Errorf("%d bytes were allocated, at most %d are planned", n, most)
		}
	}
	if want := asPacked(raw.Features, raw.DType, dtype.Int8, raw.Dim); !bytes.Equal(got, want) {
		t.Error("the rows differ")
	}
}

// TestRefusesBeyond names the element that the pack's type cannot hold.
func TestRefusesBeyond(t *testing.T) {
	table := &Reader{rows: &dataset.FeatureReader{}, from: dtype.Float32, to: dtype.Float16, dim: 3}
	src := []float32{1, 2, 3, 4, 5, 70_000}
	err := table.convert(make([]float32, 4), make([]byte, 12), binio.Bytes(src), 10)
	if !errors.Is(err, fault.ErrInput) || !bytes.Contains([]byte(err.Error()), []byte("feature 2 of node 11")) {
		t.Error(err)
	}
}
