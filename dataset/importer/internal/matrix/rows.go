package matrix

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
)

// chunk is about how many elements are looked at at a time.
const chunk = 1 << 14

// Rows is a Matrix as an importer.RowStream.
type Rows struct {
	m    Matrix
	left int64 // rows
}

// NewRows returns the rows of m from number first on; rows is the number of all rows of m. It takes
// ownership of m, and closes it if it fails.
func NewRows(m Matrix, rows, first int64) (*Rows, error) {
	if err := m.Skip(first); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &Rows{m, rows - first}, nil
}

// Next sets values to the next whole rows. A matrix with fewer rows is an error of kind
// fault.ErrInput; after the last row it calls End.
func (r *Rows) Next(values []float32) error {
	n := 0
	for n < len(values) {
		k, err := r.m.Floats(values[n:])
		if err != nil {
			return err
		}
		if k == 0 {
			return fault.New(fault.ErrInput, "%s: truncated: it ends before the last node's row", r.m.Name())
		}
		n += k
	}
	if r.left -= int64(len(values) / r.m.Columns()); r.left == 0 {
		return r.m.End()
	}
	return nil
}

// Close closes the matrix.
func (r *Rows) Close() error { return r.m.Close() }

// EachInt reads all rows of m as integers and calls do for each, i counted from 0; then it calls End.
// The row is valid during the call.
func EachInt(ctx context.Context, m Matrix, do func(i int64, row []int64) error) error {
	return each(ctx, m, m.Ints, do)
}

// EachFloat reads all rows of m and calls do for each, i counted from 0; then it calls End. The row is
// valid during the call.
func EachFloat(ctx context.Context, m Matrix, do func(i int64, row []float32) error) error {
	return each(ctx, m, m.Floats, do)
}

// EachDouble reads all rows of m and calls do for each, i counted from 0; then it calls End. The row
// is valid during the call.
func EachDouble(ctx context.Context, m Matrix, do func(i int64, row []float64) error) error {
	return each(ctx, m, m.Doubles, do)
}

func each[T any](ctx context.Context, m Matrix, next func([]T) (int, error), do func(i int64, row []T) error) error {
	cols := m.Columns()
	buf := make([]T, max(chunk/cols, 1)*cols)
	for i := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := next(buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return m.End()
		}
		for row := buf[:n]; len(row) > 0; row = row[cols:] {
			if err := do(i, row[:cols]); err != nil {
				return err
			}
			i++
		}
	}
}

// Stream is a Matrix as a stream.Integers, row after row.
type Stream struct{ Matrix }

// Next sets dst to the integers of the next whole rows and returns their number, 0 at the end.
func (s Stream) Next(dst []int64) (int, error) {
	return s.Ints(dst[:len(dst)/s.Columns()*s.Columns()])
}
