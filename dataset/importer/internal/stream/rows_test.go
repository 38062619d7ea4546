package stream_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/stream"
)

// rowTable is a stream over values that are in memory.
type rowTable struct {
	values []float32
	open   *int
	most   int   // values that were taken at a time
	fails  error // of Next
	stays  error // of Close
}

func (t *rowTable) Next(values []float32) error {
	t.most = max(t.most, len(values))
	if t.fails != nil {
		return t.fails
	}
	if copy(values, t.values) < len(values) {
		return errors.New("there are no more rows")
	}
	t.values = t.values[len(values):]
	return nil
}

func (t *rowTable) Close() error { *t.open--; return t.stays }

// read takes a stream's rows in portions of any size.
func read(t *rapid.T, s importer.RowStream, rows, dim int) []float32 {
	all := make([]float32, rows*dim)
	for at := 0; at < rows; {
		n := rapid.IntRange(1, rows-at).Draw(t, "portion")
		if err := s.Next(all[at*dim : (at+n)*dim]); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBeside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(1, 50).Draw(t, "rows")
		dims := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 5, 1000}), 1, 4).Draw(t, "dims")
		var parts []stream.Part
		want := make([][]float32, rows)
		var x float32
		open := len(dims)
		for _, d := range dims {
			var values []float32
			for v := range rows {
				for range d {
					x++
					values, want[v] = append(values, x), append(want[v], x)
				}
			}
			parts = append(parts, stream.Part{Rows: &rowTable{values: values, open: &open}, Dim: d})
		}
		got := read(t, stream.Beside(parts), rows, len(want[0]))
		if !slices.Equal(got, slices.Concat(want...)) || open != 0 {
			t.Fatalf("%v, want %v; %d are open", got, want, open)
		}
	})
}

// TestBesideHolds takes a row at a time of parts that are longer than what is held, and as many as that
// holds of others.
func TestBesideHolds(t *testing.T) {
	for wide, want := range map[int]int{importer.Chunk + 1: importer.Chunk + 1, importer.Chunk/2 + 1: importer.Chunk/2 + 1, importer.Chunk / 2: importer.Chunk} {
		const rows = 5
		open := 2
		parts := []*rowTable{{values: make([]float32, wide*rows), open: &open}, {values: []float32{1, 2, 3, 4, 5}, open: &open}}
		b := stream.Beside([]stream.Part{{Rows: parts[0], Dim: wide}, {Rows: parts[1], Dim: 1}})
		values := make([]float32, rows*(wide+1))
		if err := b.Next(values); err != nil {
			t.Fatal(err)
		}
		if parts[0].most != want || parts[1].most != want/wide {
			t.Errorf("parts of %d and 1: %d and %d values are taken at a time, want %d and %d", wide, parts[0].most, parts[1].most, want, want/wide)
		}
		for i := range rows {
			if x := values[i*(wide+1)+wide]; x != float32(i+1) {
				t.Errorf("row %d ends in %v", i, x)
			}
		}
	}
	one := &rowTable{}
	if stream.Beside([]stream.Part{{Rows: one, Dim: 7}}) != importer.RowStream(one) {
		t.Error("one table is copied")
	}
}

// TestBesideFails returns the errors of reading and of closing.
func TestBesideFails(t *testing.T) {
	failed := errors.New("failed")
	open := 4
	part := func(fails, stays error) *rowTable {
		return &rowTable{values: []float32{1}, open: &open, fails: fails, stays: stays}
	}
	for _, bad := range [][2]*rowTable{{part(failed, nil), part(nil, nil)}, {part(nil, nil), part(failed, failed)}} {
		b := stream.Beside([]stream.Part{{Rows: bad[0], Dim: 1}, {Rows: bad[1], Dim: 1}})
		if err := b.Next(make([]float32, 2)); !errors.Is(err, failed) {
			t.Errorf("beside: %v", err)
		}
		if err := b.Close(); !errors.Is(err, bad[1].stays) {
			t.Errorf("beside: %v", err)
		}
	}
	if open != 0 {
		t.Errorf("%d are open", open)
	}
	for reads, bad := range []*rowTable{part(failed, nil), part(nil, failed)} { // the second fails when the next one is opened
		b := stream.Behind([]int64{1, 1}, 1, 0, func(i int, _ int64) (importer.RowStream, error) {
			if i == 0 {
				return bad, nil
			}
			return part(nil, nil), nil
		})
		for range reads {
			if err := b.Next(make([]float32, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Next(make([]float32, 1)); !errors.Is(err, failed) {
			t.Errorf("behind, after %d rows: %v", reads, err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("behind: %v", err)
		}
	}
}

func TestBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 6).Draw(t, "counts")
		dim := rapid.IntRange(1, 3).Draw(t, "dim")
		var total int64
		for _, n := range counts {
			total += n
		}
		first := rapid.Int64Range(0, total).Draw(t, "first")
		all := make([]float32, int(total)*dim)
		for i := range all {
			all[i] = float32(i)
		}
		open := 0
		s := stream.Behind(counts, dim, first, func(i int, from int64) (importer.RowStream, error) {
			if open++; open > 1 {
				t.Fatal("two tables are open")
			}
			var before int64
			for _, n := range counts[:i] {
				before += n
			}
			if from >= counts[i] {
				t.Fatalf("table %d of %d rows is opened at %d", i, counts[i], from)
			}
			return &rowTable{values: all[int(before+from)*dim : int(before+counts[i])*dim], open: &open}, nil
		})
		if got := read(t, s, int(total-first), dim); !slices.Equal(got, all[int(first)*dim:]) || open != 0 {
			t.Fatalf("%v, want %v; %d are open", got, all[int(first)*dim:], open)
		}
	})
}

// TestBehindFails closes a stream whose table could not be opened.
func TestBehindFails(t *testing.T) {
	failed := errors.New("failed")
	b := stream.Behind([]int64{2}, 1, 0, func(int, int64) (importer.RowStream, error) {
		var none *rowTable
		return none, failed
	})
	if err := b.Next(make([]float32, 1)); !errors.Is(err, failed) {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
