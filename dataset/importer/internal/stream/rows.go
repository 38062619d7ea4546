package stream

import (
	"errors"

	"diskgnn/dataset/importer"
)

// Part is a stream of rows of so many elements.
type Part struct {
	Rows importer.RowStream
	Dim  int
}

// Beside reads tables side by side: a row is the parts' rows, one after the other. It closes the
// parts. It holds some rows of the widest part.
func Beside(parts []Part) importer.RowStream {
	if len(parts) == 1 {
		return parts[0].Rows
	}
	b := &beside{parts: parts}
	widest := 1
	for _, p := range parts {
		b.dim += p.Dim
		widest = max(widest, p.Dim)
	}
	b.rows = max(importer.Chunk/widest, 1)
	b.buf = make([]float32, b.rows*widest)
	return b
}

type beside struct {
	parts []Part
	dim   int // of all
	rows  int // that are read at a time
	buf   []float32
}

func (b *beside) Next(values []float32) error {
	for len(values) > 0 {
		n := min(len(values)/b.dim, b.rows)
		at := 0
		for _, p := range b.parts {
			part := b.buf[:n*p.Dim]
			if err := p.Rows.Next(part); err != nil {
				return err
			}
			for i := range n {
				copy(values[i*b.dim+at:], part[i*p.Dim:(i+1)*p.Dim])
			}
			at += p.Dim
		}
		values = values[n*b.dim:]
	}
	return nil
}

func (b *beside) Close() error {
	var errs []error
	for _, p := range b.parts {
		errs = append(errs, p.Rows.Close())
	}
	return errors.Join(errs...)
}

// Behind reads tables one behind the other, table i of counts[i] rows, from a row of the first on
// that is counted through all of them. open opens a table at one of its rows. One is open at a
// time.
func Behind(counts []int64, dim int, first int64, open func(i int, first int64) (importer.RowStream, error)) importer.RowStream {
	b := &behind{counts: counts, dim: int64(dim), open: open}
	for b.next < len(counts) && first >= counts[b.next] {
		first -= counts[b.next]
		b.next++
	}
	b.first = first
	return b
}

type behind struct {
	counts []int64
	dim    int64
	open   func(i int, first int64) (importer.RowStream, error)
	next   int   // the table that is opened next
	first  int64 // its row
	now    importer.RowStream
	left   int64 // rows of it
}

// Next must not be called for more rows than there are.
func (b *behind) Next(values []float32) error {
	for len(values) > 0 {
		for b.left == 0 {
			if err := b.Close(); err != nil {
				return err
			}
			b.left = b.counts[b.next] - b.first
			if b.left > 0 {
				now, err := b.open(b.next, b.first)
				if err != nil {
					return err
				}
				b.now = now
			}
			b.next, b.first = b.next+1, 0
		}
		n := min(int64(len(values))/b.dim, b.left)
		if err := b.now.Next(values[:n*b.dim]); err != nil {
			return err
		}
		values, b.left = values[n*b.dim:], b.left-n
	}
	return nil
}

func (b *behind) Close() error {
	if b.now == nil {
		return nil
	}
	now := b.now
	b.now = nil
	return now.Close()
}

// Zeros is a stream of any number of rows of zeros.
type Zeros struct{}

// Next implements importer.RowStream.
func (Zeros) Next(values []float32) error {
	clear(values)
	return nil
}

// Close implements importer.RowStream.
func (Zeros) Close() error { return nil }
