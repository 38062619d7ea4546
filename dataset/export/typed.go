package export

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
)

//go:embed load.py
var loadPy []byte

// pygGraph is graph.json of FormatPyG, which load.py reads.
type pygGraph struct {
	Typed     bool          `json:"typed"`
	Types     []pygType     `json:"types"`
	Relations []pygRelation `json:"relations"`
}

// pygType is a node type and its files: Data has them by the names of PyTorch Geometric's attributes.
type pygType struct {
	Name     string            `json:"name"`
	Nodes    int64             `json:"nodes"`
	Features string            `json:"features,omitempty"`
	Data     map[string]string `json:"data,omitempty"`
}

// pygRelation is a relation and the file of its edges.
type pygRelation struct {
	Source      string `json:"source"`
	Name        string `json:"name"`
	Destination string `json:"destination"`
	Edges       string `json:"edges"`
}

// types returns the types of the graph: of an untyped one, a type and a relation.
func (e *exporting) types() (*graph.Types, error) {
	if e.f.Types != nil {
		return e.f.Types, nil
	}
	t := &graph.Types{Nodes: []graph.NodeType{{Name: "node", Count: e.f.Nodes, Features: true}}, Relations: []graph.Relation{{Name: "to"}}}
	return t, t.Check()
}

func featuresOf(kind int) string  { return fmt.Sprintf("feat%d.npy", kind) }
func edgesOf(relation int) string { return fmt.Sprintf("edges%d.npy", relation) }

// byType writes the features of each type and the edges of each relation, nodes counted from 0 in their types.
func (e *exporting) byType(t *graph.Types) (err error) {
	top, err := e.d.Topology(e.ctx, e.rep, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	for r := range t.Relations {
		if err := top.Guard(func() error { return e.relation(top, t, r) }); err != nil {
			return err
		}
	}
	if err := top.Unchanged(); err != nil {
		return err
	}
	for i, k := range t.Nodes {
		if !k.Features {
			continue
		}
		lo, hi := t.Range(i)
		if err := e.featureRows(featuresOf(i), lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// relation writes the edges of a relation: sources, then destinations, ordered by destination.
func (e *exporting) relation(top *dataset.Topology, t *graph.Types, r int) error {
	k := t.Relations[r]
	lo, hi := t.Range(k.Destination)
	before, _ := t.Range(k.Source)
	into, _ := t.Into(k.Destination)
	row, step := t.Rows(uint32(lo))
	row += int64(r - into)
	// each calls do for all destinations, with their sources.
	each := func(do func(v int64, sources []uint32) error) error {
		for v := lo; v < hi; v++ {
			sources, err := top.Row(uint32(row + (v-lo)*int64(step)))
			if err != nil {
				return err
			}
			if err := do(v-lo, sources); err != nil {
				return err
			}
		}
		return nil
	}
	edges := int64(0)
	if err := each(func(_ int64, sources []uint32) error { edges += int64(len(sources)); return nil }); err != nil {
		return err
	}
	return e.array(edgesOf(r), "<i8", []int64{2, edges}, func(w *file) error {
		ends := integers{w: w}
		if err := each(func(_ int64, sources []uint32) error {
			for _, u := range sources {
				if err := ends.add(int64(u) - before); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if err := each(func(v int64, sources []uint32) error {
			for range sources {
				if err := ends.add(v); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		return ends.flush()
	})
}

// pyg writes arrays of each type and relation, with a program that loads them.
func (e *exporting) pyg() error {
	t, err := e.types()
	if err != nil {
		return err
	}
	if err := e.byType(t); err != nil {
		return err
	}
	g := pygGraph{Typed: e.f.Types != nil}
	for i, k := range t.Nodes {
		p := pygType{Name: k.Name, Nodes: k.Count}
		if k.Features {
			p.Features = featuresOf(i)
		}
		if i == e.f.LabelledType {
			if p.Data, err = e.pygLabels(t.Range(i)); err != nil {
				return err
			}
		}
		g.Types = append(g.Types, p)
	}
	for r, k := range t.Relations {
		g.Relations = append(g.Relations, pygRelation{t.Nodes[k.Source].Name, k.Name, t.Nodes[k.Destination].Name, edgesOf(r)})
	}
	b, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	if err := e.create("graph.json", func(w *file) error { return w.append(append(b, '\n')) }); err != nil {
		return err
	}
	return e.create("load.py", func(w *file) error { return w.append(loadPy) })
}

// pygLabels writes the labels and the masks of the nodes from lo on, up to hi.
func (e *exporting) pygLabels(lo, hi int64) (files map[string]string, err error) {
	labels, err := e.d.Labels()
	if err != nil {
		return nil, err
	}
	files = map[string]string{"y": "y.npy"}
	if e.f.MultiLabel() {
		err = e.array("y.npy", "|u1", []int64{hi - lo, int64(e.f.Classes)}, func(w *file) error { return e.targetsOf(w, lo, hi) })
	} else {
		err = e.array("y.npy", "<i8", []int64{hi - lo}, func(w *file) error {
			values := integers{w: w}
			for _, c := range labels[lo:hi] {
				if err := values.add(int64(c)); err != nil {
					return err
				}
			}
			return values.flush()
		})
	}
	if err != nil {
		return nil, err
	}
	for i, name := range dataset.SplitNames {
		mask := []string{"train_mask", "val_mask", "test_mask"}[i]
		files[mask] = mask + ".npy"
		nodes, err := e.d.Split(name)
		if err != nil {
			return nil, err
		}
		if err := e.array(files[mask], "|b1", []int64{hi - lo}, func(w *file) error {
			part := make([]byte, rowsAtOnce)
			for at := lo; at < hi; at += rowsAtOnce {
				b := part[:min(rowsAtOnce, hi-at)]
				clear(b)
				for ; len(nodes) > 0 && int64(nodes[0]) < at+int64(len(b)); nodes = nodes[1:] {
					b[int64(nodes[0])-at] = 1
				}
				if err := w.append(b); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// graphBoltTypes describes the types and relations in metadata.yaml.
func (e *exporting) graphBoltTypes(t *graph.Types) (nodes, edges, features string) {
	var n, l, f strings.Builder
	for i, k := range t.Nodes {
		fmt.Fprintf(&n, "    - type: %s\n      num: %d\n", quoted(k.Name), k.Count)
		if k.Features {
			fmt.Fprintf(&f, "  - domain: node\n    type: %s\n    name: feat\n    format: numpy\n    in_memory: false\n    path: %s\n", quoted(k.Name), featuresOf(i))
		}
	}
	for r := range t.Relations {
		fmt.Fprintf(&l, "    - type: %s\n      format: numpy\n      path: %s\n", quoted(t.Triple(r)), edgesOf(r))
	}
	return n.String(), l.String(), f.String()
}

// quoted writes a name as YAML.
func quoted(name string) string {
	b, err := json.Marshal(name) // which YAML includes
	if err != nil {
		return `""` // a string has a form
	}
	return string(b)
}

// checkNames refuses names in which GraphBolt would find other types.
func (e *exporting) checkNames() error {
	if e.f.Types == nil {
		return nil
	}
	var names []string
	for _, k := range e.f.Types.Nodes {
		names = append(names, k.Name)
	}
	for _, k := range e.f.Types.Relations {
		names = append(names, k.Name)
	}
	for _, name := range names {
		if strings.Contains(name, ":") {
			return fault.New(fault.ErrInput, "the name %q has a colon, which separates the parts of GraphBolt's names of relations", name)
		}
	}
	return nil
}
