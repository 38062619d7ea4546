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
	ram   ramRows
	first *gpuTable // of the process' first device, which has the rows in RAM; nil: this is it
}

// open takes memory for the rows, on the GPU from an arena. The calling goroutine is
// attached.
func (t *gpuTable) open(a *cuda.Arena) error {
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
	stream *cuda.Stream
	free   [hotDepth]*cuda.Event // when a piece was copied
}

func (f *filling) begin() error {
	return f.table.Device.Attached(func() (err error) {
		for k := range f.free {
			if f.free[k], err = f.table.Device.NewEvent(); err != nil {
				return err
			}
		}
		return nil
	})
}

// end waits for what is copied, and gives the events back.
func (f *filling) end() error {
	return f.table.Device.Attached(func() error {
		err := f.stream.Synchronize()
		for _, e := range f.free {
			if e != nil {
				e.Free()
			}
		}
		return err
	})
}

// wait returns when the k-th piece under way was copied.
func (f *filling) wait(k int) error { return f.table.Device.Attached(f.free[k].Synchronize) }

// copy copies what the device has of the bytes at lo, which are the k-th piece under way; of a
// table that is divided by way of spare, and returns how much of that it has used.
func (f *filling) copy(k int, lo int64, b, spare []byte) (used int, err error) {
	to := lo
	if f.table.Devices > 1 {
		used, to = f.table.Stripe(spare, b, lo)
		b = spare[:used]
	}
	return used, f.table.Device.Attached(func() error {
		return errors.Join(f.stream.CopyIn(f.table.Rows().Slice(to, int64(len(b))), b), f.free[k].Record(f.stream))
	})
}

// fillNear fills the rows on all devices from hot.bin, checked, and returns the bytes read.
func fillNear(ctx context.Context, fills []*filling, rep progress.Reporter) (n int64, err error) {
	t := fills[0].table
	rows, staging := t.Near*t.RowBytes(), int64(hotDepth*hotPiece)
	if rows == 0 {
		return 0, nil
	}
	if t.Devices > 1 {
		staging *= 2 // each piece again, by device
	}
	h, err := device.NewHost(int(staging))
	if err != nil {
		return 0, err
	}
	defer h.Free()
	var pinned *cuda.Pinned
	if err := t.Device.Attached(func() error { pinned, err = t.Device.Register(h.Bytes()); return err }); err != nil {
		return 0, err
	}
	defer func() { // copies have ended by then
		err = errors.Join(err, t.Device.Attached(func() error { pinned.Free(); return nil }))
	}()
	for _, f := range fills {
		defer func() { err = errors.Join(err, f.end()) }()
		if err := f.begin(); err != nil {
			return 0, err
		}
	}
	src := t.ram.src
	piece := func(k int) []byte { return h.Bytes()[k*hotPiece : (k+1)*hotPiece] }
	return src.readHot(ctx, rep, "fill the GPU cache", hotRange{
		end: min(binio.AlignUp(rows, binio.Page), src.hot.sums.Size),
		room: func(k int, _ int64) ([]byte, error) {
			var errs []error
			for _, f := range fills {
				errs = append(errs, f.wait(k))
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

// gpuCache is the sink of a GPU whose table the batches of policy min change. Assembling a
// batch only notes what happens to the table; Fill submits it.
type gpuCache struct {
	*gpu
	// at is, by the entry of the plans, the entry of the table: rows stay where they are when
	// training goes around the circle of sample epochs. spare has room for the next.
	at, spare []uint32
}

func (g *gpu) cache() cache { return &gpuCache{gpu: g} }

func (c *gpuCache) bytes() int64 { return 8 * c.table.ram.end }

// fill puts the row of every entry where it belongs.
func (c *gpuCache) fill(ctx context.Context, rep progress.Reporter) (int64, error) {
	c.at, c.spare = binio.Grow(c.at, int(c.table.ram.end)), binio.Grow(c.spare, int(c.table.ram.end))
	for e := range c.at {
		c.at[e] = uint32(e)
	}
	return c.gpu.fill(ctx, rep)
}

func (c *gpuCache) lie(entries []uint32) {
	for i, e := range entries {
		entries[i] = c.at[e]
	}
}

func (c *gpuCache) admit(b *batch, from int, _ []byte, entries []uint32) {
	m := b.matrix.(*gpuMatrix)
	copy(m.ids.Uint32s()[b.RAMRows:], entries)
	m.admitted = stretch{to: from, from: from, rows: len(entries)} // chunks are first in the matrix, and sent first
}

func (c *gpuCache) set(list []arrival, rows []byte) error {
	return c.device.Attached(func() error { return c.table.set(c.turns.Stream(), list, rows) })
}

func (c *gpuCache) moveHome(home []uint32) {
	for e, to := range home {
		c.spare[to] = c.at[e]
	}
	c.at, c.spare = c.spare, c.at
}
