package dataset

import (
	"context"
	"errors"
	"strings"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// gnnBenchmark is a graph in the layout of gnn-benchmark (Shchur et al., 2018):
// NAME.npz with the adjacency as adj_{data,indices,indptr,shape}, the features as
// attr_{data,indices,indptr,shape} or dense as attr_matrix, and labels, a class or a
// column per class; beside it NAME_split.npz with the node ids train, valid and test. Edges have no
// direction, whether both are stored or one.
type gnnBenchmark struct {
	fs           vfs.FS
	graph, split string
	sh           shape
	dense        bool
}

// chunk is the number of elements of an array that are looked at at a time.
const chunk = 1 << 14

func openGNNBenchmark(fsys vfs.FS, name string) (_ source, err error) {
	base, ok := strings.CutSuffix(name, ".npz")
	if !ok {
		return nil, fault.New(fault.ErrInput, "%s: the format %s is a NAME.npz with NAME_split.npz beside it", name, FormatGNNBenchmark)
	}
	s := &gnnBenchmark{fs: fsys, graph: name, split: base + "_split.npz"}
	if _, err := statSource(fsys, s.split); err != nil {
		return nil, err
	}
	z, err := openNPZ(fsys, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, z.close()) }()
	if err := s.readShape(z); err != nil {
		return nil, err
	}
	return s, nil
}

// readShape reads the small arrays and the headers of the others.
func (s *gnnBenchmark) readShape(z *npz) error {
	adj, err := z.all("adj_shape", 2)
	if err != nil {
		return err
	}
	if adj[0] != adj[1] || adj[0] < 1 {
		return fault.New(fault.ErrInput, "%s: adj_shape: the adjacency is %d × %d", s.graph, adj[0], adj[1])
	}
	s.sh = shape{nodes: adj[0], dtype: dtype.Float32, undirected: true, features: s.graph}
	if err := checkNodes(s.graph, s.sh.nodes); err != nil {
		return err
	}
	if err := s.header(z, "adj_indices", func(a *numbers) error {
		s.sh.edges = min(a.Count(), maxEdges+1)
		return a.vector(-1)
	}); err != nil {
		return err
	}
	if err := s.readLabelShape(z); err != nil {
		return err
	}
	s.dense = !z.has("attr_shape")
	features := "attr_data"
	if s.dense {
		features = "attr_matrix"
	} else {
		attr, err := z.all("attr_shape", 2)
		if err != nil {
			return err
		}
		if attr[0] != s.sh.nodes {
			return fault.New(fault.ErrInput, "%s: attr_shape: features of %d nodes, the graph has %d", s.graph, attr[0], s.sh.nodes)
		}
		if err := s.setDim(attr[1]); err != nil {
			return err
		}
	}
	return s.header(z, features, func(a *numbers) error {
		if a.Kind == 'f' && a.Size == 2 {
			s.sh.dtype = dtype.Float16
		}
		if !s.dense {
			return nil
		}
		if len(a.Shape) != 2 || a.Shape[0] != s.sh.nodes || a.Fortran {
			return a.fail(fault.New(fault.ErrInput, "its shape is %s instead of (%d, dim), row-major", a.ShapeString(), s.sh.nodes))
		}
		return s.setDim(a.Shape[1])
	})
}

func (s *gnnBenchmark) setDim(dim int64) error {
	if dim < 1 || dim > maxDim {
		return fault.New(fault.ErrInput, "%s: features of %d elements", s.graph, dim)
	}
	s.sh.dim = int(dim)
	return nil
}

// header calls do with an array that is open, but not read.
func (s *gnnBenchmark) header(z *npz, key string, do func(*numbers) error) (err error) {
	a, err := z.array(key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	return do(a)
}

func (s *gnnBenchmark) shape() shape { return s.sh }

func (s *gnnBenchmark) countEdges(map[string]int64) int64 { return s.sh.edges }

func (s *gnnBenchmark) files() []string { return []string{s.graph, s.split} }

func (s *gnnBenchmark) labels(ctx context.Context, l *labelling) (err error) {
	z, err := openNPZ(s.fs, s.graph)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.close()) }()
	if s.sh.multi {
		err = s.readRows(ctx, z, l)
	} else {
		err = s.each(ctx, z, "labels", s.sh.nodes, l.label)
	}
	if err != nil {
		return err
	}
	splits, err := openNPZ(s.fs, s.split)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, splits.close()) }()
	for i, name := range splitNames {
		if err := s.each(ctx, splits, name, -1, func(_, v int64) error { return l.assign(v, uint8(i+1)) }); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for every element of a vector, of the given length if that is
// not negative.
func (s *gnnBenchmark) each(ctx context.Context, z *npz, key string, length int64, do func(i, v int64) error) (err error) {
	a, err := z.array(key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.vector(length); err != nil {
		return err
	}
	return eachInt(ctx, a, do)
}

// eachInt calls do for every element of a vector.
func eachInt(ctx context.Context, a *numbers, do func(i, v int64) error) error {
	var buf [chunk]int64
	count := a.Count()
	for i := int64(0); i < count; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(chunk, count-i)]
		if err := a.ints(part); err != nil {
			return err
		}
		for _, v := range part {
			if err := do(i, v); err != nil {
				return a.fail(err)
			}
			i++
		}
	}
	return a.end()
}

// edges reads the adjacency: row r's entries are its edges.
func (s *gnnBenchmark) edges(ctx context.Context, add func(dst, src []int64) error) (err error) {
	z, err := openNPZ(s.fs, s.graph)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.close()) }()
	rows, err := openRows(z, "adj", s.sh.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.close()) }()
	dst, src := make([]int64, chunk), make([]int64, chunk)
	for v := range s.sh.nodes {
		left, err := rows.row()
		if err != nil {
			return err
		}
		for left > 0 {
			n := min(left, chunk)
			if err := rows.indices.ints(src[:n]); err != nil {
				return err
			}
			for i, u := range src[:n] {
				if uint64(u) >= uint64(s.sh.nodes) {
					return rows.indices.fail(fault.New(fault.ErrInput, "the edge between %d and %d leaves the graph of %d nodes", v, u, s.sh.nodes))
				}
				dst[i] = v
			}
			if err := add(dst[:n], src[:n]); err != nil {
				return err
			}
			left -= n
		}
	}
	return errors.Join(rows.indices.end(), rows.indptr.end())
}

func (s *gnnBenchmark) features(first int64) (rowStream, error) {
	z, err := openNPZ(s.fs, s.graph)
	if err != nil {
		return nil, err
	}
	if s.dense {
		a, err := z.array("attr_matrix")
		if err != nil {
			return nil, errors.Join(err, z.close())
		}
		skipped := first * int64(s.sh.dim)
		if err := a.skip(skipped); err != nil {
			return nil, errors.Join(err, a.close(), z.close())
		}
		return &denseRows{a, a.Count() - skipped, z}, nil
	}
	r := &sparseRows{z: z, dim: s.sh.dim}
	if r.rows, err = openRows(z, "attr", s.sh.nodes); err != nil {
		return nil, errors.Join(err, z.close())
	}
	if r.data, err = z.array("attr_data"); err != nil {
		return nil, errors.Join(err, r.rows.close(), z.close())
	}
	if len(r.data.Shape) != 1 || r.data.Shape[0] != r.rows.indices.Count() {
		err := fault.New(fault.ErrInput, "%s: attr_data has shape %s, attr_indices %s", z.name, r.data.ShapeString(), r.rows.indices.ShapeString())
		return nil, errors.Join(err, r.close())
	}
	if err := r.skip(first); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}
