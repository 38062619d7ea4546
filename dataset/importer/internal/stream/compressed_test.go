package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

func npyOf(t *testing.T, name string, v []int64) *npz.Array {
	t.Helper()
	h, err := npy.Describe("i8", int64(len(v)))
	if err != nil {
		t.Fatal(err)
	}
	return npz.New(h, bytes.NewReader(binio.Bytes(v)), name, io.NopCloser(nil))
}

// TestCompressedRows reads a graph of three nodes, and refuses others.
func TestCompressedRows(t *testing.T) {
	for _, c := range []struct {
		indptr, indices []int64
		want, says      string
	}{
		{[]int64{0, 2, 2, 3}, []int64{1, 2, 0}, "1→0 2→0 0→2 ", ""},
		{[]int64{0, 0, 0, 0}, nil, "", ""},
		{[]int64{0, 2, 3}, []int64{1, 2, 0}, "", "indptr: its shape is (3,) instead of (4,)"},
		{[]int64{0, 2, 2, 3, 3}, []int64{1, 2, 0}, "", "indptr: its shape is (5,) instead of (4,)"},
		{[]int64{1, 2, 2, 3}, []int64{1, 2, 0}, "", "indptr: "},
		{[]int64{0, 2, 1, 3}, []int64{1, 2, 0}, "", "offset 1 follows offset 2, which is wrong for"},
		{[]int64{0, 2, 4, 3}, []int64{1, 2, 0}, "", "offset 4 follows offset 2, which is wrong for"},
		{[]int64{0, 2, 2, 2}, []int64{1, 2, 0}, "", ", which is wrong for 3 entries"},
		{[]int64{0, 2, 2, 3}, []int64{1, 3, 0}, "", "indices: the edge from 3 to 0 is out of range: the graph has 3 nodes"},
		{[]int64{0, 2, 2, 3}, []int64{1, -1, 0}, "", "indices: the edge from -1 to 0 is out of range: the graph has"},
	} {
		got := ""
		r, err := stream.NewCompressedRows(npyOf(t, "indptr", c.indptr), npyOf(t, "indices", c.indices), 3)
		if err == nil {
			err = stream.EachPair(t.Context(), "indices", r.Pairs(true), 3, func(dst, src []int64) error {
				for i := range dst {
					got += fmt.Sprintf("%d→%d ", src[i], dst[i])
				}
				return nil
			})
		}
		if c.says == "" && (err != nil || got != c.want) || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v %v: %q, %v; want %q, %q", c.indptr, c.indices, got, err, c.want, c.says)
		}
	}
}

// TestPairs compares the pairs of random matrices, taken in portions of any size, with their rows.
func TestPairs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(-1, 9), 0, 4), 0, 20).Draw(rt, "rows")
		in := rapid.Bool().Draw(rt, "in")
		indptr, indices := []int64{0}, []int64{}
		var want [][2]int64
		for i, columns := range rows {
			for _, j := range columns {
				indices = append(indices, j)
				if in {
					want = append(want, [2]int64{j, int64(i)})
				} else {
					want = append(want, [2]int64{int64(i), j})
				}
			}
			indptr = append(indptr, int64(len(indices)))
		}
		r, err := stream.NewCompressedRows(npyOf(t, "indptr", indptr), npyOf(t, "indices", indices), int64(len(rows)))
		if err != nil {
			rt.Fatal(err)
		}
		p := r.Pairs(in)
		var got [][2]int64
		for {
			portion := rapid.IntRange(1, 30).Draw(rt, "portion")
			dst, src := make([]int64, portion), make([]int64, portion)
			n, err := p.Next(dst, src)
			if err != nil {
				rt.Fatal(err)
			}
			if n == 0 {
				break
			}
			for i := range n {
				got = append(got, [2]int64{src[i], dst[i]})
			}
		}
		if err := p.Close(); err != nil || !slices.Equal(got, want) {
			rt.Fatalf("%v, %v; want %v", got, err, want)
		}
	})
}

// TestPairsRefuses reads matrices with wrong offsets.
func TestPairsRefuses(t *testing.T) {
	for _, c := range []struct {
		indptr, indices []int64
		says            string
	}{
		{[]int64{0}, []int64{1}, "indptr: it ends at offset 0, but there are 1 entries"},
		{[]int64{0, 2, 1, 3}, []int64{1, 2, 0}, "indptr: offset 1 follows offset 2"},
		{[]int64{0, 1, 1, 2}, []int64{1, 2, 0}, "indptr: offset 2 follows offset 1, which is wrong for 3 entries"},
		{[]int64{0, 2, 3, 4}, []int64{1, 2, 0}, "indptr: offset 4 follows offset 3, which is wrong for 3 entries"},
		{[]int64{0, 3, 3, 2}, []int64{1, 2, 0}, "indptr: offset 2 follows offset 3"},
	} {
		r, err := stream.NewCompressedRows(npyOf(t, "indptr", c.indptr), npyOf(t, "indices", c.indices), int64(len(c.indptr)-1))
		if err != nil {
			t.Fatal(err)
		}
		dst, src := make([]int64, 9), make([]int64, 9)
		if n, err := r.Pairs(false).Next(dst, src); n != 0 || !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v %v: %d, %v; want %q", c.indptr, c.indices, n, err, c.says)
		}
	}
}
