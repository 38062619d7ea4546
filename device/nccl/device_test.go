//go:build linux && (amd64 || arm64)

package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
)

// member is a rank of a communicator on a real GPU.
type member struct {
	*Comm
	device *cuda.Device
	stream *cuda.Stream
	x      cuda.Buffer
	arena  *cuda.Arena
}

// onGPUs runs a function on as many GPUs as there are, at once, each with n floats. It skips
// where there are fewer than two, or no library.
func onGPUs(t testing.TB, n int, do func(ctx context.Context, m *member) error) {
	t.Helper()
	infos, err := cuda.Devices()
	if err != nil || len(infos) < 2 {
		t.Skipf("%d GPUs: %v", len(infos), err)
	}
	l, err := Open()
	if err != nil {
		t.Skip(err)
	}
	id, err := l.NewID()
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(t.Context())
	for rank := range infos {
		g.Go(func() error {
			d, err := cuda.Open(rank, cuda.Options{})
			if err != nil {
				return err
			}
			defer d.Close()
			return d.Attached(func() (err error) {
				m := &member{device: d}
				if m.stream, err = d.NewStream(); err != nil {
					return err
				}
				defer m.stream.Free()
				if m.arena, err = d.NewArena(int64(4*n) + 4096); err != nil {
					return err
				}
				defer m.arena.Free()
				if m.x, err = m.arena.Take(int64(4 * n)); err != nil {
					return err
				}
				if m.Comm, err = l.Join(ctx, id, len(infos), rank, Options{Patience: time.Minute}); err != nil {
					return err
				}
				return errors.Join(do(ctx, m), m.stream.Synchronize(), m.Close(ctx))
			})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Sums and broadcasts of small whole numbers are exact, and the same on every GPU.
func TestOnGPUs(t *testing.T) {
	const n = 100_003
	onGPUs(t, n, func(ctx context.Context, m *member) error {
		value := func(rank, i int) float32 { return float32((rank+1)*i%1009) - 500 }
		mine := make([]float32, n)
		for i := range mine {
			mine[i] = value(m.Rank(), i)
		}
		for turn := range 3 {
			if err := errors.Join(m.stream.CopyIn(m.x, binio.Bytes(mine)), m.AllReduce(ctx, m.stream, m.x)); err != nil {
				return err
			}
			got := make([]float32, n)
			if err := errors.Join(m.stream.CopyOut(binio.Bytes(got), m.x), m.stream.Synchronize()); err != nil {
				return err
			}
			for i := range got {
				var want float32
				for rank := range m.World() {
					want += value(rank, i)
				}
				if got[i] != want {
					return fmt.Errorf("turn %d, rank %d: element %d is %v, want %v", turn, m.Rank(), i, got[i], want)
				}
			}
		}
		root := m.World() - 1
		if err := errors.Join(m.stream.CopyIn(m.x, binio.Bytes(mine)), m.Broadcast(ctx, m.stream, m.x, root)); err != nil {
			return err
		}
		got := make([]byte, 4*n)
		if err := errors.Join(m.stream.CopyOut(got, m.x), m.stream.Synchronize()); err != nil {
			return err
		}
		for i := range n {
			if v := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])); v != value(root, i) {
				return fmt.Errorf("rank %d: element %d came as %v", m.Rank(), i, v)
			}
		}
		return nil
	})
}

// BenchmarkAllReduce is the GPU's time for a sum of gradients of so many bytes: the median of
// rank 0's, one after the other, all ranks ready.
func BenchmarkAllReduce(b *testing.B) {
	for _, bytes := range []int{64 << 10, 1 << 20, 4 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%d KiB", bytes>>10), func(b *testing.B) {
			onGPUs(b, bytes/4, func(ctx context.Context, m *member) error {
				span, err := m.device.NewSpan()
				if err != nil {
					return err
				}
				defer span.Free()
				var took []time.Duration
				for range max(b.N, 50) {
					// A first sum brings the ranks together; the second is measured.
					if err := errors.Join(m.AllReduce(ctx, m.stream, m.x), span.Begin(m.stream), m.AllReduce(ctx, m.stream, m.x), span.End(m.stream), m.stream.Synchronize()); err != nil {
						return err
					}
					_, d, err := span.Since(span.Ended())
					if err != nil {
						return err
					}
					took = append(took, d)
				}
				if m.Rank() == 0 {
					slices.Sort(took)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs/sum")
				}
				return nil
			})
		})
	}
}
