package matrix

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
)

// chunk is about how many elements are looked at at a time.
const chunk = 1 << 14

// Rows yields a matrix as feature rows. It closes the matrix.
type Rows struct {
	m    Matrix
	left int64 // rows
}

// NewRows returns the rows of a matrix from the row first on; rows is their number in all. It takes the
// matrix over, and closes it if it fails.
func NewRows(m Matrix, rows, first int64) (*Rows, error) {
	if err := m.Skip(first); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &Rows{m, rows - first}, nil
}

// Next fills values with the following whole rows.
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

// EachInt calls do for all rows of integers. The row is valid during the call.
func EachInt(ctx context.Context, m Matrix, do func(i int64, row []int64) error) error {
	return each(ctx, m, m.Ints, do)
}

// EachDouble calls do for all rows. The row is valid during the call.
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

// Stream reads the integers of a matrix one row after the other.
type Stream struct{ Matrix }

// Next fills dst with integers as far as there are any.
func (s Stream) Next(dst []int64) (int, error) {
	return s.Ints(dst[:len(dst)/s.Columns()*s.Columns()])
}
