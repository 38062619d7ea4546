package exact

import (
	"context"
	"slices"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/train/exact/grid"
	"diskgnn/train/prepare"
)

// In a typed graph, the last layer is computed for nodes of the seed type. A layer before it is computed for all nodes
// of the types that the next layer reads: its sources, and its destinations. A state has the rows of these types alone,
// in node order.

// everyNode returns all nodes that have outputs. Rows count nodes in their type, as sources and exports do.
func (j *job) everyNode(f *dataset.Facts) targets {
	if j.model.Types == nil {
		return targets{nodes: f.Nodes}
	}
	lo, hi := f.Types.Range(j.model.Types.Seed)
	return targets{first: uint32(lo), nodes: hi - lo}
}

// home names the nodes that are counted from 0 together.
func (j *job) home() string {
	if t := j.model.Types; t != nil {
		return "type " + t.Nodes[t.Seed]
	}
	return "graph"
}

// checkNodes refuses nodes without outputs; name says where the ids, which ascend, are from.
func (j *job) checkNodes(name string, ids []uint32) error {
	f, t := j.data.Facts(), j.model.Types
	if t == nil || len(ids) == 0 {
		return nil
	}
	lo, hi := f.Types.Range(t.Seed)
	for _, v := range []uint32{ids[0], ids[len(ids)-1]} {
		if int64(v) < lo || int64(v) >= hi {
			return fault.New(fault.ErrUsage, "--nodes %s: a node is of type %s, but %s has outputs for nodes of type %s alone",
				name, t.Nodes[f.Types.Of(v)], j.options.Run, t.Nodes[t.Seed])
		}
	}
	return nil
}

// featured returns the number of nodes with features of their own, which the table of features begins with.
func featured(f *dataset.Facts) int64 {
	if f.Types == nil {
		return f.Nodes
	}
	n := int64(0)
	for _, k := range f.Types.Nodes {
		if k.Features {
			n += k.Count
		}
	}
	return n
}

// computed returns for each layer up to last which types it is computed for.
func (j *job) computed(last int) [][]bool {
	m := &j.model
	types := make([][]bool, last+1)
	types[last] = make([]bool, len(m.Types.Nodes))
	types[last][m.Types.Seed] = true
	for l := last; l > 0; l-- {
		needed := slices.Clone(types[l])
		for _, r := range m.Types.Relations {
			needed[r.Source] = needed[r.Source] || types[l][r.Destination]
		}
		for kind, alive := range m.Alive(l) {
			needed[kind] = needed[kind] && alive
		}
		types[l-1] = needed
	}
	return types
}

// layerParts returns the destinations of each layer up to last, which is computed for t; nil in an untyped graph.
func (j *job) layerParts(last int, t *targets) ([][]grid.Part, error) {
	if j.model.Types == nil {
		return nil, nil
	}
	f := j.data.Facts()
	seed := j.model.Types.Seed
	lo, hi := f.Types.Range(seed)
	if n := t.len(); n > 0 && (int64(t.at(0)) < lo || int64(t.at(n-1)) >= hi) {
		return nil, fault.New(fault.ErrCorrupt, "%s: a node of a split is of another type than %s", j.options.Dataset, f.Types.Nodes[seed].Name)
	}
	rows := make([]int64, len(f.Types.Nodes)) // of each type's first node in the layer's table; -1: it has none
	for kind, k := range f.Types.Nodes {
		if rows[kind], _ = f.Types.Range(kind); !k.Features {
			rows[kind] = -1
		}
	}
	var layers [][]grid.Part
	for l, kinds := range j.computed(last) {
		var parts []grid.Part
		next, end := slices.Repeat([]int64{-1}, len(rows)), 0
		for kind, is := range kinds {
			if !is {
				continue
			}
			p := j.part(&f, kind, rows)
			p.Lo, p.Hi = end, end+int(f.Types.Nodes[kind].Count)
			if l == last {
				p.Hi = t.len()
			}
			next[kind], end = int64(p.Lo), p.Hi
			parts = append(parts, p)
		}
		layers, rows = append(layers, parts), next
	}
	return layers, nil
}

// part returns a type's destinations, without their places. Sources without rows are left out.
func (j *job) part(f *dataset.Facts, kind int, rows []int64) grid.Part {
	node, _ := f.Types.Range(kind)
	first, n := f.Types.Into(kind)
	begin, _ := f.Types.Rows(uint32(node))
	p := grid.Part{Node: uint32(node), Begin: begin, Rows: n, Own: rows[kind], Lists: &prepare.Lists{Kind: kind}}
	for at := range n {
		r := first + at
		source := f.Types.Relations[r].Source
		if rows[source] < 0 {
			continue
		}
		lo, _ := f.Types.Range(source)
		p.Links = append(p.Links, grid.Link{At: at, Relation: r, Shift: lo - rows[source], Lo: rows[source], Hi: rows[source] + f.Types.Nodes[source].Count})
		p.Lists.Relations = append(p.Lists.Relations, r)
	}
	return p
}

// eachList calls see for the lists of a step's targets.
func (j *job) eachList(ctx context.Context, s *step, see func(l grid.List) error) error {
	return j.ofDataset(j.topology.Guard(func() error {
		return grid.EachList(ctx, s.parts, s.targets.ids, &j.topology.CSC, 0, s.targets.len(), see)
	}))
}

// measureParts counts the lists of a step.
func (j *job) measureParts(ctx context.Context, s *step) (n lists, err error) {
	n.groups = make([]int64, (s.targets.len()+grid.GPUGroup-1)/grid.GPUGroup)
	err = j.eachList(ctx, s, func(l grid.List) error {
		n.count++
		n.edges += int64(len(l.Sources))
		n.groups[l.Target/grid.GPUGroup] += int64(len(l.Sources))
		n.most = max(n.most, int64(len(l.Sources)))
		if len(l.Sources) > grid.Fold {
			n.long++
		}
		return nil
	})
	if err == nil {
		err = n.check(j.options.Dataset)
	}
	return n, err
}

// findNeededOfParts is findNeeded in a typed graph.
func (j *job) findNeededOfParts(ctx context.Context, s *step) error {
	t := s.sizes.Table
	need := make([]bool, t.Pieces())
	err := j.eachList(ctx, s, func(l grid.List) error {
		for _, u := range l.Sources {
			row := int64(u) - l.Link.Shift
			if row < l.Link.Lo || row >= l.Link.Hi {
				return fault.New(fault.ErrCorrupt, "node %d has the in-neighbour %d, which is of another type than its relation", l.Node, u)
			}
			t.Mark(need, uint32(row))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.sizes.Shape.Last {
		s.sizes.MarkOwn(need)
	}
	s.sizes.Need = need
	return nil
}
