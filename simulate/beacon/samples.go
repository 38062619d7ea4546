package beacon

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/simulate/directgraph"
)

// Paths says which reads a batch of presample makes.
type Paths string

// The ways to read a batch.
const (
	// Tree reads a node once for every path of drawn neighbours that leads to it from a
	// target, as BeaconGNN does.
	Tree Paths = "tree"
	// Dedup reads each node once per hop.
	Dedup Paths = "dedup"
)

// FromBatch returns the trace of a batch that was drawn of a graph which is laid out: what
// was drawn of each node at each hop, at the slots of its neighbours in the graph. A batch
// that is not of the graph is an error of kind fault.ErrInput. Vectors have so many numbers.
func FromBatch(p *Params, b *graph.Batch, g *graph.CSC, l *directgraph.Layout, width int, paths Paths) (*Trace, error) {
	r := replay{batch: b, graph: g, layout: l, build: newBuilder(l.Shape(), width, p.Rules.ReadPrimary, len(b.Blocks))}
	hop := make([]uint32, b.NumSeeds())
	for i := range hop {
		hop[i] = uint32(i)
	}
	r.nodes = int64(len(hop))
	for h := range len(b.Blocks) {
		next, err := r.hop(h, hop, &b.Blocks[len(b.Blocks)-1-h], paths)
		if err != nil {
			return nil, err
		}
		hop = next
	}
	for _, u := range hop {
		if err := r.read(len(b.Blocks), u); err != nil {
			return nil, err
		}
	}
	return r.build.trace(), nil
}

// nodesOf returns how many nodes the trace of a batch has; at most as many, where each is read
// once per hop.
func nodesOf(b *graph.Batch, paths Paths) (n float64) {
	times := make([]float64, len(b.Input)) // that each node is read, at this hop
	for i := range b.NumSeeds() {
		times[i] = 1
		n++
	}
	for h := len(b.Blocks) - 1; h >= 0; h-- {
		block, next := &b.Blocks[h], make([]float64, len(b.Input))
		for u := range block.NumDst {
			for _, s := range block.Indices[block.Indptr[u]:block.Indptr[u+1]] {
				if next[s] += times[u]; paths == Dedup {
					next[s] = min(next[s], 1)
				}
			}
		}
		times = next
		for _, k := range times {
			n += k
		}
	}
	return n
}

// replay turns a batch into a trace.
type replay struct {
	batch  *graph.Batch
	graph  *graph.CSC
	layout *directgraph.Layout
	build  *builder
	nodes  int64 // of the trace, so far
	drawn  []draw
	ids    []neighbour
}

// neighbour is one that was drawn: its node in the graph, and in the trace.
type neighbour struct{ id, child uint32 }

// hop reads the nodes of a hop, which are positions among the batch's input nodes, and
// returns those of the next.
func (r *replay) hop(h int, nodes []uint32, b *graph.Block, paths Paths) (next []uint32, err error) {
	var seen []uint32 // of each source: its node in the trace, plus one
	if paths == Dedup {
		seen = make([]uint32, b.NumSrc)
	}
	for _, u := range nodes {
		if int(u) >= b.NumDst {
			return nil, fault.New(fault.ErrInput, "the batch draws no neighbours of a node that it reads at hop %d", h)
		}
		r.ids = r.ids[:0]
		for _, s := range b.Indices[b.Indptr[u]:b.Indptr[u+1]] {
			child := uint32(r.nodes)
			if seen != nil && seen[s] > 0 {
				child = seen[s] - 1
			} else {
				if r.nodes++; r.nodes > maxCommands {
					return nil, fault.New(fault.ErrInput, "the paths of a batch reach more than %d nodes; read each node once per hop, or draw fewer", maxCommands)
				}
				next = append(next, s)
				if seen != nil {
					seen[s] = child + 1
				}
			}
			r.ids = append(r.ids, neighbour{r.batch.Input[s], child})
		}
		if err := r.slots(r.batch.Input[u]); err != nil {
			return nil, err
		}
		if err := r.read(h, u); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// slots finds the neighbours that were drawn of a node in its list. Of parallel edges each
// is one.
func (r *replay) slots(node uint32) error {
	if int64(node) >= int64(r.graph.NumNodes()) {
		return fault.New(fault.ErrInput, "the batch has node %d, the graph %d nodes", node, r.graph.NumNodes())
	}
	slices.SortFunc(r.ids, func(x, y neighbour) int { return int(int64(x.id) - int64(y.id)) })
	list, err := r.graph.Row(node)
	if err != nil {
		return err
	}
	r.drawn = r.drawn[:0]
	at := 0
	for _, n := range r.ids {
		i, _ := slices.BinarySearch(list[at:], n.id)
		if at += i; at == len(list) || list[at] != n.id {
			return fault.New(fault.ErrInput, "the batch has an edge from node %d to %d, the graph has not", n.id, node)
		}
		r.drawn = append(r.drawn, draw{int64(at), int32(n.child)})
		at++
	}
	return nil
}

// read adds a node and what was drawn of it.
func (r *replay) read(h int, u uint32) error {
	node := r.batch.Input[u]
	row, err := r.graph.Row(node)
	if err != nil {
		return err
	}
	r.build.read(h, int64(len(row)), r.drawn, func(section int64) int64 { return r.layout.At(node, section).Page() })
	r.drawn = r.drawn[:0]
	return nil
}
