package beacon

import (
	"cmp"
	"context"
	"errors"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/directgraph"
)

// Samples is the source of batches that presample drew, of a dataset that is laid out on
// flash as DirectGraph has it: rows as they are in the dataset, in its own type. Close it.
type Samples struct {
	data     *dataset.Dataset
	reader   *mbfile.Reader
	topology *dataset.Topology
	layout   *directgraph.Layout
	paths    Paths
	held     int64 // bytes of the layout
	most     int64 // nodes that a trace may have
}

// OpenSamples opens the directories, and lays the graph out on pages of so many bytes. What
// it holds must fit memory: fault.ErrBudget. Samples of another dataset are fault.ErrLineage,
// a graph beyond the layout's addresses fault.ErrInput.
func OpenSamples(ctx context.Context, rep progress.Reporter, fsys vfs.FS, data, samples string, paths Paths, page int, memory int64) (_ *Samples, err error) {
	s := &Samples{paths: paths, most: maxCommands}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.data, err = dataset.Open(fsys, data); err != nil {
		return nil, err
	}
	if s.reader, err = mbfile.Open(fsys, samples); err != nil {
		return nil, err
	}
	if err := stage.CheckParent(s.reader.Dir(), s.reader.Meta(), stage.RoleDataset, s.data.Dir(), s.data.Fingerprint()); err != nil {
		return nil, err
	}
	facts := s.data.Facts()
	shape := directgraph.Shape{Page: page, Feature: s.data.RowBytes()}
	if err := shape.Check(); err != nil {
		return nil, err
	}
	s.held = shape.LayoutBytes(facts.Nodes, facts.Edges)
	if err := budget.Check("the addresses of the layout", s.held, memory); err != nil {
		return nil, err
	}
	if s.topology, err = s.data.Topology(ctx, rep, 0); err != nil {
		return nil, err
	}
	err = s.topology.Guard(func() (err error) {
		g := &s.topology.CSC
		var failed error
		s.layout, err = directgraph.New(shape, facts.Nodes, func(v int64) int64 {
			row, err := g.Row(uint32(v))
			failed = cmp.Or(failed, err)
			return int64(len(row))
		})
		return cmp.Or(failed, err)
	})
	return s, err
}

// Unchanged returns an error of kind fault.ErrCorrupt if the graph that was verified has changed
// since.
func (s *Samples) Unchanged() error { return s.topology.Unchanged() }

// Close releases the mapped topology and the samples.
func (s *Samples) Close() error {
	var errs []error
	if s.topology != nil {
		errs = append(errs, s.topology.Close())
	}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	return errors.Join(errs...)
}

// Layout returns how the dataset lies on flash.
func (s *Samples) Layout() *directgraph.Layout { return s.layout }

// Batches returns the training batches of the first sample epoch.
func (s *Samples) Batches() int { return s.reader.Facts().BatchesPerEpoch }

// BatchSize returns the seed nodes of a full batch.
func (s *Samples) BatchSize() int { return s.reader.Params().BatchSize }

// Trace implements Source. The page's size of p is that which the graph is laid out with.
func (s *Samples) Trace(ctx context.Context, p *Params, batch int) (t *Trace, err error) {
	if p.Flash.Page != s.layout.Shape().Page {
		return nil, fault.New(fault.ErrUsage, "the graph is laid out on pages of %d bytes, not of %d", s.layout.Shape().Page, p.Flash.Page)
	}
	var b graph.Batch
	if _, err := s.reader.Read(ctx, batch, nil, &b); err != nil {
		return nil, err
	}
	if n := nodesOf(&b, s.paths); n > float64(s.most) {
		return nil, fault.New(fault.ErrBudget, "batch %d reaches %.4g nodes by its paths, --memory allows %d: read each node once per hop, or simulate fewer settings at once", batch, n, s.most)
	}
	err = s.topology.Guard(func() (err error) {
		t, err = FromBatch(p, &b, &s.topology.CSC, s.layout, s.data.Facts().Dim, s.paths)
		return err
	})
	return t, err
}

// Write writes the dataset as it is laid out. The file's bytes are held in memory, of which
// there is so much: more is fault.ErrBudget.
func (s *Samples) Write(ctx context.Context, fsys vfs.FS, name string, memory int64) (err error) {
	shape := s.layout.Shape()
	if err := budget.Check("the pages of the DirectGraph, which are held until they are written,", s.held+s.layout.WriteBytes(), memory); err != nil {
		return err
	}
	features, err := s.data.Features()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, features.Close()) }()
	return s.topology.Guard(func() error {
		return directgraph.Write(fsys, name, s.layout, directgraph.Graph{
			Neighbors: s.topology.Sources,
			Unchanged: s.topology.Unchanged,
			Vector: func(b []byte, node uint32) ([]byte, error) {
				at := len(b)
				b = append(b, make([]byte, shape.Feature)...)
				return b, features.ReadRows(ctx, int64(node), int64(node)+1, b[at:])
			},
		})
	})
}
