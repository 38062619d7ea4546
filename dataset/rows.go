package dataset

import (
	"context"
	"errors"
	"fmt"

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

// A RowFiller sets values to the rows [lo, hi), row-major.
type RowFiller func(ctx context.Context, lo, hi int64, values []float32) error

// WriteFeatures writes the feature table, after the rows that an interrupted run left durable. It
// calls source for consecutive blocks of the nodes with rows of their own, but for rows that filling makes, if it is
// not nil. slots is the number of blocks in memory; with at most two slots calls of source follow each other in order,
// with more they are concurrent.
func (w *Writer) WriteFeatures(ctx context.Context, rep progress.Reporter, slots int, source RowFiller, filling *Filling) (err error) {
	f := &w.state.Facts
	t, err := w.startFeatures(ctx, rep, slots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Discard()) }()
	defer t.task.Done()
	if err := t.write(ctx, f.featuredNodes()-filling.nodes(), source); err != nil {
		return err
	}
	if filling != nil {
		if err := filling.run(ctx, t); err != nil {
			return err
		}
	}
	zeros := func(_ context.Context, _, _ int64, values []float32) error {
		clear(values)
		return nil
	}
	if err := t.write(ctx, f.FeatureRows(), zeros); err != nil {
		return err
	}
	if err := t.Finish(); err != nil {
		return err
	}
	return w.update((*journal).forgetRows)
}

// featureTable is the feature table being written, rows by rows.
type featureTable struct {
	table
	w       *Writer
	rep     progress.Reporter
	task    progress.Task
	blocks  []*rowBlock
	step    int64 // rows of a block
	rows    int64 // written
	unsaved int64 // bytes since the last checkpoint
}

func (w *Writer) startFeatures(ctx context.Context, rep progress.Reporter, slots int) (*featureTable, error) {
	f := &w.state.Facts
	t, err := w.resumeTable(ctx, rep)
	if err != nil {
		return nil, err
	}
	ft := &featureTable{table: t, w: w, rep: rep, rows: w.state.Rows, blocks: make([]*rowBlock, slots)}
	ft.step, _ = BlockRows(f.FeatureRows(), f.Dim, f.DType)
	for i := range ft.blocks {
		ft.blocks[i] = newRowBlock(ft.step, f.Dim, f.DType)
	}
	ft.task = rep.Task("write features", f.FeatureRows()*int64(f.RowBytes()), progress.Bytes)
	ft.task.Add(ft.rows * int64(f.RowBytes()))
	return ft, nil
}

// write writes the rows up to end, unless they are written.
func (t *featureTable) write(ctx context.Context, end int64, fill RowFiller) error {
	f, start := &t.w.state.Facts, t.rows
	if start >= end {
		return nil
	}
	bounds := func(i int) (lo, hi int64) {
		lo = start + int64(i)*t.step
		return lo, min(lo+t.step, end)
	}
	return errgroup.Ordered(ctx, int((end-start+t.step-1)/t.step), t.blocks,
		func(ctx context.Context, b *rowBlock, i int) error {
			lo, hi := bounds(i)
			return fill(ctx, lo, hi, b.values[:(hi-lo)*int64(f.Dim)])
		},
		func(b *rowBlock, i int) error {
			lo, hi := bounds(i)
			out := b.encode(int(hi-lo)*f.Dim, f.DType)
			if _, err := t.Write(out); err != nil {
				return err
			}
			t.rows = hi
			t.task.Add(int64(len(out)))
			if t.unsaved += int64(len(out)); t.unsaved < t.w.checkpoint || hi == f.FeatureRows() {
				return nil
			}
			return t.save()
		})
}

// save makes the rows durable, all or the rows of whole frames.
func (t *featureTable) save() error {
	t.unsaved = 0
	return t.table.checkpoint(t.rows)
}

// written makes the rows durable and opens them for reading, while further rows are written.
func (t *featureTable) written() (*FeatureReader, error) {
	if err := t.save(); err != nil {
		return nil, err
	}
	name := t.w.dir.File(t.w.state.Facts.FeaturesFile())
	f, err := t.w.dir.FS().Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	p, tail := t.pieces(name)
	return &FeatureReader{f: f, pieces: p, tail: tail, rowBytes: int64(t.w.state.Facts.RowBytes()), rows: t.rows}, nil
}
