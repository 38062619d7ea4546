package importer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/extsort"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// transform checks feature rows and applies the options to them. first is the node of the first row.
func (im *importing) transform(values []float32, first int64) error {
	dim := im.shape.Dim
	for v := first; len(values) > 0; v++ {
		row := values[:dim]
		values = values[dim:]
		if j := dataset.IndexNotFinite(binio.Bytes(row), dtype.Float32); j >= 0 {
			return fault.New(fault.ErrInput, "feature %d of node %d is %v: features must be finite", j, v, row[j])
		}
		if im.o.Binarize {
			binarize(row)
		}
		if im.o.RowNormalize && !normalize(row) {
			return fault.New(fault.ErrInput, "--row-normalize: node %d has a negative feature", v)
		}
		if j := indexBeyond(row, im.o.DType); j >= 0 {
			wider := "float32"
			if im.o.DType == dtype.Float16 {
				wider = "bfloat16 or --dtype float32"
			}
			return fault.New(fault.ErrInput, "feature %d of node %d is %g, too large for %s: give --dtype %s", j, v, row[j], im.o.DType, wider)
		}
	}
	return nil
}

// indexBeyond returns the first finite value that rounds to infinity as the given
// type, or -1.
func indexBeyond(row []float32, t dtype.Type) int {
	var least float32 // of those values
	switch t {
	case dtype.Float16:
		least = 65520
	case dtype.BFloat16:
		least = math.Float32frombits(0x7F7F8000)
	default:
		return -1
	}
	for j, x := range row {
		if x >= least || x <= -least {
			return j
		}
	}
	return -1
}

func binarize(row []float32) {
	for j, x := range row {
		row[j] = 0
		if x > 0 {
			row[j] = 1
		}
	}
}

// normalize scales the row to the sum 1. It reports false for rows with negative
// values, which have no such scale.
func normalize(row []float32) bool {
	var sum float64
	for _, x := range row {
		if x < 0 {
			return false
		}
		sum += float64(x)
	}
	if sum == 0 {
		return true
	}
	for j, x := range row {
		row[j] = float32(float64(x) / sum)
	}
	return true
}

// rowScratch is the disk space of putting the feature rows in order, in bytes, beside the features.
func (im *importing) rowScratch() int64 {
	if !im.o.relabels() {
		return 0
	}
	return extsort.RecordBytes(im.shape.Nodes, im.shape.Nodes*int64(im.shape.Dim*im.o.DType.Size()))
}

// movedRows yields the feature rows in the order of the new numbers.
type movedRows struct {
	im *importing
	s  *extsort.Records
}

// movedRows reads all rows of the source, and returns the rows with a new number from first on, in
// order of the new numbers.
func (im *importing) movedRows(ctx context.Context, first int64) (RowStream, error) {
	f := im.w.Facts()
	size := f.RowBytes()
	s, err := extsort.NewRecords(im.fs, im.w.Scratch("rows"), extsort.RecordOptions{
		Records: f.Nodes, Bytes: f.Nodes * int64(size), Memory: im.plan.rows,
	})
	if err != nil {
		return nil, err
	}
	m := &movedRows{im: im, s: s}
	if err := m.read(ctx, first); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return m, nil
}

func (m *movedRows) read(ctx context.Context, first int64) (err error) {
	im, f := m.im, m.im.w.Facts()
	rows, err := im.src.Features(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	task := im.rep.Task("read features", f.Nodes*int64(f.RowBytes()), progress.Bytes)
	defer task.Done()
	step, _ := dataset.BlockRows(f.Nodes, f.Dim, f.DType)
	block := make([]float32, step*int64(f.Dim))
	row := make([]byte, f.RowBytes())
	for lo := int64(0); lo < f.Nodes; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, f.Nodes)
		values := block[:(hi-lo)*int64(f.Dim)]
		if err := rows.Next(values); err != nil {
			return err
		}
		if err := im.transform(values, lo); err != nil {
			return fmt.Errorf("%s: %w", im.shape.Features, err)
		}
		for v := lo; v < hi; v++ {
			if to := im.to[v]; int64(to) >= first {
				dtype.Convert(row, f.DType, binio.Bytes(values[:f.Dim]), dtype.Float32)
				if err := m.s.Add(to, row); err != nil {
					return err
				}
			}
			values = values[f.Dim:]
		}
		task.Add((hi - lo) * int64(f.RowBytes()))
	}
	return m.s.Start(first)
}

// Next fills values with the following rows.
func (m *movedRows) Next(values []float32) error {
	f := m.im.w.Facts()
	for ; len(values) > 0; values = values[f.Dim:] {
		row, err := m.s.Next()
		if err != nil {
			return err
		}
		dtype.Convert(binio.Bytes(values[:f.Dim]), dtype.Float32, row, f.DType)
	}
	return nil
}

func (m *movedRows) Close() error { return m.s.Close() }
