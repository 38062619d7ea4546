package tables

import (
	"errors"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/dtype"
)

// Features are tables with a row for each node, side by side.
type Features []Table

// LookAt sets the fields of sh that features determine. If sh.Nodes is 0, it becomes the number of rows,
// which must else be the same. The type is float32, unless all tables have the same other one.
func (f Features) LookAt(sh *importer.Shape) error {
	var names []string
	sh.Dim = 0
	for i, t := range f {
		err := t.with(func(m matrix.Matrix) error {
			if sh.Nodes == 0 {
				sh.Nodes = m.Rows()
			}
			if err := dataset.CheckNodes(m.Name(), sh.Nodes); err != nil {
				return err
			}
			sh.Dim += m.Columns()
			switch {
			case m.Rows() >= 0 && m.Rows() != sh.Nodes:
				return bad("%s: there are features of %d nodes, but the graph has %d nodes", m.Name(), m.Rows(), sh.Nodes)
			case sh.Nodes < 1:
				return bad("%s: the graph has %d nodes; at least 1 is needed", m.Name(), max(sh.Nodes, 0))
			case sh.Dim > dataset.MaxDim:
				return bad("%s: feature rows have %d elements instead of 1 to %d", m.Name(), sh.Dim, dataset.MaxDim)
			}
			if d := matrix.DType(m); i == 0 || d == sh.DType {
				sh.DType = d
			} else {
				sh.DType = dtype.Float32 // holds both
			}
			names = append(names, m.Name())
			return nil
		})
		if err != nil {
			return err
		}
	}
	sh.Features = strings.Join(names, ", ")
	return nil
}

// Rows returns the rows from number first on. nodes is the number of all rows.
func (f Features) Rows(nodes, first int64) (importer.RowStream, error) {
	var parts []stream.Part
	for _, t := range f {
		m, err := t.Open()
		if err == nil {
			var rows *matrix.Rows
			if rows, err = matrix.NewRows(m, nodes, first); err == nil {
				parts = append(parts, stream.Part{Rows: rows, Dim: m.Columns()})
				continue
			}
		}
		for _, p := range parts {
			err = errors.Join(err, p.Rows.Close())
		}
		return nil, err
	}
	return stream.Beside(parts), nil
}
