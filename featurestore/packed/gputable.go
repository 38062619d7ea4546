package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuTable are rows of hot.bin for a GPU: the first ones in its memory, the others in RAM,
// where it reads them over the bus.
type gpuTable struct {
	ram    ramRows
	near   int64 // rows in the GPU's memory
	device *cuda.Device
	rows   cuda.Buffer
	pinned *cuda.Pinned // the rows in RAM
	far    cuda.Buffer  // the same as the device sees them
}

// bytes returns the GPU's memory that the rows take.
func (t *gpuTable) bytes() int64 { return t.near * t.rowBytes() }

func (t *gpuTable) rowBytes() int64 { return int64(t.ram.src.facts.RowBytes) }

// open takes memory for the rows, on the GPU from an arena. The calling goroutine is
// attached.
func (t *gpuTable) open(a *cuda.Arena) (err error) {
	if err = t.ram.open(); err != nil {
		return err
	}
	t.ram.mem.Prefer(t.device.Node)
	if t.rows, err = a.Take(t.bytes()); err != nil {
		return err
	}
	if t.pinned, err = t.device.Register(t.ram.mem.Bytes()); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	pages, err := t.pinned.Buffer()
	if err != nil || pages.Bytes() == 0 {
		return err
	}
	first := t.bytes() - t.ram.begin()
	t.far = pages.Slice(first, pages.Bytes()-first)
	return nil
}

// fill fills the table from hot.bin, checked, by way of a stream, and returns the bytes read.
func (t *gpuTable) fill(ctx context.Context, s *cuda.Stream, rep progress.Reporter) (int64, error) {
	n, err := t.fillNear(ctx, s, rep)
	if err != nil {
		return n, err
	}
	ram, err := t.ram.fill(ctx, rep)
	return n + ram, err
}

// fillNear fills the rows on the GPU.
func (t *gpuTable) fillNear(ctx context.Context, s *cuda.Stream, rep progress.Reporter) (n int64, err error) {
	rows := t.rows.Bytes()
	if rows == 0 {
		return 0, nil
	}
	h, err := device.NewHost(hotDepth * hotPiece)
	if err != nil {
		return 0, err
	}
	defer h.Free()
	err = t.device.Attached(func() error {
		staging, err := t.device.Register(h.Bytes())
		if err != nil {
			return err
		}
		defer staging.Free()
		var free [hotDepth]*cuda.Event // when a part of it was copied
		for i := range free {
			if free[i], err = t.device.NewEvent(); err != nil {
				return err
			}
			defer free[i].Free()
		}
		src := t.ram.src
		n, err = src.readHot(ctx, rep, "fill the GPU cache", hotRange{
			end: min(binio.AlignUp(rows, binio.Page), src.hot.sums.Size),
			room: func(k int, _ int64) ([]byte, error) {
				return h.Bytes()[k*hotPiece : (k+1)*hotPiece], free[k].Synchronize()
			},
			take: func(k int, lo int64, b []byte) error {
				b = b[:min(int64(len(b)), rows-lo)]
				return errors.Join(s.CopyIn(t.rows.Slice(lo, int64(len(b))), b), free[k].Record(s))
			},
		})
		return errors.Join(err, s.Synchronize())
	})
	return n, err
}
