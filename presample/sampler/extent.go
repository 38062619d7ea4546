package sampler

import (
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/presample/mbfile"
)

// chunkEdges is how many edges are drawn before they are looked up. Positions
// are computed first, neighbours then fetched in a loop that does nothing else:
// their cache misses overlap instead of waiting for the next random number.
const chunkEdges = 2048

// Extent is the size of a batch, or an upper bound of it.
type Extent struct {
	Nodes      int64 // sources of the outermost block
	Dst, Edges int64 // over all blocks
	Widest     int   // result of Widest for the fanout
	// Typed says that the graph is typed: Nodes are then found nodes, of which some may be one input node, and Dst are rows.
	Typed bool
}

// Widest returns the largest entry of a fanout, or 0 if all entries are AllNeighbours.
func Widest(fanout []int) int { return max(0, slices.Max(fanout)) }

// Bound returns an upper bound of the size of a batch with the given number of seed nodes, from the
// fanout and a graph with these numbers of nodes and edges.
func Bound(nodes, edges int64, seeds int, fanout []int) Extent {
	return bound(nodes, edges, 1, seeds, fanout)
}

// BoundOf is Bound for the graph of a dataset, typed or not.
func BoundOf(f *dataset.Facts, seeds int, fanout []int) Extent {
	if f.Types == nil {
		return Bound(f.Nodes, f.Edges, seeds, fanout)
	}
	most := 0
	for kind := range f.Types.Nodes {
		_, relations := f.Types.Into(kind)
		most = max(most, relations)
	}
	x := bound(f.Nodes, f.Edges, int64(most), seeds, fanout)
	x.Typed = true
	return x
}

// bound is Bound for nodes with up to rows rows.
func bound(nodes, edges, rows int64, seeds int, fanout []int) Extent {
	x := Extent{Widest: Widest(fanout)}
	n := min(int64(seeds), nodes)
	for l := len(fanout) - 1; l >= 0; l-- {
		e := edges
		if f := int64(fanout[l]); f != mbfile.AllNeighbours && n*rows <= edges/f {
			e = n * rows * f
		}
		x.Dst, x.Edges = x.Dst+n*rows, x.Edges+e
		n = min(n+e, nodes)
	}
	x.Nodes = n
	return x
}

// ExtentOf returns the size of a batch, without Widest.
func ExtentOf(b *graph.Batch) Extent {
	x := Extent{Nodes: int64(len(b.Input)), Typed: b.Types != nil}
	for l := range b.Blocks {
		x.Dst, x.Edges = x.Dst+int64(b.Blocks[l].NumRows()), x.Edges+int64(len(b.Blocks[l].Indices))
	}
	if k := &b.Blocks[0]; x.Typed {
		x.Nodes = int64(k.NumDst + len(k.Indices)) // at most
	}
	return x
}

// Slack returns n plus a quarter: the bytes to count for n bytes of memory that grows by appending.
func Slack(n int64) int64 { return n + n/4 }

// Memory returns the bytes of memory that a sampler needs for a batch of this size, without its table
// of nodes: ids, degrees and edge positions of the nodes, the blocks, and buffers for a chunk of edges
// or for the drawn edges of one node, if they are more.
func (x Extent) Memory() int64 {
	chunk := int64(chunkOf(x.Widest))
	const blocks = 1 << 10 // the blocks themselves, and the last entries of their index pointers
	n := int64(0)
	if x.Typed { // nodes by type and their numbers; rows with their limits, and destination positions
		n = Slack(8*x.Nodes + 12*x.Dst)
	}
	return n + blocks + Slack(16*x.Nodes+8*x.Dst+4*x.Edges) + (8+4)*chunk + Slack(4*chunk) + 8*int64(takenWords(x.Widest))
}

// chunkOf returns the edges of a chunk, which has room for all that are drawn of a node.
func chunkOf(widest int) int { return max(chunkEdges, widest) }
