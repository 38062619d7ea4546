package npz

import (
	"context"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
)

// Labels receives the labels of nodes: integers, or numbers of which NaN stands for no label.
type Labels interface {
	Label(v, class int64) error
	Number(v int64, x float64) error // NaN stands for no label
}

// LabelVector returns an error unless the array has one dimension of the given length, or of any
// length if that is negative, and elements that are integers or floats.
func (n *Array) LabelVector(length int64) error {
	if n.Kind == 'f' {
		return n.oneDimension(length)
	}
	return n.Vector(length)
}

// EachLabel reads a vector of integers or floats, with an element for each node, and gives the labels
// to l. length is the length of the vector, or negative for any.
func EachLabel(ctx context.Context, a *Array, length int64, l Labels) error {
	if err := a.LabelVector(length); err != nil {
		return err
	}
	if a.Integer() {
		return a.Each(ctx, l.Label)
	}
	var buf [chunk]float64
	for v, count := int64(0), a.Count(); v < count; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(chunk, count-v)]
		if err := a.Doubles(part); err != nil {
			return err
		}
		for _, x := range part {
			if err := l.Number(v, x); err != nil {
				return a.Fail(err)
			}
			v++
		}
	}
	return a.End()
}

// LabelRows reads the labels of multi-label nodes from an array with a row for each node and a column
// for each class, of ones and zeros in any type. A row of only -1 or only NaN stands for no label.
type LabelRows struct {
	a       *Array
	classes int
	left    int64 // rows
	buf     []float32
}

// MultiLabel reports whether an array of labels has several columns, one for each class.
func MultiLabel(a *Array) bool { return len(a.Shape) == 2 && a.Shape[1] > 1 }

// LabelClasses returns the number of classes, the columns of a, an array for which MultiLabel is true.
// More than dataset.MaxTargets classes and column-major arrays are errors.
func LabelClasses(a *Array) (int, error) {
	switch n := a.Shape[1]; {
	case n > dataset.MaxTargets:
		return 0, a.Fail(fault.New(fault.ErrInput, "the labels have %d classes; multi-label nodes have at most %d", n, dataset.MaxTargets))
	case a.Fortran:
		return 0, a.Fail(fault.New(fault.ErrInput, "its elements are in column-major order (fortran_order): save it row-major"))
	default:
		return int(n), nil
	}
}

// NewLabelRows returns a reader of the rows of a, which must have a column for each class. The caller
// keeps a and closes it.
func NewLabelRows(a *Array, classes int) (*LabelRows, error) {
	if len(a.Shape) != 2 || a.Shape[1] != int64(classes) {
		return nil, a.Fail(fault.New(fault.ErrInput, "its shape is %s, but other labels have %d columns", a.ShapeString(), classes))
	}
	rows := max(chunk/classes, 1)
	return &LabelRows{a, classes, a.Shape[0], make([]float32, rows*classes)}, nil
}

// Most returns the largest number of rows that Next returns.
func (r *LabelRows) Most() int { return len(r.buf) / r.classes }

// Next returns the next rows, row-major, and their number, which is 0 at the end. The slice is valid
// until the next call.
func (r *LabelRows) Next() ([]float32, int, error) {
	n := int(min(int64(r.Most()), r.left))
	r.left -= int64(n)
	values := r.buf[:n*r.classes]
	return values, n, r.a.Floats(values)
}

// EachLabelRow reads an array with a column for each class, and calls do for the row of each node. The
// row is valid during the call.
func EachLabelRow(ctx context.Context, a *Array, classes int, do func(v int64, values []float32) error) error {
	rows, err := NewLabelRows(a, classes)
	if err != nil {
		return err
	}
	for v := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		values, n, err := rows.Next()
		if err != nil {
			return err
		}
		if n == 0 {
			return a.End()
		}
		for i := range n {
			if err := do(v, values[i*classes:(i+1)*classes]); err != nil {
				return a.Fail(err)
			}
			v++
		}
	}
}

// mostWeights bounds the elements of an array that OnlyOnes looks at.
const mostWeights = 1 << 24

// Weighted reports whether the archive has an array key with a value other than one: the values of a
// sparse adjacency matrix are then weights of edges. An array that is too long to look at whole, or
// cannot be read, counts as weights.
func (z *Archive) Weighted(key string) bool {
	if !z.Has(key) {
		return false
	}
	ones := false
	err := z.Header(key, func(a *Array) error {
		ones = a.OnlyOnes()
		return nil
	})
	return !ones || err != nil
}

// OnlyOnes reads the array and reports whether all elements are 1, or true. For an array that is too
// long to look at whole, or cannot be read, it returns false.
func (n *Array) OnlyOnes() bool {
	left := n.Count()
	if left > mostWeights {
		return false
	}
	for values := make([]float64, chunk); left > 0; left -= int64(len(values)) {
		values = values[:min(left, int64(len(values)))]
		if n.Doubles(values) != nil {
			return false
		}
		for _, x := range values {
			if x != 1 {
				return false
			}
		}
	}
	return true
}
