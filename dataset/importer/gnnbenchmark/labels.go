package gnnbenchmark

import (
	"context"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/fault"
)

// readLabelShape looks whether the labels have a column per class.
func (s *source) readLabelShape(z *npz.Archive) error {
	return z.Header("labels", func(a *npz.Array) (err error) {
		if !npz.MultiLabel(a) {
			return nil
		}
		if a.Shape[0] != s.sh.Nodes {
			return a.Fail(fault.New(fault.ErrInput, "labels of %d nodes, the graph has %d", a.Shape[0], s.sh.Nodes))
		}
		s.sh.Multi = true
		s.sh.Classes, err = npz.LabelClasses(a)
		return err
	})
}

// readRows reads the labels of multi-label nodes.
func (s *source) readRows(ctx context.Context, z *npz.Archive, l *importer.Labelling) error {
	return z.Header("labels", func(a *npz.Array) error {
		return npz.EachLabelRow(ctx, a, s.sh.Classes, l.Row)
	})
}
