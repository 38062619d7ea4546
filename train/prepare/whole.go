package prepare

import (
	"diskgnn/graph"
	"diskgnn/train/model"
)

// Whole weighs the edges of a whole graph: as a block of all nodes with all of their neighbours is
// weighed, but node by node. Any number of goroutines may share one. It reads the graph, which its
// callers guard.
type Whole struct {
	Graph *graph.CSC // in a typed graph v, below, is a row of it: it counts the row's sources
	// Out has the number of edges that begin at each node. Only model.ByBlock needs it.
	Out      []uint32
	Weighing model.Weighing
}

// Weighs reports whether sources have weights, and whether destinations have an own term.
func (g *Whole) Weighs() (sources, own bool) {
	w := weighings[g.Weighing]
	return w.src, w.own
}

// Source returns the weight of u's features in sums: Src of a Block.
func (g *Whole) Source(u uint32) float32 {
	switch t := weightsByDegree(); g.Weighing {
	case model.ByGraph:
		return t.inverseRoot(g.degree(u))
	case model.ByBlock:
		return t.inverseRoot(g.Out[u])
	}
	return 1
}

// Destination returns the weights of v's sum and of its own features: Dst and Own of a Block.
func (g *Whole) Destination(v uint32) (sum, own float32) {
	d, t := g.degree(v), weightsByDegree()
	switch g.Weighing {
	case model.Averaged:
		if d > 0 {
			return 1 / float32(d), 0
		}
	case model.ByGraph:
		return float32(float64(min(1, d)) / t.root(d)), t.inverse(d)
	case model.ByBlock:
		sum = t.inverseRoot(d)
		return sum, sum * t.inverseRoot(g.Out[v])
	}
	return 1, 0
}

// degree returns the number of v's neighbours, which a Batch counts in 32 bits.
func (g *Whole) degree(v uint32) uint32 { return uint32(g.Graph.Degree(v)) }
