package graphbolt

import (
	"context"
	"errors"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/text"
)

// checkEdges checks the header of a file of edges, and adds the edges of an array to Shape.Edges.
func (s *source) checkEdges(f document) error {
	if f.Format == "csv" {
		_, err := importer.StatFile(s.fs, s.path(f))
		return err
	}
	n, _, err := stream.CountTwoRows(func() (*npz.Array, error) { return s.openArray(f) })
	s.sh.Edges = importer.AddEdges(s.sh.Edges, n)
	return err
}

// CountEdges implements importer.Source: a line of a csv file is an edge.
func (s *source) CountEdges(lines map[string]int64) int64 {
	n := s.sh.Edges
	for _, f := range s.edge {
		if f.Format == "csv" {
			n = importer.AddEdges(n, lines[s.path(f)])
		}
	}
	return n
}

func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	if s.topo != nil {
		return s.graph.Each(ctx, s.sh.Nodes, add)
	}
	for _, f := range s.edge {
		if err := s.readEdges(ctx, f, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) readEdges(ctx context.Context, f document, add func(dst, src []int64) error) (err error) {
	pairs, err := s.openPairs(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pairs.Close()) }()
	return stream.EachPair(ctx, s.path(f), pairs, s.sh.Nodes, add)
}

func (s *source) openPairs(f document) (stream.Pairs, error) {
	name := s.path(f)
	if f.Format == "csv" {
		c, err := text.Open(s.fs, name, 2)
		if err != nil {
			return nil, err
		}
		return stream.Interleave(c), nil
	}
	return stream.TwoRows(func() (*npz.Array, error) { return npz.Open(s.fs, name) })
}
