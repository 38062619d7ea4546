package graph

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// citations has 3 papers, 2 authors and 1 institution, which nothing leads to.
func citations() *Types {
	return &Types{
		Nodes: []NodeType{{"paper", 3, true}, {"author", 2, false}, {"institution", 1, false}},
		Relations: []Relation{
			{0, "cites", 0}, {1, "writes", 0},
			{0, "written by", 1},
		},
	}
}

func TestTypes(t *testing.T) {
	g := citations()
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if g.NumNodes() != 6 || g.NumRows() != 3*2+2*1 {
		t.Errorf("%d nodes and %d rows", g.NumNodes(), g.NumRows())
	}
	for v, want := range []struct {
		kind, n int
		first   int64
	}{{0, 2, 0}, {0, 2, 2}, {0, 2, 4}, {1, 1, 6}, {1, 1, 7}, {2, 0, 8}} {
		first, n := g.Rows(uint32(v))
		if kind := g.Of(uint32(v)); kind != want.kind || first != want.first || n != want.n {
			t.Errorf("node %d has type %d and %d rows from %d, want %+v", v, kind, n, first, want)
		}
	}
	for row, want := range []struct {
		v        uint32
		relation int
	}{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 2}, {4, 2}} {
		if v, r := g.RowOf(int64(row)); v != want.v || r != want.relation {
			t.Errorf("row %d is of node %d and relation %d, want %+v", row, v, r, want)
		}
	}
	if s := g.Triple(2); s != "paper:written by:author" {
		t.Error(s)
	}
}

func TestTypesCheck(t *testing.T) {
	for want, change := range map[string]func(*Types){
		"at least one of each":            func(g *Types) { g.Relations = nil },
		"is not a name":                   func(g *Types) { g.Nodes[1].Name = "" },
		"control character":               func(g *Types) { g.Relations[0].Name = "a\nb" },
		`two node types have the name "p`: func(g *Types) { g.Nodes[1].Name = "paper" },
		"node type author has 0 nodes":    func(g *Types) { g.Nodes[1].Count = 0 },
		"all have at most":                func(g *Types) { g.Nodes[1].Count = MaxNodes },
		"but there are 3 types":           func(g *Types) { g.Relations[1].Source = 3 },
		"leads from node type -1":         func(g *Types) { g.Relations[1].Source = -1 },
		"two relations are":               func(g *Types) { g.Relations[1] = g.Relations[0] },
		"in the order of":                 func(g *Types) { g.Relations[1].Destination = 2 },
		"65 relations lead to": func(g *Types) {
			g.Relations = nil
			for i := range 65 {
				g.Relations = append(g.Relations, Relation{0, strings.Repeat("r", i+1), 1})
			}
		},
	} {
		g := citations()
		change(g)
		if err := g.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTypesRows: rows are numbered in the order of nodes, then relations, and every row has one node.
func TestTypesRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := new(Types)
		for i := range rapid.IntRange(1, 4).Draw(t, "types") {
			g.Nodes = append(g.Nodes, NodeType{Name: strings.Repeat("t", i+1), Count: rapid.Int64Range(1, 5).Draw(t, "nodes")})
			for r := range rapid.IntRange(0, 3).Draw(t, "relations") {
				g.Relations = append(g.Relations, Relation{0, strings.Repeat("r", r+1), i})
			}
		}
		if len(g.Relations) == 0 {
			g.Relations = []Relation{{0, "r", 0}}
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		row := int64(0)
		for v := range uint32(g.NumNodes()) {
			kind := g.Of(v)
			if lo, hi := g.Range(kind); int64(v) < lo || int64(v) >= hi {
				t.Fatalf("node %d is not in type %d", v, kind)
			}
			first, n := g.Rows(v)
			from, into := g.Into(kind)
			if first != row || n != into {
				t.Fatalf("node %d has %d rows from %d, want %d from %d", v, n, first, into, row)
			}
			for r := range n {
				if g.Relations[from+r].Destination != kind {
					t.Fatalf("relation %d does not lead to type %d", from+r, kind)
				}
				if u, relation := g.RowOf(row); u != v || relation != from+r {
					t.Fatalf("row %d is of node %d and relation %d", row, u, relation)
				}
				row++
			}
		}
		if row != g.NumRows() {
			t.Fatalf("%d rows, want %d", g.NumRows(), row)
		}
	})
}
