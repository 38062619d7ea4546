package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

// citations have papers, which cite papers, authors, who write papers, and venues, to which nothing leads.
func citations() *Types {
	return &Types{Nodes: []string{"paper", "author", "venue"},
		Relations: []Relation{{0, "cites", 0}, {1, "writes", 0}, {0, "has.a", 1}, {2, "prints", 1}}}
}

// The names and shapes of the state_dict of HeteroConvs of SAGEConvs, and of RGCNConvs, and the bounds.
func TestTypedParams(t *testing.T) {
	for _, c := range []struct {
		m    Model
		want string
	}{
		{Model{Kind: RSAGE, Dims: []int{4, 3}},
			"convs.0.convs.<paper___cites___paper>.lin_l.weight [3 4] 0.5, convs.0.convs.<author___writes___paper>.lin_l.weight [3 4] 0.5, " +
				"convs.0.convs.<paper___has#a___author>.lin_l.weight [3 4] 0.5, convs.0.convs.<venue___prints___author>.lin_l.weight [3 4] 0.5, " +
				"convs.0.convs.<paper___cites___paper>.lin_r.weight [3 4] 0.5, convs.0.convs.<author___writes___paper>.lin_r.weight [3 4] 0.5, " +
				"convs.0.convs.<paper___has#a___author>.lin_r.weight [3 4] 0.5, convs.0.convs.<venue___prints___author>.lin_r.weight [3 4] 0.5, " +
				"convs.0.convs.<paper___cites___paper>.lin_l.bias [3] 0.5, convs.0.convs.<author___writes___paper>.lin_l.bias [3] 0.5, " +
				"convs.0.convs.<paper___has#a___author>.lin_l.bias [3] 0.5, convs.0.convs.<venue___prints___author>.lin_l.bias [3] 0.5"},
		{Model{Kind: RGAT, Dims: []int{4, 6, 1}, Heads: 2, Types: &Types{Nodes: []string{"a"}, Relations: []Relation{{Name: "r"}, {Name: "s"}}}},
			"convs.0.convs.<a___r___a>.lin.weight [6 4] 0.774597, convs.0.convs.<a___s___a>.lin.weight [6 4] 0.774597, " +
				"convs.0.convs.<a___r___a>.att_src [1 2 3] 1.09545, convs.0.convs.<a___s___a>.att_src [1 2 3] 1.09545, " +
				"convs.0.convs.<a___r___a>.att_dst [1 2 3] 1.09545, convs.0.convs.<a___s___a>.att_dst [1 2 3] 1.09545, " +
				"convs.0.convs.<a___r___a>.bias [6] 0, convs.0.convs.<a___s___a>.bias [6] 0, " +
				"convs.1.convs.<a___r___a>.lin.weight [2 6] 0.866025, convs.1.convs.<a___s___a>.lin.weight [2 6] 0.866025, " +
				"convs.1.convs.<a___r___a>.att_src [1 2 1] 1.41421, convs.1.convs.<a___s___a>.att_src [1 2 1] 1.41421, " +
				"convs.1.convs.<a___r___a>.att_dst [1 2 1] 1.41421, convs.1.convs.<a___s___a>.att_dst [1 2 1] 1.41421, " +
				"convs.1.convs.<a___r___a>.bias [1] 0, convs.1.convs.<a___s___a>.bias [1] 0"},
		{Model{Kind: RGCN, Dims: []int{4, 2}}, "convs.0.weight [4 4 2] 1, convs.0.root [4 2] 1, convs.0.bias [2] 0"},
		{Model{Kind: RGCN, Dims: []int{4, 2}, Bases: 2}, "convs.0.weight [2 4 2] 1, convs.0.comp [4 2] 1, convs.0.root [4 2] 1, convs.0.bias [2] 0"},
	} {
		if c.m.Types == nil {
			c.m.Types = citations()
		}
		if err := c.m.Validate(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range c.m.Params() {
			got = append(got, fmt.Sprintf("%s %v %.6g", p.Name, p.Shape, p.Bound))
			n, places := 1, map[int]bool{}
			for _, d := range p.Shape {
				n *= d
			}
			for row := range p.Rows {
				for col := range p.Cols {
					places[p.Place(row, col)] = true
				}
			}
			if p.Len() != n || len(places) != n {
				t.Errorf("%s: %d elements at %d places, of the shape %v", p.Name, p.Len(), len(places), p.Shape)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s has the parameters\n%s, want\n%s", c.m.Kind, text, c.want)
		}
	}
	straight := Param{Rows: 2, Cols: 3, Straight: true}
	if across := (Param{Rows: 2, Cols: 3}); straight.Place(1, 2) != 5 || straight.Place(0, 1) != 1 || across.Place(1, 2) != 5 || across.Place(0, 1) != 2 {
		t.Error("places in PyTorch's tensors")
	}
}

// Nothing leads to venues, so that they feed the first layer alone; with a root they feed each.
func TestAlive(t *testing.T) {
	m := Model{Kind: RSAGE, Dims: []int{4, 4, 4, 4}, Types: citations()}
	for l, want := range [][]bool{{true, true, true}, {true, true, false}, {true, true, false}} {
		if got := m.Alive(l); !slices.Equal(got, want) {
			t.Errorf("layer %d: %v", l, got)
		}
	}
	if got := m.TakesPart(1); !slices.Equal(got, []bool{true, true, true, false}) || slices.Contains(m.TakesPart(0), false) {
		t.Errorf("layer 1: relations %v", got)
	}
	m.Types.Relations = []Relation{{2, "prints", 1}, {1, "meets", 1}}
	m.Types.Seed = 1
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	m.Types.Relations = m.Types.Relations[:1] // venues, then authors, then nobody
	if err := m.Validate(); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "of type author") {
		t.Error(err)
	}
	if m.Kind = RGCN; m.Validate() != nil || slices.Contains(m.Alive(3), false) {
		t.Error("R-GCN has rows of every type")
	}
	for kind, want := range [][2]int{{0, 2}, {2, 2}, {4, 0}} {
		if first, n := citations().Into(kind); first != want[0] || n != want[1] {
			t.Errorf("%d relations from %d on lead to type %d", n, first, kind)
		}
	}
}

func TestTypedOptions(t *testing.T) {
	for want, spoil := range map[string]func(m *Model){
		"rgcn is for graphs with node types":       func(m *Model) { m.Types = nil },
		"node types are for other kinds than sage": func(m *Model) { m.Kind = SAGE },
		"no norm":                                     func(m *Model) { m.Norm = LayerNorm },
		"no residual":                                 func(m *Model) { m.Residual = true },
		"no input projection":                         func(m *Model) { m.InputProjection = 3 },
		"one order":                                   func(m *Model) { m.Orders = []Order{Aggregate} },
		"aggregator max is for sage, not rgcn":        func(m *Model) { m.Aggregator = Max },
		"heads 2 is for gat and rgat, not rgcn":       func(m *Model) { m.Heads = 2 },
		"bases 2 is for rgcn, not rsage":              func(m *Model) { m.Kind, m.Bases = RSAGE, 2 },
		"-1 bases":                                    func(m *Model) { m.Bases = -1 },
		"1025 bases":                                  func(m *Model) { m.Bases = 1025 },
		"0 node types":                                func(m *Model) { m.Types.Nodes = nil },
		"0 relations":                                 func(m *Model) { m.Types.Relations = nil },
		"have type 3 of 3":                            func(m *Model) { m.Types.Seed = 3 },
		`"writes" leads from type 3`:                  func(m *Model) { m.Types.Relations[1].Source = 3 },
		`"cites" leads from type 0 to type -1`:        func(m *Model) { m.Types.Relations[0].Destination = -1 },
		`"prints" leads from type 2 to type 0, after`: func(m *Model) { m.Types.Relations[3].Destination = 0 },
		"have the name \"<author___writes___paper>\"": func(m *Model) { m.Types.Relations[0] = m.Types.Relations[1] },
		"have the name \"<a___b___c___d>\" in PyTorch": func(m *Model) {
			m.Types = &Types{Nodes: []string{"a", "a___b", "d"}, Relations: []Relation{{0, "b___c", 2}, {1, "c", 2}}}
		},
	} {
		m := Model{Kind: RGCN, Dims: []int{4, 2}, Types: citations()}
		spoil(&m)
		if err := m.Validate(); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
