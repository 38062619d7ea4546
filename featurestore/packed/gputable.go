package packed

import (
	"context"
	"errors"

	"diskgnn/device"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuTable has rows of hot.bin for a GPU.
type gpuTable struct {
	gpurows.Table
	ram   ramRows
	first *gpuTable // table of the process' first device, with the rows in RAM; nil: this is the first
}

// open allocates memory for the rows: on the GPU out of the arena, and in RAM. The calling goroutine must be
// attached to the device.
func (t *gpuTable) open(a device.Memory) error {
	skip := t.Near*t.RowBytes() - t.ram.begin()
	if t.first != nil {
		return t.OpenBeside(a, &t.first.Table, skip)
	}
	if err := t.ram.open(); err != nil {
		return err
	}
	return t.Open(a, t.ram.mem, skip)
}

// filling is a device's table while the rows on it are filled.
type filling struct {
	table  *gpuTable
	stream device.Stream
	copied *gpurows.Marks // by piece in flight: after its copy
}

func (f *filling) begin() (err error) {
	f.copied, err = gpurows.NewMarks(f.table.Device, hotDepth)
	return err
}

// end waits for the copies, and frees the marks.
func (f *filling) end() error {
	err := f.table.Device.Attached(f.stream.Synchronize)
	f.copied.Free()
	return err
}

// copy submits the copy of the device's part of b, the k-th piece in flight, which begins at byte lo of
// hot.bin. For a divided table it collects the part in spare first, and returns the bytes of spare used.
func (f *filling) copy(k int, lo int64, b, spare []byte) (used int, err error) {
	to := lo
	if f.table.Devices > 1 {
		used, to = f.table.Stripe(spare, b, lo)
		b = spare[:used]
	}
	return used, f.table.Device.Attached(func() error {
		return errors.Join(f.stream.CopyIn(f.table.Rows().Slice(to, int64(len(b))), b), f.copied.Set(k, f.stream))
	})
}

// fillNear reads the rows on all devices from hot.bin, checks them, and returns the bytes read.
func fillNear(ctx context.Context, fills []*filling, rep progress.Reporter) (n int64, err error) {
	t := fills[0].table
	rows, staging := t.Near*t.RowBytes(), int64(hotDepth*hotPiece)
	if rows == 0 {
		return 0, nil
	}
	if t.Devices > 1 {
		staging *= 2 // for the parts of the devices
	}
	h, err := device.NewHost(int(staging))
	if err != nil {
		return 0, err
	}
	defer h.Free()
	pins, err := gpurows.Pin(t.Device, h)
	if err != nil {
		return 0, err
	}
	defer pins.Free() // after the end of all copies
	for _, f := range fills {
		defer func() { err = errors.Join(err, f.end()) }()
		if err := f.begin(); err != nil {
			return 0, err
		}
	}
	src := t.ram.src
	piece := func(k int) []byte { return h.Bytes()[k*hotPiece : (k+1)*hotPiece] }
	return src.hot.read(ctx, src.stack, rep, "fill the GPU cache", fileRange{
		end: min(binio.AlignUp(rows, binio.Page), src.hot.sums.Size),
		room: func(k int, _ int64) ([]byte, error) {
			var errs []error
			for _, f := range fills {
				errs = append(errs, f.copied.Wait(k))
			}
			return piece(k), errors.Join(errs...)
		},
		take: func(k int, lo int64, b []byte) error {
			b = b[:min(int64(len(b)), rows-lo)]
			var spare []byte
			if t.Devices > 1 {
				spare = piece(hotDepth + k)
			}
			for _, f := range fills {
				used, err := f.copy(k, lo, b, spare)
				if err != nil {
					return err
				}
				spare = spare[used:]
			}
			return nil
		},
	})
}

// set copies rows, in the order of a chunk, to their entries, on a stream, and waits for the copies. The
// calling goroutine must be attached to the device.
func (t *gpuTable) set(s device.Stream, list []arrival, rows []byte) error {
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
