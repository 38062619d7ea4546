package raw

import (
	"fmt"

	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/vfs"
)

// sparseEdges is edges in a sparse adjacency matrix: a row is a source, a column a destination.
type sparseEdges struct {
	spec     matrix.Spec
	m        *matrix.Sparse
	weighted bool
}

// openSparse returns the edges of a sparse matrix, or nil if the file is another one.
func openSparse(fsys vfs.FS, spec matrix.Spec) (edgeList, error) {
	m, err := matrix.OpenSparse(fsys, spec)
	if m == nil || err != nil {
		return nil, err
	}
	if _, err := m.Nodes(); err != nil {
		return nil, err
	}
	weighted, err := m.Weighted()
	return &sparseEdges{spec, m, weighted}, err
}

func (s *sparseEdges) file() string                { return s.spec.Path }
func (s *sparseEdges) listSpec() matrix.Spec       { return s.spec }
func (s *sparseEdges) nodes() (int64, error)       { return s.m.Nodes() }
func (s *sparseEdges) count() (int64, error)       { return s.m.Count() }
func (s *sparseEdges) open() (stream.Pairs, error) { return s.m.Pairs(false) }

func (s *sparseEdges) columns() matrix.Ends {
	if !s.weighted {
		return matrix.Ends{}
	}
	return matrix.Ends{Note: fmt.Sprintf("%s: data of edges is not imported: the values of the matrix", s.m.Name)}
}
