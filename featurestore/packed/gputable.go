package packed

import (
	"context"
	"errors"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuTable are rows of hot.bin for a GPU.
type gpuTable struct {
	gpurows.Table
	ram ramRows
}

// open takes memory for the rows, on the GPU from an arena. The calling goroutine is
// attached.
func (t *gpuTable) open(a *cuda.Arena) error {
	if err := t.ram.open(); err != nil {
		return err
	}
	return t.Open(a, t.ram.mem, t.Bytes()-t.ram.begin())
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
	rows := t.Bytes()
	if rows == 0 {
		return 0, nil
	}
	h, err := device.NewHost(hotDepth * hotPiece)
	if err != nil {
		return 0, err
	}
	defer h.Free()
	err = t.Device.Attached(func() error {
		staging, err := t.Device.Register(h.Bytes())
		if err != nil {
			return err
		}
		defer staging.Free()
		var free [hotDepth]*cuda.Event // when a part of it was copied
		for i := range free {
			if free[i], err = t.Device.NewEvent(); err != nil {
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
				return errors.Join(s.CopyIn(t.Rows().Slice(lo, int64(len(b))), b), free[k].Record(s))
			},
		})
		return errors.Join(err, s.Synchronize())
	})
	return n, err
}

// set puts rows, which lie in the order of a chunk, in their entries, by way of a stream. The
// calling goroutine is attached.
func (t *gpuTable) set(s *cuda.Stream, list []arrival, rows []byte) error {
	rb := t.RowBytes()
	for _, a := range list {
		row, to := rows[int64(a.row)*rb:int64(a.row+1)*rb], int64(a.entry)*rb
		if int64(a.entry) >= t.Near {
			copy(t.ram.mem.Bytes()[to-t.ram.begin():], row)
		} else if err := s.CopyIn(t.Rows().Slice(to, rb), row); err != nil {
			return err
		}
	}
	return nil
}
