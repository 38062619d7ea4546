package dataset

import (
	"errors"

	"diskgnn/internal/binio"
)

// topologyWriter writes indptr and indices, node after node.
type topologyWriter struct {
	w               *writer
	indptr, indices *array
	edges           int64
	offsets         []int64 // of the nodes of one call to append
}

// startTopology starts both files.
func (w *writer) startTopology() (*topologyWriter, error) {
	t := &topologyWriter{w: w}
	var err error
	if t.indptr, err = w.create(IndptrFile); err != nil {
		return nil, err
	}
	if t.indices, err = w.create(IndicesFile); err != nil {
		return nil, errors.Join(err, t.indptr.discard())
	}
	if _, err := t.indptr.Write(binio.Bytes([]int64{0})); err != nil {
		return nil, errors.Join(err, t.discard())
	}
	return t, nil
}

// append adds the next nodes: their degrees, and their in-neighbours one after
// the other, ascending for each node.
func (t *topologyWriter) append(degrees, indices []uint32) error {
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

// finish makes both files durable and journals them.
func (t *topologyWriter) finish() error {
	if err := t.indptr.finish(); err != nil {
		return err
	}
	if err := t.indices.finish(); err != nil {
		return err
	}
	t.w.state.Facts.Edges = t.edges
	return t.w.save()
}

func (t *topologyWriter) discard() error { return errors.Join(t.indptr.discard(), t.indices.discard()) }
