package gids

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
)

// csc makes a graph of in-neighbours.
func csc(in ...[]uint32) *graph.CSC {
	g := &graph.CSC{Indptr: []int64{0}}
	for _, sources := range in {
		g.Indices = append(g.Indices, sources...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	return g
}

func compute(t interface{ Fatal(...any) }, g *graph.CSC, o rankOptions) []float64 {
	ranks, err := pageRanks(context.Background(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	return ranks
}

// near compares ranks, with a tolerance for sums in another order.
func near(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-12 })
}

// TestByHand: edges 1 → 0, 2 → 0 and 2 → 1. By the definition with damping 1/2, the shares of
// the ranks 1/3 are 1/6 for each in-neighbour of 0, and 1/3 for 2, that of 1:
//
//	0: 1/6    1: 1/6 + 1/2·1/6 = 1/4    2: 1/6 + 1/2·(1/6 + 1/3) = 5/12
//
// and the second iteration's are 1/12, and 1/4:
//
//	0: 1/6    1: 1/6 + 1/24 = 5/24      2: 1/6 + 1/2·(1/12 + 1/4) = 1/3
//
// By the script rank goes along the edges. Node 2 has no in-neighbours: its share is its rank.
//
//	0: 1/6 + 1/2·(1/3 + 1/3) = 1/2      1: 1/6 + 1/2·1/3 = 1/3      2: 1/6
func TestByHand(t *testing.T) {
	g := csc([]uint32{1, 2}, []uint32{2}, nil)
	for _, test := range []struct {
		o    rankOptions
		want []float64
	}{
		{rankOptions{Damping: 0.5, Iterations: 1}, []float64{1. / 6, 1. / 4, 5. / 12}},
		{rankOptions{Damping: 0.5, Iterations: 2}, []float64{1. / 6, 5. / 24, 1. / 3}},
		{rankOptions{Damping: 0.5, Iterations: 1, Script: true}, []float64{1. / 2, 1. / 3, 1. / 6}},
	} {
		if got := compute(t, g, test.o); !near(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.o, got, test.want)
		}
	}
	if got := compute(t, csc(), rankOptions{}); len(got) != 0 {
		t.Errorf("no nodes have ranks %v", got)
	}
	if got, want := compute(t, g, rankOptions{}), compute(t, g, rankOptions{Damping: 0.85, Iterations: 20}); !slices.Equal(got, want) {
		t.Errorf("by default %v, want %v", got, want)
	}
	if got := rankBytes(3); got != 48 {
		t.Errorf("%d bytes", got)
	}
}

// An id or an offset that is out of range, as a mapped graph may come to have, is an error of both
// ways, however the nodes are divided.
func TestOutOfRange(t *testing.T) {
	for what, g := range map[string]*graph.CSC{
		"an id":               csc([]uint32{1, 2}, []uint32{3}, nil),
		"an offset":           {Indptr: []int64{0, 2, 4}, Indices: []uint32{1, 1, 0}},
		"a negative offset":   {Indptr: []int64{0, -2, 3}, Indices: []uint32{1, 1, 0}},
		"a descending offset": {Indptr: []int64{0, 2, 1}, Indices: []uint32{1, 1, 0}},
	} {
		for _, script := range []bool{false, true} {
			for workers := 1; workers < 4; workers++ {
				ranks, err := pageRanks(t.Context(), g, rankOptions{Script: script, Workers: workers})
				if ignored := what == "an id" && !script; !errors.Is(err, fault.ErrCorrupt) && !ignored {
					t.Errorf("%s, script %t, %d workers: %v, %v", what, script, workers, ranks, err)
				}
			}
		}
	}
}

// drawn is a small graph; edges may be repeated and lead to their own source.
func drawn(t *rapid.T, both bool) *graph.CSC {
	n := rapid.IntRange(1, 20).Draw(t, "nodes")
	in := make([][]uint32, n)
	node := rapid.Uint32Range(0, uint32(n-1))
	for range rapid.IntRange(0, 60).Draw(t, "edges") {
		u, v := node.Draw(t, "source"), node.Draw(t, "destination")
		in[v] = append(in[v], u)
		if both && u != v {
			in[u] = append(in[u], v)
		}
	}
	return csc(in...)
}

// steps returns the matrix whose product with the ranks is what comes from the neighbours:
// the definition's, or the script's.
func steps(g *graph.CSC, script bool) [][]float64 {
	n := g.NumNodes()
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	for v := range n {
		for _, u := range g.Neighbors(uint32(v)) {
			if script {
				m[v][u] += 1 / float64(max(1, g.Degree(u)))
			} else {
				m[u][v] += 1 / float64(g.Degree(uint32(v)))
			}
		}
	}
	return m
}

// solve returns the ranks that an iteration leaves as they are: it solves
// (1 - damping·m)·x = (1-damping)/n by Gauss' elimination with pivoting.
func solve(m [][]float64, damping float64) []float64 {
	n := len(m)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, n+1)
		for j := range n {
			rows[i][j] = -damping * m[i][j]
		}
		rows[i][i]++
		rows[i][n] = (1 - damping) / float64(n)
	}
	for k := range n {
		best := k
		for i := k; i < n; i++ {
			if math.Abs(rows[i][k]) > math.Abs(rows[best][k]) {
				best = i
			}
		}
		rows[k], rows[best] = rows[best], rows[k]
		for i := range n {
			if f := rows[i][k] / rows[k][k]; i != k {
				for j := range rows[i] {
					rows[i][j] -= f * rows[k][j]
				}
			}
		}
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = rows[i][n] / rows[i][i]
	}
	return x
}

// TestDense: few iterations equal products with the dense matrix, many its fixed point; any
// number of workers makes the same bits.
func TestDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, script := drawn(t, false), rapid.Bool().Draw(t, "script")
		n, m := g.NumNodes(), steps(g, script)
		want := slices.Repeat([]float64{1 / float64(n)}, n)
		for range defaultIterations {
			next := make([]float64, n)
			for i := range next {
				for j, x := range want {
					next[i] += 0.85 * m[i][j] * x
				}
				next[i] += 0.15 / float64(n)
			}
			want = next
		}
		one := compute(t, g, rankOptions{Script: script, Workers: 1})
		if !near(one, want) {
			t.Errorf("%v, the dense product is %v", one, want)
		}
		for _, workers := range []int{0, 2, 3, 30} {
			if got := compute(t, g, rankOptions{Script: script, Workers: workers}); !slices.Equal(got, one) {
				t.Errorf("%d workers make %v, one %v", workers, got, one)
			}
		}
		// Both converge: the columns of the definition's matrix add up to one at most, and the
		// script's, its columns divided by the in-degrees, has the eigenvalues of a matrix whose
		// rows do.
		if got := compute(t, g, rankOptions{Script: script, Iterations: 300, Workers: 1}); !near(got, solve(m, defaultDamping)) {
			t.Errorf("%v, the solution is %v", got, solve(m, defaultDamping))
		}
	})
}

// TestScriptOnUndirectedGraphs: there the script is the definition.
func TestScriptOnUndirectedGraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawn(t, true)
		if a, b := compute(t, g, rankOptions{}), compute(t, g, rankOptions{Script: true}); !near(a, b) {
			t.Errorf("by definition %v, by the script %v", a, b)
		}
	})
}

func TestRefuses(t *testing.T) {
	for _, o := range []rankOptions{{Damping: -0.1}, {Damping: 1.1}, {Damping: math.NaN()}, {Iterations: -1}, {Workers: -1}} {
		if _, err := pageRanks(t.Context(), csc(nil), o); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestEnds: a context that has ended, or a graph that cannot be read, ends the computation.
func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := csc([]uint32{1}, []uint32{0})
	calls := 0
	guard := func(f func() error) error {
		if calls++; calls == 4 {
			cancel()
		}
		return f()
	}
	if _, err := pageRanks(ctx, g, rankOptions{Workers: 1, Guard: guard}); !errors.Is(err, context.Canceled) || calls != 4 {
		t.Errorf("cancelled: %v after %d", err, calls)
	}
	damage := errors.New("damage")
	for fails := range 2 * defaultIterations {
		n := 0
		_, err := pageRanks(t.Context(), g, rankOptions{Workers: 1, Guard: func(f func() error) error {
			if n++; n > fails {
				return damage
			}
			return f()
		}})
		if !errors.Is(err, damage) {
			t.Errorf("read %d fails: %v", fails, err)
		}
	}
}

// TestTypedRanks: papers and authors without features, by hand as in TestByHand. A node steps along the rows of all
// relations alike, and authors share the last row of features. chooseBytes counts the memory.
func TestTypedRanks(t *testing.T) {
	const nodes = 60_000
	types := &graph.Types{Nodes: []graph.NodeType{{Name: "paper", Count: nodes, Features: true}, {Name: "author", Count: 2 * nodes}},
		Relations: []graph.Relation{{Name: "cites"}, {Source: 1, Name: "writes"}}}
	if err := types.Check(); err != nil {
		t.Fatal(err)
	}
	g := &graph.CSC{Indptr: make([]int64, 2*nodes+1), Indices: []uint32{1, nodes, nodes + 1, 2}}
	for row := range g.Indptr { // paper 0 cites 1, and has two authors; paper 1 cites 2
		g.Indptr[row] = []int64{0, 1, 3}[min(row, 2)]
		if row > 2 {
			g.Indptr[row] = 4
		}
	}
	d := &design{&machine.Table{Facts: featurestore.Facts{Nodes: types.NumFeatureRows(), Types: types}}}
	var rank []float64
	var chosen []uint32
	took := limittest.Allocated(func() {
		rank = rowRanks(compute(t, byNode(g, types), rankOptions{Damping: 0.5, Iterations: 1, Workers: 1}), types)
		chosen = residency.Top(rank, 3)
	})
	const each = 1. / (3 * nodes)
	want := []float64{each / 2, each/2 + each/2/3, each/2 + each/2} // 1 is one of three in-neighbours of 0; 2 is the only one of 1
	if !near(rank[:3], want) || len(rank) != nodes+1 || !near(rank[nodes:], []float64{2*nodes*each/2 + 2*each/2/3}) {
		t.Errorf("%v, …, %v, want %v", rank[:3], rank[nodes:], want)
	}
	if !slices.Equal(chosen, []uint32{nodes, 2, 1}) {
		t.Errorf("the first rows are %d", chosen)
	}
	if planned := d.chooseBytes(3); took > planned+40<<10 || took < planned*9/10 {
		t.Errorf("%d bytes are taken, %d planned", took, planned)
	}
}
