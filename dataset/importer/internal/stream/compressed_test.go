package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

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
			err = r.Edges(t.Context(), func(dst, src []int64) error {
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
