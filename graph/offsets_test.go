package graph

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOffsetsRunOver: edges of five nodes, beyond 32 bits and beyond 33.
func TestOffsetsRunOver(t *testing.T) {
	indptr := []int64{0, 7, 7, 1<<32 + 5, 1<<33 - 1, 1<<33 + 1}
	o := NewOffsets(5)
	for _, p := range indptr {
		if err := o.Append([]int64{p}); err != nil {
			t.Fatal(err)
		}
	}
	for v, want := range indptr {
		if got := o.Start(int64(v)); got != want {
			t.Errorf("node %d begins at %d, want %d", v, got, want)
		}
	}
	for v, want := range []uint32{7, 0, math.MaxUint32 - 1, math.MaxUint32 - 5, 2} {
		if got := o.Degree(uint32(v)); got != want {
			t.Errorf("node %d has %d in-neighbours, want %d", v, got, want)
		}
	}
	if o.NumNodes() != 5 || o.NumEdges() != 1<<33+1 || cap(o.low)*4 != int(OffsetsBytes(5)) {
		t.Errorf("%d nodes, %d edges, %d bytes", o.NumNodes(), o.NumEdges(), cap(o.low)*4)
	}
	if err := o.Append([]int64{1<<34 + 1}); err == nil || !strings.Contains(err.Error(), "node 5 has 8589934592 in-neighbours") {
		t.Error(err)
	}
}

// TestOffsetsAreTheIndexPointers: any of them come back.
func TestOffsetsAreTheIndexPointers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		degrees := rapid.SliceOf(rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32())).Draw(t, "degrees")
		indptr := make([]int64, len(degrees)+1)
		for v, d := range degrees {
			indptr[v+1] = indptr[v] + int64(d)
		}
		o := NewOffsets(int64(len(degrees)))
		if err := o.Append(indptr); err != nil {
			t.Fatal(err)
		}
		for v, p := range indptr {
			if got := o.Start(int64(v)); got != p {
				t.Fatalf("entry %d is %d, want %d", v, got, p)
			}
		}
		for v, d := range degrees {
			if got := o.Degree(uint32(v)); got != d {
				t.Fatalf("node %d has %d, want %d", v, got, d)
			}
		}
	})
}
