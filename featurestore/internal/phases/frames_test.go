package phases

import (
	"context"
	"errors"
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// facts are of rows of two floats, in batches of up to three rows.
func facts() *featurestore.Facts {
	return &featurestore.Facts{Nodes: 9, Train: 4, Dim: 2, DType: dtype.Float32, RowBytes: 8, TrainSizes: graph.Sizes{Src: []int{3}}}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// The memory of five frames by hand: 40 bytes, in a page, and a word. A slot has a page for a matrix of 24 bytes,
// and a page for its frames. With three frames on the GPU, 16 bytes are in RAM, and 24 bytes of staging; the device
// has two turns of three entries beside the frames, each rounded up to 256 bytes.
func TestFramesCount(t *testing.T) {
	const page = 4096
	var host, gpu featurestore.Layout
	newFrames(facts(), nil, 0, 5).count(&host)
	if host.RAMBytes != page+8 || host.SlotBytes != 2*page || host.GPU != nil || host.GPUBytes != 0 {
		t.Errorf("%+v", host)
	}
	newFrames(facts(), cudatest.Open(t), 3, 5).count(&gpu)
	if gpu.RAMBytes != 2*page+8 || gpu.SlotBytes != page || gpu.GPU == nil || gpu.GPURows != 3 || gpu.GPURowsBytes != 24 || gpu.GPUBytes != 3*cuda.Align {
		t.Errorf("%+v", gpu)
	}
}

// Rows on the GPU count apart from rows in RAM, and no first use counts.
func TestUses(t *testing.T) {
	s := newFrames(facts(), cudatest.Open(t), 3, 5)
	s.Fresh = NewFresh(5)
	s.Read(1, 4) // frames 1, 2 and 3
	for _, c := range []struct {
		frames      []uint32
		first, near int
	}{{[]uint32{0, 1, 3, 4}, 2, 1}, {[]uint32{0, 1, 2, 3, 4}, 1, 2}, {[]uint32{4, 3}, 0, 0}, {nil, 0, 0}} {
		if first, near := s.Uses(c.frames); first != c.first || near != c.near {
			t.Errorf("%v: %d first uses, %d on the GPU, want %+v", c.frames, first, near, c)
		}
	}
}

// Settle waits for the gather of an assembled batch, from its Assemble until its Fill is done: the batch has the
// rows from before a write after Settle, wherever they are and however late the GPU's streams are. A batch that is
// given up is not waited for.
func TestSettle(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
		s := newFrames(facts(), d, 2, 4)
		must(t, s.open())
		defer s.close()
		write := func(v float32) {
			for frame := range int64(4) {
				must(t, s.Write(8*frame, binio.Bytes([]float32{v, float32(frame)})))
			}
			must(t, s.Flush())
		}
		must(t, s.Settle(ended))
		write(1)
		m, err := s.entries()
		must(t, err)
		defer m.Free()
		copy(m.List(), []uint32{3, 0, 1})
		m.Assemble(3)
		if err := s.Settle(ended); !errors.Is(err, context.Canceled) {
			t.Fatalf("a batch waits for its gather: %v", err)
		}
		x := make([]float32, 6)
		must(t, d.Attached(func() error {
			copies, err := d.NewStream()
			must(t, err)
			defer copies.Free()
			a, err := d.NewArena(24)
			must(t, err)
			defer a.Free()
			on, err := a.Take(24)
			must(t, err)
			span, err := m.Fill(3, copies, on)
			must(t, err, s.Settle(ended))
			write(2)
			must(t, copies.Wait(cuda.SpanOf(span).Ended()), copies.CopyOut(binio.Bytes(x), on), copies.Synchronize())
			return nil
		}))
		if want := []float32{1, 3, 1, 0, 1, 1}; !slices.Equal(x, want) {
			t.Errorf("%v, want %v", x, want)
		}
		m.Assemble(3)
		must(t, s.giveUp(ended), s.Settle(ended))
	})
}

// Bytes that were collected when a batch failed are not copied later.
func TestGiveUpForgetsBytes(t *testing.T) {
	s := newFrames(facts(), cudatest.Open(t), 2, 4)
	must(t, s.open())
	defer s.close()
	var puts int
	s.Put = func(int64, []byte) error { puts++; return nil }
	must(t, s.Write(0, make([]byte, 16)), s.giveUp(t.Context()), s.Flush())
	if puts != 0 {
		t.Errorf("%d copies", puts)
	}
	if b := s.Bytes(8, 8); b != nil {
		t.Errorf("frame 1 is on the GPU: %v", b)
	}
	if b := s.Bytes(24, 8); &b[0] != &s.RAM[8] || len(b) != 8 {
		t.Errorf("frame 3 is in RAM from byte 8 on: %v", b)
	}
}
