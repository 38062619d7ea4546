package cpu

import "diskgnn/train/prepare"

// PullShape describes the rows of a Pull, in elements.
type PullShape struct {
	In  int // of an input row
	Row int // of a row that destinations add
	Acc int // of a destination's accumulator
	Out int // of an output row
	// Wide is the number of elements at the front of an accumulator that are sums. For a destination
	// with many neighbours the caller adds them, block by block, to float64s. 0: there are none.
	Wide  int
	Maps  bool // Map makes the rows that destinations add; else these are the input rows
	First bool // Begin reads the input rows of the destinations
	Last  bool // Finish does
	Loops bool // edges from a node to itself are left out: Begin adds one
	// Group is the number of rows of each product. Map, Begin and Finish take this number of rows or
	// fewer; the rows that a group lacks, which must be memory, are computed too and ignored, so that
	// a library sees one shape.
	Group int
}

// Pull computes one layer for destinations that add the rows of their neighbours, in ascending order:
// Begin, Add for any number of runs of neighbours, Finish. Each row is added to the accumulator
// itself, so the results do not depend on how a destination's neighbours are cut into runs.
//
// Its methods may run at the same time for different workers, below the number of the engine's
// threads. The caller guards the graph, which they read. They do not check their arguments.
type Pull struct {
	PullShape
	layer *layer // its output has Group rows for each worker
	graph *prepare.Whole
	pulling
}

// pulling is the part of a Pull that differs between kinds of layers.
type pulling interface {
	// Map stores the rows that destinations add, of n nodes from first on with the input rows x.
	Map(worker int, to, x []float32, first uint32, n int)
	// Begin sets the accumulators of n destinations with the input rows x, if First.
	Begin(worker int, acc, x []float32, n int)
	// Add adds the rows of x that idx lists to an accumulator. wide has the sums of earlier blocks of
	// neighbours, nil if there are none.
	Add(worker int, acc []float32, wide []float64, x []float32, idx []uint32)
	// sums stores the layer's sums of the nodes, with the input rows x, if Last.
	sums(worker int, z, acc, x []float32, nodes []uint32)
}

// Finish stores the output rows of the nodes in out. acc are their accumulators, x their input rows, if
// Last.
func (p *Pull) Finish(worker int, out, acc, x []float32, nodes []uint32) {
	z := p.rows(worker)
	p.sums(worker, z, acc, x, nodes)
	p.tail(worker, out, len(nodes))
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
