package dataset

import (
	"context"
	"errors"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// labelRows reads the labels of multi-label nodes: an array with a row per node and a
// column per class, of ones and zeros in any type. A row of -1 or of NaN throughout
// stands for no label.
type labelRows struct {
	a       *numbers
	classes int
	left    int64 // rows
	buf     []float32
}

// multiLabel tells whether an array of labels has a column per class. One column is as
// good as a vector.
func multiLabel(a *numbers) bool { return len(a.Shape) == 2 && a.Shape[1] > 1 }

// labelClasses returns the classes of an array with a column for each.
func labelClasses(a *numbers) (int, error) {
	switch n := a.Shape[1]; {
	case n > maxTargets:
		return 0, a.fail(fault.New(fault.ErrInput, "labels of %d classes; nodes of many labels have at most %d", n, maxTargets))
	case a.Fortran:
		return 0, a.fail(fault.New(fault.ErrInput, "its rows do not lie in order (fortran_order): save it row-major"))
	default:
		return int(n), nil
	}
}

func newLabelRows(a *numbers, classes int) (*labelRows, error) {
	if len(a.Shape) != 2 || a.Shape[1] != int64(classes) {
		return nil, a.fail(fault.New(fault.ErrInput, "its shape is %s, other labels have %d columns", a.ShapeString(), classes))
	}
	rows := max(chunk/classes, 1)
	return &labelRows{a, classes, a.Shape[0], make([]float32, rows*classes)}, nil
}

// most returns how many rows next yields at most.
func (r *labelRows) most() int { return len(r.buf) / r.classes }

// next yields the next rows, as far as there are any, and their number.
func (r *labelRows) next() ([]float32, int, error) {
	n := int(min(int64(r.most()), r.left))
	r.left -= int64(n)
	values := r.buf[:n*r.classes]
	return values, n, r.a.floats(values)
}

// row gives a node the classes whose columns are one.
func (l *labelling) row(v int64, values []float32) error {
	if isNone(values) {
		return nil
	}
	l.classes[v] = 0
	bits := l.targets[v*int64(l.bytes):][:l.bytes]
	for c, x := range values {
		switch x {
		case 0:
		case 1:
			graph.AddClass(bits, c)
		default:
			return fault.New(fault.ErrInput, "node %d has %v in the column of class %d: a row holds ones and zeros, or -1 or NaN throughout for no label", v, x, c)
		}
	}
	return nil
}

// isNone tells whether all values are NaN, or all are -1.
func isNone(values []float32) bool {
	nan, minus := true, true
	for _, x := range values {
		nan, minus = nan && x != x, minus && x == -1
	}
	return nan || minus
}

// readLabelShape looks whether the labels have a column per class.
func (s *graphBolt) readLabelShape() error {
	for _, sets := range s.sets {
		for _, set := range sets {
			if set.labels.Format != "numpy" {
				continue
			}
			err := s.openNumbers(set.labels, func(a *numbers) (err error) {
				if multiLabel(a) && !s.sh.multi {
					s.sh.multi = true
					s.sh.classes, err = labelClasses(a)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	if s.sh.multi && s.limit > 0 && s.limit != s.sh.classes {
		return fault.New(fault.ErrInput, "%s: num_classes is %d, the labels have %d columns", s.meta, s.limit, s.sh.classes)
	}
	return nil
}

// readRows reads the seeds and the labels of one set of multi-label nodes.
func (s *graphBolt) readRows(ctx context.Context, set gbSet, split uint8, l *labelling) (err error) {
	if set.labels.Format != "numpy" {
		return fault.New(fault.ErrInput, "%s: other labels have %d columns: they all must, as numpy arrays", s.path(set.labels), s.sh.classes)
	}
	seeds, err := s.openInts(set.seeds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seeds.close()) }()
	return s.openNumbers(set.labels, func(a *numbers) error {
		rows, err := newLabelRows(a, s.sh.classes)
		if err != nil {
			return err
		}
		var values []float32
		next := func() (n int, err error) {
			values, n, err = rows.next()
			return n, err
		}
		return s.walkSet(ctx, set, split, l, seeds, rows.most(), next, func(i int, v int64) error {
			return l.row(v, values[i*rows.classes:(i+1)*rows.classes])
		})
	})
}

// readLabelShape looks whether the labels have a column per class.
func (s *gnnBenchmark) readLabelShape(z *npz) error {
	return s.header(z, "labels", func(a *numbers) (err error) {
		if !multiLabel(a) {
			return nil
		}
		if a.Shape[0] != s.sh.nodes {
			return a.fail(fault.New(fault.ErrInput, "labels of %d nodes, the graph has %d", a.Shape[0], s.sh.nodes))
		}
		s.sh.multi = true
		s.sh.classes, err = labelClasses(a)
		return err
	})
}

// readRows reads the labels of multi-label nodes.
func (s *gnnBenchmark) readRows(ctx context.Context, z *npz, l *labelling) error {
	return s.header(z, "labels", func(a *numbers) error {
		rows, err := newLabelRows(a, s.sh.classes)
		if err != nil {
			return err
		}
		for v := int64(0); v < s.sh.nodes; {
			if err := ctx.Err(); err != nil {
				return err
			}
			values, n, err := rows.next()
			if err != nil {
				return err
			}
			for i := range n {
				if err := l.row(v, values[i*rows.classes:(i+1)*rows.classes]); err != nil {
					return a.fail(err)
				}
				v++
			}
		}
		return a.end()
	})
}
