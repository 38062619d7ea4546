package rowstream_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/rowstream"
)

// table is a stream over values that are in memory.
type table struct {
	values []float32
	open   *int
}

func (t *table) Next(values []float32) error {
	if copy(values, t.values) < len(values) {
		return errors.New("there are no more rows")
	}
	t.values = t.values[len(values):]
	return nil
}

func (t *table) Close() error { *t.open--; return nil }

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
		var parts []rowstream.Part
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
			parts = append(parts, rowstream.Part{Rows: &table{values, &open}, Dim: d})
		}
		got := read(t, rowstream.Beside(parts), rows, len(want[0]))
		if !slices.Equal(got, slices.Concat(want...)) || open != 0 {
			t.Fatalf("%v, want %v; %d are open", got, want, open)
		}
	})
}

func TestBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 6).Draw(t, "counts")
		const dim = 3
		var total int64
		for _, n := range counts {
			total += n
		}
		if total == 0 {
			return
		}
		first := rapid.Int64Range(0, total-1).Draw(t, "first")
		all := make([]float32, total*dim)
		for i := range all {
			all[i] = float32(i)
		}
		open := 0
		s := rowstream.Behind(counts, dim, first, func(i int, from int64) (importer.RowStream, error) {
			if open++; open > 1 {
				t.Fatal("two tables are open")
			}
			var before int64
			for _, n := range counts[:i] {
				before += n
			}
			return &table{all[(before+from)*dim : (before+counts[i])*dim], &open}, nil
		})
		if got := read(t, s, int(total-first), dim); !slices.Equal(got, all[first*dim:]) || open != 0 {
			t.Fatalf("%v, want %v; %d are open", got, all[first*dim:], open)
		}
	})
}

// TestBehindFails closes a stream whose table could not be opened.
func TestBehindFails(t *testing.T) {
	failed := errors.New("failed")
	b := rowstream.Behind([]int64{2}, 1, 0, func(int, int64) (importer.RowStream, error) {
		var none *table
		return none, failed
	})
	if err := b.Next(make([]float32, 1)); !errors.Is(err, failed) {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
