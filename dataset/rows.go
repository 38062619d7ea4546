package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/ordered"
	"diskgnn/internal/progress"
)

// checkpointEvery is how many bytes of features an interrupted run loses at most.
const checkpointEvery = 256 << 20

// rowBlock is the unit in which feature rows are made and written.
type rowBlock struct {
	values []float32 // rows × dim
	out    []byte    // the same as the dataset's dtype
}

// blockRows returns the rows of a block, about 1 MiB, and the memory it takes.
func blockRows(nodes int64, dim int, t dtype.Type) (rows int64, bytes int64) {
	rows = min(nodes, max(1, (1<<20)/int64(dim*4)))
	bytes = rows * int64(dim) * 4
	if t != dtype.Float32 {
		bytes += rows * int64(dim*t.Size())
	}
	return rows, bytes
}

func newRowBlock(rows int64, dim int, t dtype.Type) *rowBlock {
	b := &rowBlock{values: make([]float32, rows*int64(dim))}
	if t != dtype.Float32 {
		b.out = make([]byte, rows*int64(dim*t.Size()))
	}
	return b
}

// encode returns the first n values as the dataset's dtype.
func (b *rowBlock) encode(n int, t dtype.Type) []byte {
	if t == dtype.Float32 {
		return binio.Bytes(b.values[:n])
	}
	out := b.out[:n*t.Size()]
	dtype.Convert(out, t, binio.Bytes(b.values[:n]), dtype.Float32)
	return out
}

// writeFeatures writes features.bin, going on behind the rows that an earlier
// run left durable. fill puts the rows [lo, hi) into values; it is called for
// consecutive ranges, in order if there are two slots, else concurrently.
func (w *writer) writeFeatures(ctx context.Context, rep progress.Reporter, slots int, fill func(ctx context.Context, lo, hi int64, values []float32) error) (err error) {
	f := &w.state.Facts
	a, err := w.resumeRows(ctx, rep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.discard()) }()
	step, _ := blockRows(f.Nodes, f.Dim, f.DType)
	blocks := make([]*rowBlock, slots)
	for i := range blocks {
		blocks[i] = newRowBlock(step, f.Dim, f.DType)
	}
	start := w.state.Rows
	bounds := func(i int) (lo, hi int64) {
		lo = start + int64(i)*step
		return lo, min(lo+step, f.Nodes)
	}
	task := rep.Task("write features", f.Nodes*int64(f.RowBytes()), progress.Bytes)
	defer task.Done()
	task.Add(start * int64(f.RowBytes()))
	checkpoint := int64(0)
	err = ordered.Run(ctx, int((f.Nodes-start+step-1)/step), blocks,
		func(ctx context.Context, b *rowBlock, i int) error {
			lo, hi := bounds(i)
			return fill(ctx, lo, hi, b.values[:(hi-lo)*int64(f.Dim)])
		},
		func(b *rowBlock, i int) error {
			lo, hi := bounds(i)
			out := b.encode(int(hi-lo)*f.Dim, f.DType)
			if _, err := a.Write(out); err != nil {
				return err
			}
			task.Add(int64(len(out)))
			if checkpoint += int64(len(out)); checkpoint < w.checkpoint || hi == f.Nodes {
				return nil
			}
			checkpoint = 0
			return a.checkpoint(hi)
		})
	if err != nil {
		return err
	}
	if err := a.finish(); err != nil {
		return err
	}
	w.state.Rows, w.state.RowsSum = 0, ""
	return w.save()
}

// checkpoint makes the rows below hi survive an interruption.
func (a *array) checkpoint(hi int64) error {
	if err := a.sync(); err != nil {
		return err
	}
	sums := a.sum.Sums()
	a.w.state.Rows, a.w.state.RowsSum = hi, sums.Checksum()
	return a.w.save()
}

// resumeRows opens features.bin behind its durable rows. It reads these again,
// for their checksums, and starts anew if they are not what they were.
func (w *writer) resumeRows(ctx context.Context, rep progress.Reporter) (*array, error) {
	if w.state.Rows == 0 {
		return w.create(FeaturesFile)
	}
	name := w.dir.File(FeaturesFile)
	f, err := w.dir.FS().OpenReadWrite(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	a := w.array(FeaturesFile, f)
	end := w.state.Rows * int64(w.state.Facts.RowBytes())
	ok, err := a.adopt(ctx, end, w.state.RowsSum)
	if err != nil {
		return nil, errors.Join(err, a.discard())
	}
	if ok {
		rep.Logf("resumed: %d of %d feature rows are there", w.state.Rows, w.state.Facts.Nodes)
		return a, nil
	}
	rep.Logf("%s is not what the interrupted run left: its features are written again", name)
	w.state.Rows, w.state.RowsSum = 0, ""
	if err := a.discard(); err != nil {
		return nil, err
	}
	return w.create(FeaturesFile)
}

// adopt takes over the first end bytes of the file, if they are there and have
// the checksum, and cuts off what follows.
func (a *array) adopt(ctx context.Context, end int64, checksum string) (bool, error) {
	buf := make([]byte, writeBuffer)
	for off := int64(0); off < end; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		b := buf[:min(int64(len(buf)), end-off)]
		n, err := io.ReadFull(a.f, b) // leaves the file's position behind what it read
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", a.f.Name(), err)
		}
		if _, err := a.sum.Write(b); err != nil {
			return false, err
		}
		off += int64(n)
	}
	sums := a.sum.Sums()
	if sums.Checksum() != checksum {
		return false, nil
	}
	if err := a.f.Truncate(end); err != nil {
		return false, fmt.Errorf("truncate %s: %w", a.f.Name(), err)
	}
	return true, nil
}
