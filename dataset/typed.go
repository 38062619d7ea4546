package dataset

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Needs of a dataset of version 5: properties that a reader must know, by Facts.Needs.
const (
	needTypes       = "types"
	needCompression = "compressed features"
	needIDs         = "original ids"
)

// needs returns the properties that a reader of the dataset must know, in the order in which Facts.Needs has it.
func (f *Facts) needs() []string {
	var needs []string
	for _, n := range []struct {
		name string
		is   bool
	}{{needTypes, f.Types != nil}, {needCompression, f.Compression != ""}, {needIDs, f.OriginalIDs != ""}} {
		if n.is {
			needs = append(needs, n.name)
		}
	}
	return needs
}

// Rows returns the number of rows of the topology: of the nodes, or, in a typed graph, of their relations.
func (f *Facts) Rows() int64 {
	if f.Types == nil {
		return f.Nodes
	}
	return f.Types.NumRows()
}

// FeatureRows returns the number of rows of features: of the nodes, or, in a typed graph, of graph.Types.
func (f *Facts) FeatureRows() int64 {
	if f.Types == nil {
		return f.Nodes
	}
	return f.Types.NumFeatureRows()
}

// featuredNodes returns the number of nodes with rows of features of their own. Other rows are zero.
func (f *Facts) featuredNodes() int64 {
	n := f.FeatureRows()
	if f.Types == nil {
		return n
	}
	for _, t := range f.Types.Nodes {
		if !t.Features {
			n--
		}
	}
	return n
}

// labelledRange returns the nodes that may have labels: from lo to hi − 1.
func (f *Facts) labelledRange() (lo, hi int64) {
	if f.Types == nil {
		return 0, f.Nodes
	}
	return f.Types.Range(f.LabelledType)
}

// checkTypes checks the types and the needs, and prepares the types.
func (f *Facts) checkTypes() error {
	known := []string{needTypes, needCompression, needIDs}
	for _, n := range f.Needs {
		if !slices.Contains(known, n) {
			return fault.New(fault.ErrVersion, "it needs a newer program: it has %.20q", n)
		}
	}
	if f.Types == nil {
		if len(f.Needs) > 0 || f.LabelledType != 0 {
			return fault.New(fault.ErrCorrupt, "it has no types, but needs %.100q, and the labelled type %d", f.Needs, f.LabelledType)
		}
		return nil
	}
	if !slices.Equal(f.Needs, f.needs()) {
		return fault.New(fault.ErrCorrupt, "it needs %.100q instead of %q", f.Needs, f.needs())
	}
	if err := f.Types.Check(); err != nil {
		return fault.New(fault.ErrCorrupt, "%w", err)
	}
	nodes := f.Types.Nodes
	if n := f.Types.NumNodes(); n != f.Nodes {
		return fault.New(fault.ErrCorrupt, "its types have %d nodes, but it has %d", n, f.Nodes)
	}
	if f.Types.NumRows() > graph.MaxNodes {
		return fault.New(fault.ErrVersion, "it has %d pairs of a node and a relation into its type; this version has 32-bit numbers for at most %d", f.Types.NumRows(), int64(graph.MaxNodes))
	}
	if !nodes[0].Features {
		return fault.New(fault.ErrCorrupt, "no node type has features: the first, %.20q, has none", nodes[0].Name)
	}
	if f.LabelledType < 0 || f.LabelledType >= len(nodes) {
		return fault.New(fault.ErrCorrupt, "node type %d has the labels, but there are %d types", f.LabelledType, len(nodes))
	}
	if n := nodes[f.LabelledType].Count; f.Train+f.Valid+f.Test > n || f.Nodes-f.Unlabelled > n {
		return fault.New(fault.ErrCorrupt, "%d nodes have labels, but the type %.20q has %d nodes", f.Nodes-f.Unlabelled, nodes[f.LabelledType].Name, n)
	}
	return nil
}

// Open is OpenAny, but a typed graph is an error of kind fault.ErrInput.
func Open(fsys vfs.FS, dir string) (*Dataset, error) {
	d, err := OpenAny(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := d.CheckUntyped(); err != nil {
		return nil, err
	}
	return d, nil
}

// CheckUntyped returns an error of kind fault.ErrInput if the graph is typed.
func (d *Dataset) CheckUntyped() error {
	t := d.facts.Types
	if t == nil {
		return nil
	}
	return fault.New(fault.ErrInput, "%s has %d node types and %d relations: this command takes graphs with one of each", d.dir, len(t.Nodes), len(t.Relations))
}

// checkSources checks the sources of a row of a typed graph: nodes of the type that its relation leads from.
func (d *Dataset) checkSources(row int64, sources []uint32) error {
	t := d.facts.Types
	if t == nil || len(sources) == 0 {
		return nil
	}
	v, relation := t.RowOf(row)
	lo, hi := t.Range(t.Relations[relation].Source)
	first, last := int64(sources[0]), int64(sources[len(sources)-1]) // they ascend
	if first < lo || last >= hi {
		u := first
		if first >= lo {
			u = last
		}
		return fault.New(fault.ErrCorrupt, "%s: node %d has the in-neighbour %d by the relation %.60s, which leads from nodes %d to %d",
			d.path(IndicesFile), v, u, t.Triple(relation), lo, hi-1)
	}
	return nil
}
