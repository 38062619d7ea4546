package graphbolt

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/dataset/importer/internal/text"
)

// table returns a file as a table.
func (s *source) table(f document) tables.Table {
	return tables.Table{Name: s.path(f), Open: func() (matrix.Matrix, error) { return s.open(f) }}
}

// readLabelShape looks whether the labels have a column per class.
func (s *source) readLabelShape() error {
	if s.label != nil {
		if err := s.table(*s.label).LookAtLabels(&s.sh, s.sh.Nodes); err != nil {
			return err
		}
	} else {
		for _, sets := range s.sets {
			for _, set := range sets {
				if set.labels.Format == "csv" {
					continue
				}
				err := s.with(set.labels, func(m matrix.Matrix) error {
					if n := m.Columns(); n > 1 && !s.sh.Multi {
						s.sh.Multi, s.sh.Classes = true, n
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
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
		if err := s.table(*s.label).ReadLabels(ctx, l, s.sh.Multi, s.of); err != nil {
			return err
		}
	}
	for i, sets := range s.sets {
		for _, set := range sets {
			if err := s.readSet(ctx, set, uint8(i+1), l); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers is a stream of numbers, of which NaN stands for none.
type numbers interface {
	Doubles(dst []float64) (int, error)
	Close() error
}

// openLabels opens the labels of a set, with the given number of columns.
func (s *source) openLabels(f document, columns int) (numbers, error) {
	if f.Format == "csv" {
		if columns > 1 {
			return nil, bad("%s: other labels are arrays with %d columns; this file must be one too", s.path(f), columns)
		}
		return text.Open(s.fs, s.path(f), 1)
	}
	m, err := s.open(f)
	if err == nil && m.Columns() != columns {
		err = errors.Join(bad("%s: its rows have %d elements, but other labels have %d columns", m.Name(), m.Columns(), columns), m.Close())
	}
	return m, err
}

// readSet reads the seeds of one set, and their labels, unless all nodes have some.
func (s *source) readSet(ctx context.Context, set piece, split uint8, l *importer.Labelling) (err error) {
	seeds, err := s.openInts(set.seeds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seeds.Close()) }()
	columns := 0
	var labels numbers
	if s.label == nil {
		if columns = 1; s.sh.Multi {
			columns = s.sh.Classes
		}
		if labels, err = s.openLabels(set.labels, columns); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, labels.Close()) }()
	}
	ids := make([]int64, max(importer.Chunk/max(columns, 1), 1))
	values, row := make([]float64, len(ids)*columns), make([]float32, columns)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := seeds.Next(ids)
		if err != nil {
			return err
		}
		if labels != nil {
			if m, err := labels.Doubles(values); err != nil {
				return err
			} else if m != n*columns {
				return bad("%s and %s have different lengths", s.path(set.seeds), s.path(set.labels))
			}
		}
		if n == 0 {
			return nil
		}
		for i, v := range ids[:n] {
			if uint64(v) >= uint64(s.of.Count) {
				return bad("%s: the %s set has node %d, but there are only %d nodes", s.path(set.seeds), dataset.SplitNames[split-1], v, s.of.Count)
			}
			v += s.of.First
			if err := l.Assign(v, split); err != nil {
				return fmt.Errorf("%s: %w", s.path(set.seeds), err)
			}
			var err error
			switch {
			case columns == 1:
				err = l.Number(v, values[i])
			case columns > 1:
				for c := range row {
					row[c] = float32(values[i*columns+c])
				}
				err = l.Row(v, row)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.path(set.labels), err)
			}
		}
	}
}
