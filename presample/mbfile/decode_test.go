package mbfile

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Decode and DecodeInputs make of the bytes that Path and Info say where they are what Read
// and Inputs do, and notice every wrong one.
func TestDecode(t *testing.T) {
	dir, _ := mustWrite(t, 2)
	r, err := Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range r.Facts().Batches() {
		var want, got graph.Batch
		if _, err := r.Read(t.Context(), i, nil, &want); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(r.Path(i))
		if err != nil {
			t.Fatal(err)
		}
		info := r.Info(i)
		raw := file[info.Offset : info.Offset+info.Size]
		if err := r.Decode(i, raw, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("batch %d: %+v, %v; read: %+v", i, got, err, want)
		}
		if nodes, err := r.DecodeInputs(i, raw); err != nil || !slices.Equal(nodes, want.Input) {
			t.Errorf("batch %d: the input nodes %v, %v; read: %v", i, nodes, err, want.Input)
		}
		for k := range raw {
			raw[k] ^= 1
			if err := r.Decode(i, raw, &got); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), r.Path(i)) || !strings.Contains(err.Error(), "make it again") {
				t.Fatalf("batch %d, byte %d: %v", i, k, err)
			}
			if _, err := r.DecodeInputs(i, raw); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("input nodes of batch %d, byte %d: %v", i, k, err)
			}
			raw[k] ^= 1
		}
		if err := r.Decode(i, raw[1:], &got); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("batch %d, a byte short: %v", i, err)
		}
	}
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		hotness, want []uint32
		touched       int64
	}{
		{[]uint32{1, 3, 0, 3, 2}, []uint32{3, 0, 4, 1, 2}, 4},
		{[]uint32{2, 0, 5, 2, 0, 1}, []uint32{1, 4, 0, 2, 5, 3}, 4},
		{[]uint32{7, 7}, []uint32{0, 1}, 2},
		{[]uint32{0, 0, 0}, []uint32{0, 1, 2}, 0},
		{nil, nil, 0},
	} {
		rank := make([]uint32, len(c.hotness))
		touched, _ := Ranks(c.hotness, rank)
		if !slices.Equal(rank, c.want) || touched != c.touched {
			t.Errorf("of hotness %v the ranks are %v of %d touched nodes, want %v of %d", c.hotness, rank, touched, c.want, c.touched)
		}
	}
}
