package pyg

import (
	"cmp"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
)

// store has the attributes of a node type, the only name in its key, or of a relation: source, name,
// destination.
type store struct {
	key        []string
	attributes *pickle.Dict
}

func (s *store) name() string { return strings.Join(s.key, ":") }

// stores returns the attributes of a saved HeteroData, by node types and by relations.
func stores(root any) (nodes, edges []store, err error) {
	v, hetero, err := saved(root)
	switch {
	case err != nil:
		return nil, nil, err
	case !hetero:
		return nil, nil, bad("its graph has one type of nodes (Data): import it without --typed")
	}
	var found importer.Problems
	add := func(k, v any) {
		s, err := newStore(k, v)
		switch {
		case err != nil:
			found.Add(err)
		case len(s.key) == 1:
			nodes = append(nodes, s)
		default:
			edges = append(edges, s)
		}
	}
	if o, ok := v.(*pickle.Object); ok {
		state, _ := torchfile.Dict(o.State)
		for _, part := range []string{"_node_store_dict", "_edge_store_dict"} {
			var of any
			if state != nil {
				of, _ = state.Get(part)
			}
			d, ok := torchfile.Dict(of)
			if !ok {
				return nil, nil, bad("its HeteroData object has no %s", part)
			}
			for i, k := range d.Keys {
				add(k, d.Values[i])
			}
		}
	} else if d, ok := torchfile.Dict(v); ok {
		for i, k := range d.Keys {
			if k != "_global_store" {
				add(k, d.Values[i])
			}
		}
	}
	if len(nodes) == 0 || len(edges) == 0 {
		found.Add(bad("its graph has %d node types and %d relations: it must have at least one of each", len(nodes), len(edges)))
	}
	return nodes, edges, found.Err()
}

// newStore reads the attributes of a type: a dictionary, or an object that has one.
func newStore(k, v any) (s store, err error) {
	switch k := k.(type) {
	case string:
		s.key = []string{k}
	case *pickle.Tuple:
		for _, item := range k.Items {
			name, ok := item.(string)
			if !ok {
				return s, bad("the name of a relation has a part that is no text")
			}
			s.key = append(s.key, name)
		}
		if len(s.key) != 3 {
			return s, bad("the relation %.100q is not a source, a name and a destination", s.name())
		}
	default:
		return s, bad("a type of its graph has a name that is no text")
	}
	if o, ok := v.(*pickle.Object); ok && o.Class.Module != "collections" {
		v = nil
		if state, ok := torchfile.Dict(o.State); ok {
			v, _ = state.Get("_mapping")
		}
	}
	d, ok := torchfile.Dict(v)
	if !ok {
		return s, bad("the type %.100q has no dictionary of attributes", s.name())
	}
	s.attributes = d
	return s, nil
}

// find returns the attributes of a node type or a relation.
func find(list []store, key ...string) *store {
	i := slices.IndexFunc(list, func(s store) bool { return slices.Equal(s.key, key) })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// pickOf returns an attribute of a node type or a relation, as pick does of a graph of one type.
func pickOf(of []string, key string) func(root any) (any, error) {
	return func(root any) (any, error) {
		nodes, edges, err := stores(root)
		if err != nil {
			return nil, err
		}
		s := find(append(nodes, edges...), of...)
		if s == nil {
			return nil, bad("its graph has no type %s", strings.Join(of, ":"))
		}
		return within(s.attributes, key)
	}
}

// openTyped opens a HeteroData.
func (s *source) openTyped(o *importer.Reading) (importer.Source, error) {
	g := tables.Typed{Name: s.name, Files: []string{s.name}}
	var err error
	if g.Shape.Held, err = torchfile.Held(s.fs, s.name); err != nil {
		return nil, err
	}
	var nodes, edges []store
	if err := torchfile.Look(s.fs, s.name, func(root any) (err error) {
		nodes, edges, err = stores(root)
		return err
	}); err != nil {
		return nil, err
	}
	for _, k := range nodes {
		t := tables.NodeType{Name: k.name()}
		if v, _ := k.attributes.Get("num_nodes"); v != nil {
			if t.Count, _ = torchfile.Int(v); t.Count < 1 {
				return nil, bad("%s: num_nodes of %s is no number above 0", s.name, t.Name)
			}
		}
		if x, _ := k.attributes.Get("x"); x != nil {
			t.Features = tables.Features{s.tableOf(t.Name, "x")}
		}
		g.Types = append(g.Types, t)
	}
	var dropped []string
	for _, k := range edges {
		data, err := s.addRelation(&g, k)
		if err != nil {
			return nil, err
		}
		dropped = append(dropped, data...)
	}
	g.Shape.DropEdgeData(s.name, dropped)
	if err := s.findLabels(&g, nodes, o); err != nil {
		return nil, err
	}
	for _, t := range g.Types {
		if t.Count == 0 && len(t.Features) == 0 {
			return nil, bad("%s: the number of nodes of the type %s is not known: set data[%q].num_nodes", s.name, t.Name, t.Name)
		}
	}
	return tables.NewTyped(g, o)
}

// tableOf returns an attribute of a type as a table.
func (s *source) tableOf(of, key string) tables.Table {
	return tables.Table{Name: s.name + ": " + of + "." + key, Open: func() (matrix.Matrix, error) {
		return matrix.OpenTorch(s.fs, s.name, of+"."+key, pickOf([]string{of}, key))
	}}
}

// addRelation adds the edges of a relation, and returns the names of its data of edges.
func (s *source) addRelation(g *tables.Typed, k store) (dropped []string, err error) {
	r := tables.Relation{Source: k.key[0], Name: k.key[1], Destination: k.key[2]}
	names := torchfile.Keys(k.attributes)
	for _, name := range names {
		if name != "edge_index" && name != "adj_t" {
			dropped = append(dropped, k.name()+"."+name)
		}
	}
	if slices.Contains(names, "edge_index") || !slices.Contains(names, "adj_t") {
		name, pick := k.name()+".edge_index", pickOf(k.key, "edge_index")
		array := func() (*npz.Array, error) { return torchfile.Array(s.fs, s.name, name, pick) }
		r.Edges = tables.Edges{Name: s.name + ": " + name, Open: func() (stream.Pairs, error) { return stream.TwoRows(array) }}
		if r.Edges.Count, _, err = stream.CountTwoRows(array); err != nil {
			return nil, err
		}
		g.Relations = append(g.Relations, r)
		return dropped, nil
	}
	name := k.name() + ".adj_t"
	m, err := matrix.SparseTorch(s.fs, s.name, name, pickOf(k.key, "adj_t"))
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, bad("%s: %s is no sparse tensor", s.name, name)
	}
	// A row has the sources of a node.
	r.Edges = tables.Edges{Name: m.Name, Open: func() (stream.Pairs, error) { return m.Pairs(true) }}
	if r.Edges.Count, err = m.Count(); err != nil {
		return nil, err
	}
	for i := range g.Types {
		switch t := &g.Types[i]; {
		case t.Count > 0 || len(t.Features) > 0:
		case t.Name == r.Destination:
			t.Count = m.Rows
		case t.Name == r.Source:
			t.Count = m.Columns
		}
	}
	g.Relations = append(g.Relations, r)
	weighted, err := m.Weighted()
	if weighted {
		dropped = append(dropped, name)
	}
	return dropped, err
}

// findLabels finds the type with labels, which has an attribute y, and its sets.
func (s *source) findLabels(g *tables.Typed, nodes []store, o *importer.Reading) error {
	var labelled []string
	for _, k := range nodes {
		if v, _ := k.attributes.Get("y"); v != nil {
			labelled = append(labelled, k.name())
		}
	}
	of, all := o.Task, cmp.Or(strings.Join(labelled, ", "), "none")
	switch {
	case of != "" && find(nodes, of) == nil:
		return fault.New(fault.ErrUsage, "--task %s: %s has no such node type; with labels y it has %.200s", of, s.name, all)
	case of != "":
		g.Shape.Reading = map[string]string{"task": of}
	case len(labelled) == 1:
		of = labelled[0]
	case !o.Labelled() && len(labelled) == 0:
		return nil
	default:
		return bad("%s: %d node types have labels y (%.200s): choose one with --task", s.name, len(labelled), all)
	}
	if g.Labelled = of; !o.Labelled() {
		return nil
	}
	if !slices.Contains(labelled, of) {
		return bad("%s: the node type %s has no labels y; with labels it has %.200s", s.name, of, all)
	}
	g.Labels = s.tableOf(of, "y")
	for i := range g.Types {
		if t := &g.Types[i]; t.Name == of && t.Count == 0 && len(t.Features) == 0 {
			if err := importer.With(g.Labels.Open, func(m matrix.Matrix) error { t.Count = m.Rows(); return nil }); err != nil {
				return err
			}
		}
	}
	s.findSets(&g.Sets, &g.Shape, find(nodes, of).attributes, func(key string) tables.Table { return s.tableOf(of, key) })
	return nil
}

// within returns an attribute, or of the dictionary of sets in it, NAME.SET.
func within(d *pickle.Dict, key string) (any, error) {
	name, set, nested := strings.Cut(key, ".")
	v, _ := d.Get(name)
	if sets, ok := torchfile.Dict(v); nested && ok {
		v, _ = sets.Get(set)
	}
	if v == nil {
		return nil, bad("its graph has no %s; it has %.200s", key, strings.Join(torchfile.Keys(d), ", "))
	}
	return v, nil
}

var errTypes = bad("its graph has several types (HeteroData): give --typed to keep them, or make a graph of one type (Data) in Python with data.to_homogeneous(), and save that with torch.save")

// saved returns the saved graph, and whether it is a HeteroData.
func saved(root any) (v any, hetero bool, err error) {
	v = root
	if t, ok := root.(*pickle.Tuple); ok && (len(t.Items) == 2 || len(t.Items) == 3) {
		v = t.Items[0]
		class, ok := t.Items[len(t.Items)-1].(pickle.Global)
		hetero = ok && class.Name == "HeteroData"
		if t.Items[1] != nil {
			return nil, hetero, bad("it has several graphs instead of one")
		}
	}
	if list, ok := v.(*pickle.List); ok {
		if len(list.Items) != 1 {
			return nil, hetero, bad("it contains a list of %d values, not a graph of PyTorch Geometric: save one graph by itself", len(list.Items))
		}
		v = list.Items[0]
	}
	if o, is := v.(*pickle.Object); is && o.Class.Name == "HeteroData" {
		return v, true, nil
	}
	if d, ok := torchfile.Dict(v); ok {
		if _, ok := d.Get("_global_store"); ok {
			return v, true, nil
		}
	}
	if hetero {
		return v, true, nil
	}
	return v, false, nil
}
