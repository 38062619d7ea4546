package matrix

import (
	"errors"

	"diskgnn/internal/fault"
)

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
	return &picked{Matrix: m, columns: columns, id: -1}, nil
}

// WithoutIDs returns m without its first column, if the name of that column says that it has ids, or
// without pandas' index. Reading the result then checks that the ids are the numbers of the rows, from 0.
// It also calls CheckColumns for the other columns. If it fails, it closes m.
func WithoutIDs(m Matrix) (Matrix, error) {
	names, id := m.Names(), 0
	if last := len(names) - 1; last > 0 && names[last] == pandasIndex && !isID(names[0]) {
		id = last
	}
	if len(names) >= 2 && isID(names[id]) {
		p := &picked{Matrix: m, id: id}
		for i := range names {
			if i != id {
				p.columns = append(p.columns, i)
			}
		}
		m = p
	}
	return checked(m, CheckColumns(m))
}

// LeftOut returns the name of the column that WithoutIDs left out of m; is reports whether there is
// one.
func LeftOut(m Matrix) (name string, is bool) {
	if p, ok := m.(*picked); ok && p.id >= 0 {
		return p.Matrix.Names()[p.id], true
	}
	return "", false
}

// picked is columns of a matrix, of which whole rows are read.
type picked struct {
	Matrix
	columns []int
	id      int   // the column that counts the rows, which is checked; -1: none
	at      int64 // the row that comes next
	ints    []int64
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

func (p *picked) Skip(rows int64) error {
	p.at += rows
	return p.Matrix.Skip(rows)
}

func (p *picked) Ints(dst []int64) (int, error) { return pickRows(p, dst, &p.ints, p.Matrix.Ints) }
func (p *picked) Floats(dst []float32) (int, error) {
	if p.id >= 0 { // ids are exact in float64
		return pickRows(p, dst, &p.doubles, p.Matrix.Doubles)
	}
	return pickRows(p, dst, &p.floats, p.Matrix.Floats)
}
func (p *picked) Doubles(dst []float64) (int, error) {
	return pickRows(p, dst, &p.doubles, p.Matrix.Doubles)
}

// pickRows sets dst to the columns of the next rows, and checks the ids. next reads rows into buf.
func pickRows[T, U int64 | float32 | float64](p *picked, dst []T, buf *[]U, next func([]U) (int, error)) (n int, err error) {
	width := p.Matrix.Columns()
	if *buf == nil {
		*buf = make([]U, max(chunk/width, 1)*width)
	}
	for len(dst)-n >= len(p.columns) {
		rows := min((len(dst)-n)/len(p.columns), len(*buf)/width)
		got, err := next((*buf)[:rows*width])
		if err != nil || got == 0 {
			return n, err
		}
		for row := (*buf)[:got]; len(row) > 0; row = row[width:] {
			if p.id >= 0 && row[p.id] != U(p.at) {
				return 0, fault.New(fault.ErrInput, "%s: row %d: the column %q is %v instead of the number of the row, so it cannot be left out; if it has the ids of nodes, give --node-ids edges", p.Name(), p.at, p.Matrix.Names()[p.id], row[p.id])
			}
			p.at++
			for _, c := range p.columns {
				dst[n] = T(row[c])
				n++
			}
		}
	}
	return n, nil
}
