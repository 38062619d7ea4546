package grid

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
	"diskgnn/train/recipe"
)

var typedKinds = []model.Model{{Kind: model.RSAGE}, {Kind: model.RGCN}, {Kind: model.RGAT, Heads: 2}}

// drawTyped draws a problem over a typed graph: its table has rows of some of the types, and its destinations are of some
// of them.
func (k *kit) drawTyped(t *rapid.T) *problem {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	types := graphtest.Types(rng, 1)
	for i := range types.Nodes {
		types.Nodes[i].Count = int64(rng.IntN(20) + 1)
	}
	check(t, types.Check())
	m := rapid.SampledFrom(typedKinds).Draw(t, "kind")
	m.Dims, m.Types = []int{rng.IntN(6) + 1, rng.IntN(5) + 1}, recipe.Types(types, 0)
	e, err := cpu.New(engine.Config{Network: m, Sizes: graph.Sizes{Src: []int{1}, Dst: []int{1}, Edges: []int{1}}, Threads: 1 + rng.IntN(2), BLAS: "gonum", Recipe: recipe.Recipe{LR: 1}})
	check(t, err)
	defer e.Close()
	p := &problem{Layer: Layer{Graph: typedGraph(rng, types), Guard: func(fn func() error) error { return fn() }, Threads: e.Threads(), Stack: k.stack, Wires: k.wires}}
	p.model = m
	p.weights, err = e.Snapshot(nil)
	check(t, err)
	p.Pull = e.NewPull(0, Group, &prepare.Whole{Graph: p.Graph, Weighing: m.Weighing()})
	rows, bases := int64(0), make([]int64, len(types.Nodes))
	for kind, n := range types.Nodes {
		if bases[kind] = -1; rng.IntN(4) > 0 || kind == 0 {
			bases[kind], rows = rows, rows+n.Count
		}
	}
	p.typedTable(t, k, rows)
	p.typedTargets(rng, types, bases, m.Alive(1))
	p.sizes = Sizes{Nodes: rows, Targets: int64(p.targets()), IDs: p.Targets, Parts: p.Parts, Shape: p.Pull.PullShape, Edges: true, Threads: p.Threads, Table: &p.Table, Lists: 1000}
	p.findLists(t, p.Table.File != nil && p.Targets != nil && rng.IntN(4) > 0)
	return p
}

// typedGraph returns a graph in which some rows have many sources.
func typedGraph(rng *rand.Rand, types *graph.Types) *graph.CSC {
	g := &graph.CSC{Indptr: []int64{0}}
	for row := range types.NumRows() {
		_, r := types.RowOf(row)
		lo, hi := types.Range(types.Relations[r].Source)
		var list []uint32
		for range []int{0, rng.IntN(5), rng.IntN(5), rng.IntN(40)}[rng.IntN(4)] {
			list = append(list, uint32(lo+rng.Int64N(hi-lo)))
		}
		slices.Sort(list)
		g.Indices = append(g.Indices, list...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	return g
}

// typedTable makes a table, in memory or in a file.
func (p *problem) typedTable(t *rapid.T, k *kit, rows int64) {
	in := p.Pull.In
	p.wide = make([]float32, (int(rows)+Group)*in)
	for i := range p.wide[:int(rows)*in] {
		p.wide[i] = float32(i%37)/4 - 3
	}
	typ := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.BFloat16}).Draw(t, "dtype")
	content := make([]byte, len(p.wide)*typ.Size())
	dtype.Convert(content, typ, binio.Bytes(p.wide), dtype.Float32)
	p.Table = Table{Rows: rows, Width: in, DType: typ, Granule: 4 * rapid.Int64Range(1, 30).Draw(t, "granule"), Held: content}
	if rapid.IntRange(0, 3).Draw(t, "on disk") > 0 {
		content = content[:int(rows)*in*typ.Size()]
		check(t, os.WriteFile(k.path, content, 0o666))
		p.Table.Held, p.Table.File = nil, &plainFile{k.path, int64(len(content)), p.Table.Granule}
	}
}

// typedTargets chooses destinations: all of some types, or some of one.
func (p *problem) typedTargets(rng *rand.Rand, types *graph.Types, bases []int64, alive []bool) {
	end, listed, one := 0, rng.IntN(2) == 0, 0
	for kind := range types.Nodes {
		if alive[kind] && rng.IntN(2) == 0 {
			one = kind
		}
	}
	p.Parts = []Part{}
	for kind, n := range types.Nodes {
		if !alive[kind] || listed && kind != one || kind > 0 && !listed && rng.IntN(4) == 0 {
			continue
		}
		lo, _ := types.Range(kind)
		begin, rows := types.Rows(uint32(lo))
		first, _ := types.Into(kind)
		part := Part{Lo: end, Hi: end + int(n.Count), Node: uint32(lo), Begin: begin, Rows: rows, Own: bases[kind], Lists: &prepare.Lists{Kind: kind}}
		for at := range rows {
			source := types.Relations[first+at].Source
			if bases[source] >= 0 {
				from, _ := types.Range(source)
				part.Links = append(part.Links, Link{At: at, Relation: first + at, Shift: from - bases[source], Lo: bases[source], Hi: bases[source] + types.Nodes[source].Count})
				part.Lists.Relations = append(part.Lists.Relations, first+at)
			}
		}
		end = part.Hi
		p.Parts = append(p.Parts, part)
	}
	if !listed {
		return
	}
	p.Targets = []uint32{}
	for v := range uint32(types.Nodes[one].Count) {
		if rng.IntN(3) > 0 {
			p.Targets = append(p.Targets, p.Parts[0].Node+v)
		}
	}
	p.Parts[0].Hi = len(p.Targets)
}

// findLists counts long lists and, if some pieces are needed alone, finds these.
func (p *problem) findLists(t *rapid.T, needed bool) {
	if needed {
		p.Need = make([]bool, p.Table.Pieces())
	}
	check(t, EachList(context.Background(), p.Parts, p.Targets, p.Graph, 0, p.targets(), func(l List) error {
		if len(l.Sources) > Fold {
			p.Long++
		}
		for _, u := range l.Sources {
			if needed {
				p.Table.Mark(p.Need, uint32(int64(u)-l.Link.Shift))
			}
		}
		return nil
	}))
	if needed && p.Pull.Last {
		p.sizes.MarkOwn(p.Need)
	}
	p.sizes.Long, p.sizes.Need = p.Long, p.Need
}

// plainTyped computes the rows with everything in memory, list by list.
func (p *problem) plainTyped() (rows []float32) {
	s := p.Pull.PullShape
	for _, part := range p.Parts {
		for lo := part.Lo; lo < part.Hi; {
			hi := min(part.Hi, (lo/Group+1)*Group)
			var own, acc []float32
			var first []uint32
			if part.Own >= 0 {
				own = []float32{}
			}
			for i := lo; i < hi; i++ {
				node := i - part.Lo + int(part.Node)
				if p.Targets != nil {
					node = int(p.Targets[i])
				}
				away := int64(node) - int64(part.Node)
				first = append(first, uint32(part.Begin+away*int64(part.Rows)))
				if row := part.Own + away; own != nil {
					own = append(own, p.wide[int(row)*s.In:int(row+1)*s.In]...)
				}
			}
			acc = make([]float32, len(first)*len(part.Links)*s.Acc)
			p.Pull.Begin(0, acc, own, len(first), part.Lists)
			at := acc
			for _, row := range first {
				for _, l := range part.Links {
					p.addPlainly(at[:s.Acc], row+uint32(l.At), &l)
					at = at[s.Acc:]
				}
			}
			out := make([]float32, Group*s.Out)
			p.Pull.Finish(0, out, acc, own, first, part.Lists)
			rows = append(rows, out[:len(first)*s.Out]...)
			lo = hi
		}
	}
	return rows
}

func (p *problem) addPlainly(acc []float32, row uint32, l *Link) {
	var idx []uint32
	for _, u := range p.Graph.Neighbors(row) {
		idx = append(idx, uint32(int64(u)-l.Shift))
	}
	wide := make([]float64, p.Pull.Wide)
	if len(idx) <= Fold {
		wide = nil
	}
	for some := range slices.Chunk(idx, Fold) {
		p.Pull.Add(0, acc, wide, p.wide, some, l.Relation)
		for c := range wide {
			wide[c] += float64(acc[c])
			acc[c] = 0
		}
	}
	for c, sum := range wide {
		acc[c] = float32(sum)
	}
}

// By hand: three targets with two lists each, four without any, and five with one.
func TestMostLists(t *testing.T) {
	parts := []Part{{Lo: 0, Hi: 3, Links: make([]Link, 2)}, {Lo: 3, Hi: 7}, {Lo: 7, Hi: 12, Links: make([]Link, 1)}}
	for tile, want := range map[int]int{1: 2, 3: 6, 4: 6, 5: 6, 8: 7, 9: 8, 12: 11, 64: 11} {
		if got := mostLists(parts, tile); got != want {
			t.Errorf("tiles of %d targets have %d lists, want %d", tile, got, want)
		}
		most := 0
		for lo := range 12 {
			begins := make([]int, 4)
			beginLists(begins, parts, lo, min(12, lo+tile))
			most = max(most, begins[3])
		}
		if most != want {
			t.Errorf("tiles of %d targets: one has %d lists, want %d", tile, most, want)
		}
	}
	// The tile with the most lists ends with the second part: two targets with two lists, and ten with three.
	parts = []Part{{Hi: 10, Links: make([]Link, 2)}, {Lo: 10, Hi: 20, Links: make([]Link, 3)}, {Lo: 20, Hi: 30, Links: make([]Link, 1)}}
	if got := mostLists(parts, 12); got != 34 {
		t.Errorf("tiles of 12 targets have %d lists, want 34", got)
	}
}
