package dataset

import (
	"errors"

	"diskgnn/internal/binio"
)

// TopologyWriter writes indptr and indices, node after node.
type TopologyWriter struct {
	w               *Writer
	indptr, indices *Array
	edges           int64
	offsets         []int64 // of the nodes of one call to append
}

// StartTopology starts both files.
func (w *Writer) StartTopology() (*TopologyWriter, error) {
	t := &TopologyWriter{w: w}
	var err error
	if t.indptr, err = w.Create(IndptrFile); err != nil {
		return nil, err
	}
	if t.indices, err = w.Create(IndicesFile); err != nil {
		return nil, errors.Join(err, t.indptr.Discard())
	}
	if _, err := t.indptr.Write(binio.Bytes([]int64{0})); err != nil {
		return nil, errors.Join(err, t.Discard())
	}
	return t, nil
}

// Append adds the next nodes: their degrees, and their in-neighbours one after
// the other, ascending for each node.
func (t *TopologyWriter) Append(degrees, indices []uint32) error {
	t.offsets = binio.Grow(t.offsets, len(degrees))
	for i, n := range degrees {
		t.edges += int64(n)
		t.offsets[i] = t.edges
	}
	if _, err := t.indptr.Write(binio.Bytes(t.offsets)); err != nil {
		return err
	}
	_, err := t.indices.Write(binio.Bytes(indices))
	return err
}

// Finish makes both files durable and journals them.
func (t *TopologyWriter) Finish() error {
	if err := t.indptr.Finish(); err != nil {
		return err
	}
	if err := t.indices.Finish(); err != nil {
		return err
	}
	return t.w.update(func(s *journal) { s.Facts.Edges = t.edges })
}

func (t *TopologyWriter) Discard() error { return errors.Join(t.indptr.Discard(), t.indices.Discard()) }
