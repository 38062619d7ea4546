package matrix

import "errors"

// pick returns the columns of m that s chooses. It closes m if it fails.
func pick(m Matrix, s Spec) (Matrix, error) {
	if len(s.Columns) == 0 && len(s.Except) == 0 && s.numbers == nil {
		return m, nil
	}
	d := Description{Columns: m.Columns(), Names: m.Names()}
	s.Path = m.Name()
	columns, err := d.Select(s)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if d.isAll(columns) {
		return m, nil
	}
	return &picked{Matrix: m, columns: columns}, nil
}

// picked is columns of a matrix, of which whole rows are read.
type picked struct {
	Matrix
	columns []int
	ints    []int64 // rows
	doubles []float64
	floats  []float32
}

func (p *picked) Columns() int { return len(p.columns) }

func (p *picked) Names() (names []string) {
	if all := p.Matrix.Names(); all != nil {
		for _, c := range p.columns {
			names = append(names, all[c])
		}
	}
	return names
}

func (p *picked) Ints(dst []int64) (int, error) { return pickRows(p, dst, &p.ints, p.Matrix.Ints) }
func (p *picked) Floats(dst []float32) (int, error) {
	return pickRows(p, dst, &p.floats, p.Matrix.Floats)
}
func (p *picked) Doubles(dst []float64) (int, error) {
	return pickRows(p, dst, &p.doubles, p.Matrix.Doubles)
}

// pickRows sets dst to the columns of the next rows.
func pickRows[T any](p *picked, dst []T, buf *[]T, next func([]T) (int, error)) (n int, err error) {
	width := p.Matrix.Columns()
	if *buf == nil {
		*buf = make([]T, max(chunk/width, 1)*width)
	}
	for len(dst)-n >= len(p.columns) {
		rows := min((len(dst)-n)/len(p.columns), len(*buf)/width)
		got, err := next((*buf)[:rows*width])
		if err != nil || got == 0 {
			return n, err
		}
		for row := (*buf)[:got]; len(row) > 0; row = row[width:] {
			for _, c := range p.columns {
				dst[n] = row[c]
				n++
			}
		}
	}
	return n, nil
}
