package graphbolt

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/text"
)

// readLabelShape looks whether the labels have a column per class.
func (s *source) readLabelShape() error {
	var files []document
	if s.label != nil {
		files = append(files, *s.label)
	} else {
		for _, sets := range s.sets {
			for _, set := range sets {
				files = append(files, set.labels)
			}
		}
	}
	for _, f := range files {
		if f.Format == "csv" {
			continue
		}
		err := s.openNumbers(f, func(a *npz.Array) (err error) {
			if s.label != nil && (len(a.Shape) < 1 || a.Shape[0] != s.sh.Nodes) {
				return a.Fail(bad("labels have the shape %s, but the graph has %d nodes", a.ShapeString(), s.sh.Nodes))
			}
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
	if s.sh.Multi && s.limit > 0 && s.limit != s.sh.Classes {
		return bad("%s: num_classes is %d, but the labels have %d columns", s.meta, s.limit, s.sh.Classes)
	}
	return nil
}

// Labels reads the seeds and labels of all sets, side by side, or the labels of all nodes first.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	if s.label != nil {
		if err := s.readAll(ctx, l); err != nil {
			return err
		}
	}
	for i, sets := range s.sets {
		for _, set := range sets {
			read := s.readSet
			switch {
			case s.label != nil:
				read = s.readSeeds
			case s.sh.Multi:
				read = s.readRows
			}
			if err := read(ctx, set, uint8(i+1), l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *source) readAll(ctx context.Context, l *importer.Labelling) error {
	return s.openNumbers(*s.label, func(a *npz.Array) error {
		if !s.sh.Multi {
			if len(a.Shape) == 2 {
				a.Shape = a.Shape[:1]
			}
			return npz.EachLabel(ctx, a, s.sh.Nodes, l)
		}
		return npz.EachLabelRow(ctx, a, s.sh.Classes, l.Row)
	})
}

func (s *source) readSeeds(ctx context.Context, set piece, split uint8, l *importer.Labelling) (err error) {
	seeds, err := s.openInts(set.seeds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seeds.Close()) }()
	ids := make([]int64, importer.Chunk)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := seeds.Next(ids)
		if err != nil || n == 0 {
			return err
		}
		for _, v := range ids[:n] {
			if err := l.Assign(v, split); err != nil {
				return fmt.Errorf("%s: %w", s.path(set.seeds), err)
			}
		}
	}
}

// readSet reads the seeds and the labels of one set of nodes with one class.
func (s *source) readSet(ctx context.Context, set piece, split uint8, l *importer.Labelling) (err error) {
	seeds, err := s.openInts(set.seeds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seeds.Close()) }()
	labels, err := s.openLabels(set.labels)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, labels.Close()) }()
	classes := make([]float64, importer.Chunk)
	next := func() (int, error) { return labels.Doubles(classes) }
	return s.walkSet(ctx, set, split, l, seeds, importer.Chunk, next, func(i int, v int64) error { return l.Number(v, classes[i]) })
}

// numbers is a stream of numbers, of which NaN stands for none.
type numbers interface {
	Doubles(dst []float64) (int, error)
	Close() error
}

func (s *source) openLabels(f document) (numbers, error) {
	if f.Format == "csv" {
		return text.Open(s.fs, s.path(f), 1)
	}
	a, err := s.openVector(f, func(a *npz.Array) error { return a.LabelVector(-1) })
	if err != nil {
		return nil, err
	}
	return matrix.FromArray(a)
}

// readRows reads the seeds and the labels of one set of multi-label nodes.
func (s *source) readRows(ctx context.Context, set piece, split uint8, l *importer.Labelling) (err error) {
	if set.labels.Format == "csv" {
		return bad("%s: other labels are arrays with %d columns; this file must be one too", s.path(set.labels), s.sh.Classes)
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

// walkSet assigns the seeds of a set to a split, at most most at a time. For each piece, next reads
// the labels of the same number of seeds, and give gives the label with index i to node v.
func (s *source) walkSet(ctx context.Context, set piece, split uint8, l *importer.Labelling, seeds stream.Integers, most int, next func() (int, error), give func(i int, v int64) error) error {
	ids := make([]int64, most)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := seeds.Next(ids)
		if err != nil {
			return err
		}
		m, err := next()
		if err != nil {
			return err
		}
		if m != n {
			return bad("%s and %s have different lengths", s.path(set.seeds), s.path(set.labels))
		}
		if n == 0 {
			return nil
		}
		for i, v := range ids[:n] {
			if err := l.Assign(v, split); err != nil {
				return fmt.Errorf("%s: %w", s.path(set.seeds), err)
			}
			if err := give(i, v); err != nil {
				return fmt.Errorf("%s: %w", s.path(set.labels), err)
			}
		}
	}
}
