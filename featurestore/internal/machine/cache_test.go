package machine

import (
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

// Units for successive places on the GPU are copied together, up to the size of the memory; others by themselves.
// Units for RAM are not collected.
func TestStaged(t *testing.T) {
	type put struct {
		first int64
		units string
	}
	var got []put
	s := Staged{Unit: 2, Near: 10, RAM: make([]byte, 6), Memory: make([]byte, 6), Put: func(first int64, b []byte) error {
		got = append(got, put{first, string(b)})
		return nil
	}}
	for i, at := range []int64{4, 5, 6, 7, 9, 2} {
		if err := s.Write(at, []byte{'a' + byte(i), '0' + byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(11, []byte("g6")); err != nil || string(s.RAM) != "\x00\x00g6\x00\x00" || s.n != 0 {
		t.Errorf("%q in RAM: %v", s.RAM, err)
	}
	want := []put{{4, "a0b1c2"}, {7, "d3"}, {9, "e4"}, {2, "f5"}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	for _, c := range []struct{ n, unit, want int64 }{{0, 4096, 0}, {3, 4096, 12288}, {1 << 20, 4096, 8 << 20}, {5, 16 << 20, 16 << 20}} {
		if n := StagingBytes(c.n, c.unit); n != c.want {
			t.Errorf("%+v: %d bytes", c, n)
		}
	}
}
