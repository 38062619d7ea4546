package cpu

import "diskgnn/train/prepare"

// Pull computes one layer for destinations that add the rows of their neighbours, in ascending order:
// Begin, Add for any number of runs of neighbours, Finish. Each row is added to the accumulator
// itself, so the results do not depend on how a destination's neighbours are cut into runs.
//
// In a typed graph a destination has several lists of neighbours, and an accumulator for each. Begin and Finish take
// destinations of one type, with the accumulators of a destination after each other, in the order of its lists.
// Finish takes the destinations' first rows of the topology in place of their ids. Lists that are left out count as
// lists of zeros, and so do input rows that are nil.
//
// Its methods may run at the same time for different workers, below the number of the engine's
// threads. The caller guards the graph, which they read. They do not check their arguments.
type Pull struct {
	prepare.PullShape
	layer *layer // its output has Group rows for each worker
	graph *prepare.Whole
	pulling
}

// pulling is the part of a Pull that differs between kinds of layers.
type pulling interface {
	// Map stores the rows that destinations add, of n nodes from first on with the input rows x.
	Map(worker int, to, x []float32, first uint32, n int)
	// Begin sets the accumulators of n destinations with the input rows x, if First.
	Begin(worker int, acc, x []float32, n int, of *prepare.Lists)
	// Add adds the rows of x that idx lists to an accumulator. wide has the sums of earlier blocks of
	// neighbours, nil if there are none. The list is of the relation, in a typed graph.
	Add(worker int, acc []float32, wide []float64, x []float32, idx []uint32, relation int)
	// sums stores the layer's sums of the nodes, with the input rows x, if Last.
	sums(worker int, z, acc, x []float32, nodes []uint32, of *prepare.Lists)
}

// Finish stores the output rows of the nodes in out. acc are their accumulators, x their input rows, if
// Last.
func (p *Pull) Finish(worker int, out, acc, x []float32, nodes []uint32, of *prepare.Lists) {
	z := p.rows(worker)
	p.sums(worker, z, acc, x, nodes, of)
	if of == nil {
		p.tail(worker, out, len(nodes))
		return
	}
	p.layer.tail.(*typedTail).finishKind(of.Kind, worker*p.Group, worker*p.Group+len(nodes))
	copy(out[:len(nodes)*p.Out], z)
}

// rows returns the worker's rows of the layer's output.
func (p *Pull) rows(worker int) []float32 {
	return p.layer.data[worker*p.Group*p.Out:][:p.Group*p.Out]
}

// tail turns the worker's first n rows of sums into output rows.
func (p *Pull) tail(worker int, out []float32, n int) {
	p.layer.tail.finish(worker*p.Group, worker*p.Group+n)
	copy(out[:n*p.Out], p.rows(worker))
}
