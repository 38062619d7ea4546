package graph

import (
	"encoding/json"
	"slices"
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
		"is not a name of":                func(g *Types) { g.Nodes[1].Name = strings.Repeat("n", mostName+1) },
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

// typedBatch has the papers 0 and 2 and the author 4 as destinations of its only block, where papers are seeds.
func typedBatch() *Batch {
	g := citations()
	if err := g.Check(); err != nil {
		panic(err)
	}
	return &Batch{Types: g, Input: []uint32{0, 2, 1, 3}, Labels: []int32{0, 1}, Blocks: []Block{
		{NumSrc: 4, NumDst: 3, Indptr: []uint32{0, 1, 1, 1, 2, 3}, Indices: []uint32{1, 3, 0}, Dst: []uint32{0, 1, 3}, Ends: []uint32{3, 4, 4}},
		{NumSrc: 3, NumDst: 2, Indptr: []uint32{0, 0, 1, 1, 2}, Indices: []uint32{2, 2}, Dst: []uint32{0, 1}, Ends: []uint32{2, 3, 3}},
	}}
}

func TestTypedBatch(t *testing.T) {
	if b := typedBatch(); b.Validate() != nil || b.CheckTypes() != nil {
		t.Fatal(b.Validate(), b.CheckTypes())
	}
	for want, forge := range map[string]func(*Batch){
		"but the batch has none": func(b *Batch) {
			*b = Batch{Input: []uint32{5}, Labels: []int32{0}, Blocks: []Block{{NumSrc: 1, NumDst: 1, Indptr: []uint32{0, 0}, Ends: []uint32{1}}}}
		},
		"does not describe 3 destinations": func(b *Batch) { b.Types = nil },
		"seed nodes have type 3":           func(b *Batch) { b.SeedType = 3 },
		"seed nodes have type -1":          func(b *Batch) { b.SeedType = -1 },
		"layer 1: 4 rows instead of 2":     func(b *Batch) { b.SeedType = 1 },
		"do not divide":                    func(b *Batch) { b.Blocks[0].Ends[2] = 3 },
		"do not divide 4":                  func(b *Batch) { b.Blocks[0].Ends = []uint32{3, 4} },
		"descend":                          func(b *Batch) { b.Blocks[0].Ends[0] = 5 },
		"layer 0: 5 rows instead of 3":     func(b *Batch) { b.Blocks[1].Ends = []uint32{0, 3, 3} },
		"2 destination positions for 3":    func(b *Batch) { b.Blocks[0].Dst = b.Blocks[0].Dst[:2] },
		"0 destination positions for 3":    func(b *Batch) { b.Blocks[0].Dst = nil },
		"0 types of 4 input nodes":         func(b *Batch) { b.Blocks[0].Ends = nil },
		"input node 2 has type 3 of 3":     func(b *Batch) { b.Blocks[0].Ends, b.InputTypes = nil, []uint32{0, 0, 3, 0} },
		"and also 4 degrees":               func(b *Batch) { b.Degree = []uint32{1, 2, 3, 4} },
		"author has 1 destinations, but 0": func(b *Batch) { b.Blocks[0].Ends = []uint32{4, 4, 4} },
		"layer 0: row 2 has a source that the relation paper:cites:paper does not": func(b *Batch) { b.Blocks[0].Indptr[3] = 2 },
		"input node 3 is not a row of features of type paper: these are 0 to 2":    func(b *Batch) { b.Input[2] = 3 },
		"input node 4 is not a row of features of type author: these are 3 to 3":   func(b *Batch) { b.Input[3] = 4 },
		"input node 2 is not a row of features of type author":                     func(b *Batch) { b.Input[3] = 2 },
		"layer 0: row 3 has a source that the relation author:writes:paper":        func(b *Batch) { b.Blocks[0].Indices[1] = 2 },
		"layer 1: row 3 has a source":                                              func(b *Batch) { b.Blocks[1].Indices[1] = 1 },
		"layer 0: row 0 has a source": func(b *Batch) {
			b.Blocks[0].Ends, b.InputTypes = nil, []uint32{0, 1, 0, 1}
			b.Blocks[0].Dst[1] = 2
		},
		"a destination of type author is at a source of another": func(b *Batch) { b.Blocks[0].Dst[2] = 2 },
		"a destination of type paper is at a source of another": func(b *Batch) {
			b.Blocks[0].Ends, b.InputTypes = nil, []uint32{0, 1, 0, 1}
		},
	} {
		b := typedBatch()
		forge(b)
		err := b.Validate()
		if err == nil {
			err = b.CheckTypes()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Nodes without features share an input node, and nothing else.
func TestSharedSources(t *testing.T) {
	g := citations()
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	authors := func() *Batch { // both are seeds
		return &Batch{Types: g, SeedType: 1, Input: []uint32{0, 3}, Labels: []int32{0, 1}, Blocks: []Block{
			{NumSrc: 2, NumDst: 2, Indptr: []uint32{0, 1, 2}, Indices: []uint32{0, 0}, Dst: []uint32{1, 1}, Ends: []uint32{1, 2, 2}},
			{NumSrc: 2, NumDst: 2, Indptr: []uint32{0, 0, 0}, Dst: []uint32{0, 1}, Ends: []uint32{0, 2, 2}},
		}}
	}
	if b := authors(); b.Validate() != nil || b.CheckTypes() != nil {
		t.Error(b.Validate(), b.CheckTypes())
	}
	b := authors()
	b.Blocks[1] = Block{NumSrc: 2, NumDst: 2, Indptr: []uint32{0, 0, 0}, Dst: []uint32{1, 1}, Ends: []uint32{1, 2, 2}}
	b.Blocks[0] = Block{NumSrc: 2, NumDst: 2, Indptr: []uint32{0, 0, 0, 0}, Dst: []uint32{0, 1}, Ends: []uint32{1, 2, 2}}
	if err := b.Validate(); err == nil || !strings.Contains(err.Error(), "layer 1: type author has 2 destinations, but 1 sources") {
		t.Errorf("two authors at one source of an inner block: %v", err)
	}
	b = authors()
	b.Types = citations()
	b.Types.Nodes[1].Features, b.Input = true, []uint32{0, 4}
	if err := b.Types.Check(); err != nil {
		t.Fatal(err)
	}
	if err := b.Validate(); err == nil || !strings.Contains(err.Error(), "layer 0: type author has 2 destinations, but 1 sources") {
		t.Errorf("two authors with features at one source: %v", err)
	}
	if got := g.RowRelations(nil, []uint32{2, 3, 3}); !slices.Equal(got, []int{0, 1, 0, 1, 2}) {
		t.Errorf("rows have the relations %d", got)
	}
}

func TestTypesFromJSON(t *testing.T) {
	b, err := json.Marshal(citations())
	if err != nil {
		t.Fatal(err)
	}
	var g Types
	if err := json.Unmarshal(b, &g); err != nil || g.NumRows() != 8 {
		t.Errorf("%s: %v", b, err)
	}
	for _, text := range []string{`{}`, `{"node_types": 3}`} {
		if err := json.Unmarshal([]byte(text), new(Types)); err == nil {
			t.Errorf("%s has no error", text)
		}
	}
}

func TestPlaceDestinations(t *testing.T) {
	// Two of five sources of the first type, none of the second, one of the third.
	types := &Types{Nodes: []NodeType{{Name: "a", Count: 9, Features: true}, {Name: "b", Count: 9}, {Name: "c", Count: 9}}, Relations: []Relation{{Name: "r"}}}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	if got := types.PlaceDestinations([]uint32{9}, []uint32{2, 2, 3}, []uint32{5, 6, 8}, false); !slices.Equal(got, []uint32{0, 1, 6}) {
		t.Error(got)
	}
	// Two destinations of the second type, one of the third: each type has one row of features.
	if got := types.PlaceDestinations(nil, []uint32{1, 3, 4}, []uint32{5, 6, 7}, true); !slices.Equal(got, []uint32{0, 5, 5, 6}) {
		t.Error(got)
	}
}

// Nodes of types without features share a row after the rows of the others.
func TestFeatureRows(t *testing.T) {
	types := &Types{Nodes: []NodeType{{Name: "a", Count: 2, Features: true}, {Name: "b", Count: 1, Features: true}, {Name: "c", Count: 3}, {Name: "d", Count: 1}}, Relations: []Relation{{Name: "r"}}}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	if n := types.NumFeatureRows(); n != 5 {
		t.Errorf("%d rows", n)
	}
	for v, want := range []uint32{0, 1, 2, 3, 3, 3, 4} {
		if got := types.FeatureRow(uint32(v)); got != want || types.OfFeatureRow(got) != types.Of(uint32(v)) {
			t.Errorf("node %d has the row %d, of type %d", v, got, types.OfFeatureRow(got))
		}
	}
	types.Nodes[1].Features = false
	types.Nodes[2].Features = true
	if err := types.Check(); err == nil || !strings.Contains(err.Error(), "type c has features") {
		t.Error(err)
	}
	types.Nodes = slices.Repeat([]NodeType{{}}, MostTypes+1)
	if err := types.Check(); err == nil || !strings.Contains(err.Error(), "257 node types") {
		t.Error(err)
	}
}

// TestTypesEqual compares types by their names, counts and relations.
func TestTypesEqual(t *testing.T) {
	a, b := citations(), citations()
	if !a.Equal(b) || a.Equal(nil) || (*Types)(nil).Equal(a) || !(*Types)(nil).Equal(nil) {
		t.Error("equal types")
	}
	b.Nodes[1].Count++
	if a.Equal(b) {
		t.Error("another count")
	}
	b = citations()
	b.Relations[0].Name = "has"
	if a.Equal(b) {
		t.Error("another relation")
	}
}
