package machine

import (
	"errors"
	"testing"

	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/internal/dtype"
)

// The memory of 60 frames by hand, for rows of 512 bytes: 30,720 bytes in RAM; with 20 of them on a GPU, 20,480.
func TestCacheCounts(t *testing.T) {
	f := &featurestore.Facts{Nodes: 100, RowBytes: 512, DType: dtype.Float32, Dim: 128}
	var host, gpu featurestore.Layout
	NewCache(f, Frames{All: 60}).Count(&host)
	if host.RAMBytes != 32<<10 || host.GPU != nil || host.GPURows+host.GPUBytes != 0 {
		t.Errorf("%+v", host)
	}
	NewCache(f, Frames{All: 60, Near: 20, GPU: cudatest.Open(t)}).Count(&gpu)
	if gpu.RAMBytes != 20<<10 || gpu.GPU == nil || gpu.GPURows != 20 || gpu.GPURowsBytes != 10<<10 || gpu.GPUBytes < 10<<10 {
		t.Errorf("%+v", gpu)
	}
}

// Successive bytes for the GPU are copied together, up to the size of the memory; others by themselves. Bytes for
// RAM are not collected. Writes across the memory's end, or the GPU's, are cut.
func TestStaged(t *testing.T) {
	type put struct {
		first int64
		bytes string
	}
	var got []put
	s := Staged{Near: 20, RAM: make([]byte, 6), Memory: make([]byte, 6), Put: func(first int64, b []byte) error {
		got = append(got, put{first, string(b)})
		return nil
	}}
	for _, w := range []put{{8, "a0"}, {10, "b1"}, {12, "c2"}, {14, "d3"}, {18, "e4"}, {4, "f5"}, {6, "gggggg"}, {19, "hij"}} {
		if err := s.Write(w.first, []byte(w.bytes)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(23, []byte("k6")); err != nil || string(s.RAM) != "ij\x00k6\x00" || s.n != 0 {
		t.Errorf("%q in RAM: %v", s.RAM, err)
	}
	err := s.Write(3, []byte("l"))
	if s.Drop(); errors.Join(err, s.Flush()) != nil {
		t.Error(err)
	}
	want := []put{{8, "a0b1c2"}, {14, "d3"}, {18, "e4"}, {4, "f5gggg"}, {10, "gg"}, {19, "h"}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	for _, c := range []struct{ near, want int64 }{{0, 0}, {12288, 12288}, {1 << 32, 8 << 20}} {
		if n := StagingBytes(c.near); n != c.want {
			t.Errorf("%+v: %d bytes", c, n)
		}
	}
}
