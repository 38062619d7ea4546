package graphbolt

import (
	"context"
	"errors"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// readLabelShape looks whether the labels have a column per class.
func (s *source) readLabelShape() error {
	for _, sets := range s.sets {
		for _, set := range sets {
			if set.labels.Format != "numpy" {
				continue
			}
			err := s.openNumbers(set.labels, func(a *npz.Array) (err error) {
				if npz.MultiLabel(a) && !s.sh.Multi {
					s.sh.Multi = true
					s.sh.Classes, err = npz.LabelClasses(a)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	if s.sh.Multi && s.limit > 0 && s.limit != s.sh.Classes {
		return fault.New(fault.ErrInput, "%s: num_classes is %d, the labels have %d columns", s.meta, s.limit, s.sh.Classes)
	}
	return nil
}

// readRows reads the seeds and the labels of one set of multi-label nodes.
func (s *source) readRows(ctx context.Context, set piece, split uint8, l *importer.Labelling) (err error) {
	if set.labels.Format != "numpy" {
		return fault.New(fault.ErrInput, "%s: other labels have %d columns: they all must, as numpy arrays", s.path(set.labels), s.sh.Classes)
	}
	seeds, err := s.openInts(set.seeds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seeds.Close()) }()
	return s.openNumbers(set.labels, func(a *npz.Array) error {
		rows, err := npz.NewLabelRows(a, s.sh.Classes)
		if err != nil {
			return err
		}
		var values []float32
		next := func() (n int, err error) {
			values, n, err = rows.Next()
			return n, err
		}
		return s.walkSet(ctx, set, split, l, seeds, rows.Most(), next, func(i int, v int64) error {
			return l.Row(v, values[i*s.sh.Classes:(i+1)*s.sh.Classes])
		})
	})
}
