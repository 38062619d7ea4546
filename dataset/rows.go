package dataset

import (
	"context"
	"errors"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/progress"
)

// checkpointEvery is how many bytes of features an interrupted run loses at most.
const checkpointEvery = 256 << 20

// rowBlock is the unit in which feature rows are made and written.
type rowBlock struct {
	values []float32 // rows × dim
	out    []byte    // the same as the dataset's dtype
}

// BlockRows returns the number of feature rows of a block of WriteFeatures, about 1 MiB as float32,
// and the block's memory in bytes.
func BlockRows(nodes int64, dim int, t dtype.Type) (rows int64, bytes int64) {
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

func (b *rowBlock) encode(n int, t dtype.Type) []byte {
	if t == dtype.Float32 {
		return binio.Bytes(b.values[:n])
	}
	out := b.out[:n*t.Size()]
	dtype.Convert(out, t, binio.Bytes(b.values[:n]), dtype.Float32)
	return out
}

// WriteFeatures writes the feature table, after the rows that an interrupted run left durable. It
// calls fill for consecutive blocks, to set values to the rows [lo, hi), row-major: of nodes with rows of their own.
// slots is the
// number of blocks in memory; with at most two slots calls of fill follow each other in order, with
// more they are concurrent.
func (w *Writer) WriteFeatures(ctx context.Context, rep progress.Reporter, slots int, fill func(ctx context.Context, lo, hi int64, values []float32) error) (err error) {
	f := &w.state.Facts
	t, err := w.resumeTable(ctx, rep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Discard()) }()
	step, _ := BlockRows(f.FeatureRows(), f.Dim, f.DType)
	blocks := make([]*rowBlock, slots)
	for i := range blocks {
		blocks[i] = newRowBlock(step, f.Dim, f.DType)
	}
	start := w.state.Rows
	bounds := func(i int) (lo, hi int64) {
		lo = start + int64(i)*step
		return lo, min(lo+step, f.FeatureRows())
	}
	task := rep.Task("write features", f.FeatureRows()*int64(f.RowBytes()), progress.Bytes)
	defer task.Done()
	task.Add(start * int64(f.RowBytes()))
	checkpoint := int64(0)
	err = errgroup.Ordered(ctx, int((f.FeatureRows()-start+step-1)/step), blocks,
		func(ctx context.Context, b *rowBlock, i int) error {
			lo, hi := bounds(i)
			values, own := b.values[:(hi-lo)*int64(f.Dim)], max(lo, min(hi, f.featuredNodes()))
			clear(values[(own-lo)*int64(f.Dim):])
			if own == lo {
				return nil
			}
			return fill(ctx, lo, own, values[:(own-lo)*int64(f.Dim)])
		},
		func(b *rowBlock, i int) error {
			lo, hi := bounds(i)
			out := b.encode(int(hi-lo)*f.Dim, f.DType)
			if _, err := t.Write(out); err != nil {
				return err
			}
			task.Add(int64(len(out)))
			if checkpoint += int64(len(out)); checkpoint < w.checkpoint || hi == f.FeatureRows() {
				return nil
			}
			checkpoint = 0
			return t.checkpoint(hi)
		})
	if err != nil {
		return err
	}
	if err := t.Finish(); err != nil {
		return err
	}
	return w.update((*journal).forgetRows)
}
