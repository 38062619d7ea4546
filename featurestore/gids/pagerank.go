package gids

import (
	"context"
	"runtime"

	"diskgnn/graph"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
)

// The damping and the number of iterations of GIDS.
const (
	defaultDamping    = 0.85
	defaultIterations = 20
)

// rankOptions are the parameters of pageRanks. The zero value is mode paper with GIDS' numbers.
type rankOptions struct {
	Damping    float64 // 0: GIDS'
	Iterations int     // 0: GIDS'
	// Script moves rank as GIDS' published script does: along the edges, still divided by the in-degree
	// of the source,
	//
	//	rank'[v] = (1-d)/N + d · Σ rank[u] / indegree(u)   over the edges u → v
	//
	// On a graph with all edges in both directions the two are equal.
	Script  bool
	Workers int // goroutines; 0: one for each processor
	// Guard, if not nil, runs the functions that read the graph, in each goroutine. The Guard of a mapped
	// topology turns memory faults into errors.
	Guard func(func() error) error
}

func (o *rankOptions) ensureDefaults() {
	if o.Damping == 0 {
		o.Damping = defaultDamping
	}
	if o.Iterations == 0 {
		o.Iterations = defaultIterations
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Guard == nil {
		o.Guard = func(f func() error) error { return f() }
	}
}

func (o *rankOptions) validate() error {
	if o.Damping < 0 || o.Damping > 1 || o.Damping != o.Damping || o.Iterations < 0 || o.Workers < 0 {
		return fault.New(fault.ErrUsage, "reverse PageRank: damping %g, %d iterations or %d workers is out of range", o.Damping, o.Iterations, o.Workers)
	}
	return nil
}

// rankBytes returns the memory of pageRanks: 16 bytes a node, half of which it returns.
func rankBytes(nodes int) int64 { return 16 * int64(nodes) }

// pageRanks scores nodes by how often sampling reaches them: reverse PageRank, by which
// GIDS (Park and others, VLDB 2024) chooses the rows of its constant CPU buffer, after Min and
// others, Graph Neural Network Training with Data Tiering (KDD 2022).
//
// With N nodes and damping d, every node begins with 1/N, and an iteration makes
//
//	rank'[u] = (1-d)/N + d · Σ rank[v] / indegree(v)   over the edges u → v
//
// A walker at v steps to an in-neighbour, drawn as sampling draws it, or with probability 1-d
// to any node. The rank of nodes without in-neighbours goes nowhere: the ranks of a graph that
// has such nodes add up to less than one.
//
// Ranks are the same bits for any number of workers: one goroutine adds up the sum of a node, in the
// graph's order. In mode paper every worker reads all edges, and adds up the sums of its own nodes, so no
// transposed graph and no vector for each worker is needed. In mode script each worker reads the edges to
// its own nodes. pageRanks returns the context's error if the context ends first.
func pageRanks(ctx context.Context, g *graph.CSC, o rankOptions) ([]float64, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.ensureDefaults()
	n := g.NumNodes()
	c := &ranking{rankOptions: o, g: g, share: make([]float64, n), sum: make([]float64, n)}
	for v := range c.sum {
		c.sum[v] = 1 / float64(n)
	}
	add := c.push
	if o.Script {
		add = c.pull
	}
	for range o.Iterations {
		c.share, c.sum = c.sum, c.share
		for _, work := range []func(ctx context.Context, lo, hi int) error{c.divide, add} {
			if err := c.each(ctx, work); err != nil {
				return nil, err
			}
		}
	}
	return c.sum, nil
}

type ranking struct {
	rankOptions
	g     *graph.CSC
	share []float64 // rank of every node, then over its in-degree
	sum   []float64 // the new ranks
}

// each calls work for equal ranges of nodes, one for each worker, at the same time.
func (c *ranking) each(ctx context.Context, work func(ctx context.Context, lo, hi int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	n := c.g.NumNodes()
	for w := range c.Workers {
		lo, hi := w*n/c.Workers, (w+1)*n/c.Workers
		group.Go(func() error {
			return c.Guard(func() error { return work(ctx, lo, hi) })
		})
	}
	return group.Wait()
}

// eachNode calls visit for the nodes from lo up to hi, until it fails or the context has ended.
func eachNode(ctx context.Context, lo, hi int, visit func(v uint32) error) error {
	const stride = 1 << 14 // nodes between looks at the context
	for v := lo; v < hi; v++ {
		if v%stride == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := visit(uint32(v)); err != nil {
			return err
		}
	}
	return nil
}

func (c *ranking) divide(ctx context.Context, lo, hi int) error {
	return eachNode(ctx, lo, hi, func(v uint32) error {
		row, err := c.g.Row(v)
		if len(row) > 0 {
			c.share[v] /= float64(len(row))
		}
		return err
	})
}

// push computes the ranks from lo up to hi: the share of every node goes to its in-neighbours.
func (c *ranking) push(ctx context.Context, lo, hi int) error {
	sum := c.sum[lo:hi]
	clear(sum)
	if err := eachNode(ctx, 0, c.g.NumNodes(), func(v uint32) error {
		row, err := c.g.Row(v)
		share := c.share[v]
		for _, u := range row {
			if i := int(u) - lo; uint(i) < uint(len(sum)) {
				sum[i] += share
			}
		}
		return err
	}); err != nil {
		return err
	}
	for i, s := range sum {
		sum[i] = c.rank(s)
	}
	return nil
}

// pull computes the ranks from lo up to hi in mode script: every node gets the shares of its in-neighbours.
func (c *ranking) pull(ctx context.Context, lo, hi int) error {
	return eachNode(ctx, lo, hi, func(v uint32) error {
		row, err := c.g.Sources(v)
		sum := 0.0
		for _, u := range row {
			sum += c.share[u]
		}
		c.sum[v] = c.rank(sum)
		return err
	})
}

// rank returns the rank of a node that gets shares with the given sum.
func (c *ranking) rank(sum float64) float64 {
	jump := (1 - c.Damping) / float64(c.g.NumNodes())
	walk := c.Damping * sum
	return jump + walk
}

// byNode returns a typed graph without its types: the in-neighbours of a node are all of its rows'.
func byNode(g *graph.CSC, t *graph.Types) *graph.CSC {
	n := t.NumNodes()
	all := &graph.CSC{Indptr: make([]int64, n+1), Indices: g.Indices}
	for v := range n {
		first, _ := t.Rows(uint32(v))
		all.Indptr[v] = g.Indptr[first]
	}
	all.Indptr[n] = g.Indptr[t.NumRows()]
	return all
}

// rowRanks returns the ranks of rows of features, in place: nodes without features share a row, and their ranks add up.
func rowRanks(rank []float64, t *graph.Types) []float64 {
	for kind, k := range t.Nodes {
		if k.Features {
			continue
		}
		lo, hi := t.Range(kind)
		sum := 0.0
		for _, r := range rank[lo:hi] {
			sum += r
		}
		rank[t.FeatureRow(uint32(lo))] = sum // at lo or before it
	}
	return rank[:t.NumFeatureRows()]
}
