package beacon

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/directgraph"
)

// Samples is the source of batches that presample drew, from a dataset in DirectGraph's layout. Vectors
// have the dataset's type. Close it after use.
type Samples struct {
	data     *dataset.Dataset
	reader   *mbfile.Reader
	topology *dataset.Topology
	layout   *directgraph.Layout
	paths    Paths
	held     int64 // bytes of the layout
	most     int64 // the most nodes of a trace
}

// OpenSamples opens the directories of a dataset and of samples, and lays the graph out on pages of page
// bytes. If the layout needs more than memory bytes, the error is of kind fault.ErrBudget; if the samples
// were drawn from another dataset, of kind fault.ErrLineage; if the graph exceeds the layout's addresses,
// of kind fault.ErrInput.
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
	if err := s.reader.CheckDataset(s.data.Dir(), s.data.Fingerprint()); err != nil {
		return nil, err
	}
	facts := s.data.Facts()
	shape := directgraph.Shape{Page: page, Feature: s.data.RowBytes()}
	if err := shape.Check(); err != nil {
		return nil, err
	}
	s.held = shape.LayoutBytes(facts.Nodes, facts.Edges)
	if err := budget.Check("the table of addresses of the layout", s.held, memory); err != nil {
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

// Unchanged returns an error of kind fault.ErrCorrupt if the graph has changed since OpenSamples verified it.
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

// Layout returns the layout of the dataset on flash.
func (s *Samples) Layout() *directgraph.Layout { return s.layout }

// Batches returns the number of training batches of the first sample epoch.
func (s *Samples) Batches() int { return s.reader.Facts().BatchesPerEpoch }

// BatchSize returns the number of seed nodes of a full batch.
func (s *Samples) BatchSize() int { return s.reader.Params().BatchSize }

// Trace implements Source. The page size of p must be the page size of the layout.
func (s *Samples) Trace(ctx context.Context, p *Params, batch int) (t *Trace, err error) {
	if p.Flash.Page != s.layout.Shape().Page {
		return nil, fault.New(fault.ErrUsage, "the graph is laid out on pages of %d bytes, not of %d", s.layout.Shape().Page, p.Flash.Page)
	}
	var b graph.Batch
	if _, err := s.reader.Read(ctx, batch, nil, &b); err != nil {
		return nil, err
	}
	if n := nodesOf(&b, s.paths); n > float64(s.most) {
		return nil, fault.New(fault.ErrBudget, "batch %d reaches %.4g nodes by its paths, but --memory allows %d: read each node once per hop, or simulate fewer settings at once", batch, n, s.most)
	}
	err = s.topology.Guard(func() (err error) {
		t, err = FromBatch(p, &b, &s.topology.CSC, s.layout, s.data.Facts().Dim, s.paths)
		return err
	})
	return t, err
}

// Write writes the dataset in its layout to a file. It holds the whole file in memory. If that takes more
// than memory bytes, the error is of kind fault.ErrBudget.
func (s *Samples) Write(ctx context.Context, fsys vfs.FS, name string, memory int64) (err error) {
	shape := s.layout.Shape()
	if err := budget.Check("the buffer for all pages of the DirectGraph", s.held+s.layout.WriteBytes(), memory); err != nil {
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

// Paths is the choice of the reads of a batch from presample.
type Paths string

// The ways to read a batch.
const (
	// Tree reads a node once for every path of drawn neighbours from a target to the node, as BeaconGNN does.
	Tree Paths = "tree"
	// Dedup reads each node once per hop.
	Dedup Paths = "dedup"
)

// FromBatch returns the trace of a batch drawn from a graph with layout l: the neighbours drawn for each
// node at each hop, at their slots in the graph's adjacency lists. Vectors have width numbers. If the
// batch does not belong to the graph, or is too large, the error is of kind fault.ErrInput.
func FromBatch(p *Params, b *graph.Batch, g *graph.CSC, l *directgraph.Layout, width int, paths Paths) (*Trace, error) {
	r := replay{batch: b, graph: g, layout: l, build: newBuilder(l.Shape(), width, p.Rules.ReadPrimary, len(b.Blocks))}
	hop := make([]uint32, b.NumSeeds())
	for i := range hop {
		hop[i] = uint32(i)
	}
	r.nodes = int64(len(hop))
	for h := range len(b.Blocks) {
		next, err := r.hop(h, hop, &b.Blocks[len(b.Blocks)-1-h], paths)
		if err != nil {
			return nil, err
		}
		hop = next
	}
	for _, u := range hop {
		if err := r.read(len(b.Blocks), u); err != nil {
			return nil, err
		}
	}
	return r.build.trace(), nil
}

// nodesOf returns the number of nodes of a batch's trace; under Dedup, an upper bound.
func nodesOf(b *graph.Batch, paths Paths) (n float64) {
	times := make([]float64, len(b.Input)) // by input node: the number of reads at this hop
	for i := range b.NumSeeds() {
		times[i] = 1
		n++
	}
	for h := len(b.Blocks) - 1; h >= 0; h-- {
		block, next := &b.Blocks[h], make([]float64, len(b.Input))
		for u := range block.NumDst {
			for _, s := range block.Indices[block.Indptr[u]:block.Indptr[u+1]] {
				if next[s] += times[u]; paths == Dedup {
					next[s] = min(next[s], 1)
				}
			}
		}
		times = next
		for _, k := range times {
			n += k
		}
	}
	return n
}

// replay turns a batch into a trace.
type replay struct {
	batch  *graph.Batch
	graph  *graph.CSC
	layout *directgraph.Layout
	build  *builder
	nodes  int64 // of the trace, so far
	drawn  []draw
	ids    []neighbour
}

// neighbour is a drawn neighbour: its node in the graph, and in the trace.
type neighbour struct{ id, child uint32 }

// hop reads the nodes of a hop, which are positions among the batch's input nodes, and returns the
// nodes of the next.
func (r *replay) hop(h int, nodes []uint32, b *graph.Block, paths Paths) (next []uint32, err error) {
	var seen []uint32 // by source: its node in the trace plus one, or 0
	if paths == Dedup {
		seen = make([]uint32, b.NumSrc)
	}
	for _, u := range nodes {
		if int(u) >= b.NumDst {
			return nil, fault.New(fault.ErrInput, "the batch reads a node at hop %d without neighbours drawn for it", h)
		}
		r.ids = r.ids[:0]
		for _, s := range b.Indices[b.Indptr[u]:b.Indptr[u+1]] {
			child := uint32(r.nodes)
			if seen != nil && seen[s] > 0 {
				child = seen[s] - 1
			} else {
				if r.nodes++; r.nodes > maxCommands {
					return nil, fault.New(fault.ErrInput, "the paths of a batch reach more than %d nodes; read each node once per hop, or draw fewer", maxCommands)
				}
				next = append(next, s)
				if seen != nil {
					seen[s] = child + 1
				}
			}
			r.ids = append(r.ids, neighbour{r.batch.Input[s], child})
		}
		if err := r.slots(r.batch.Input[u]); err != nil {
			return nil, err
		}
		if err := r.read(h, u); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// slots finds the slots of the drawn neighbours in a node's list. Each of several parallel edges has a slot.
func (r *replay) slots(node uint32) error {
	if int64(node) >= int64(r.graph.NumNodes()) {
		return fault.New(fault.ErrInput, "the batch has node %d, but the graph has %d nodes", node, r.graph.NumNodes())
	}
	slices.SortFunc(r.ids, func(x, y neighbour) int { return int(int64(x.id) - int64(y.id)) })
	list, err := r.graph.Row(node)
	if err != nil {
		return err
	}
	r.drawn = r.drawn[:0]
	at := 0
	for _, n := range r.ids {
		i, _ := slices.BinarySearch(list[at:], n.id)
		if at += i; at == len(list) || list[at] != n.id {
			return fault.New(fault.ErrInput, "the batch has an edge from node %d to node %d, but the graph has none", n.id, node)
		}
		r.drawn = append(r.drawn, draw{int64(at), int32(n.child)})
		at++
	}
	return nil
}

// read adds a node and its draws.
func (r *replay) read(h int, u uint32) error {
	node := r.batch.Input[u]
	row, err := r.graph.Row(node)
	if err != nil {
		return err
	}
	r.build.read(h, int64(len(row)), r.drawn, func(section int64) int64 { return r.layout.At(node, section).Page() })
	r.drawn = r.drawn[:0]
	return nil
}
