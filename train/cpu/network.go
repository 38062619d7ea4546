package cpu

import (
	"context"
	"fmt"

	"gorgonia.org/gorgonia"

	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// machine runs the Gorgonia graph of a model, built once at maximum shapes, on one
// batch after the other.
type machine struct {
	*network
	vm gorgonia.VM
}

// network is the layers of a model with their buffers. It must not lead to the
// machine: Gorgonia gives that one a finalizer, and a cycle through it would keep
// all buffers for ever.
type network struct {
	*plan
	memory
	pool     *pool
	blas     *blas.Library
	training bool
	dropout  kernel.Dropout // none outside training
	ops      int            // operations made so far

	weights, grads []float32 // of all parameters, and of those trained
	layers         []*layer  // input side first
	loss           *loss     // nil outside training

	partial []float32 // group sums of the weight gradient being computed
	scratch []float32 // of the workers, one after the other
	wide    []float64 // likewise, for long sums

	// The batch that is being run.
	ctx  context.Context
	in   *Input
	seed uint64
	at   engine.Place
	err  error // what stopped the run
}

// memory hands out a network's buffers, from an arena.
type memory struct {
	*device.Arena
	buffers [][]float32 // handed out
	// The most that any layer needs of what they share.
	partialFloats, scratchWidth, wideWidth int
}

func (m *memory) floats(n int) []float32 {
	b := device.Take[float32](m.Arena, n)
	if b != nil {
		m.buffers = append(m.buffers, b)
	}
	return b
}

func (m *memory) doubles(n int) []float64 { return device.Take[float64](m.Arena, n) }

func (m *memory) indices(n int) []uint32 { return device.Take[uint32](m.Arena, n) }

// needPartial notes that the gradient of a weight with so many elements will be
// summed over at most rows rows.
func (m *memory) needPartial(rows, weight int) {
	m.partialFloats = max(m.partialFloats, divUp(rows, groupRows(rows, weight))*weight)
}

// needScratch notes that a worker will want rows of this width for a chunk.
func (m *memory) needScratch(width int) { m.scratchWidth = max(m.scratchWidth, width) }

// networkBytes returns what newMachine's network will hold, parameters not included.
func networkBytes(p *plan, l *lossOptions) int64 {
	dry := new(device.Arena)
	(&network{plan: p, memory: memory{Arena: dry}, training: l != nil}).allocate(l)
	return dry.Used()
}

// newMachine builds the graph over the parameters, which lie one after the other in
// weights. In training, with a loss, their gradients are computed too, into grads.
func newMachine(p *plan, a *device.Arena, pool *pool, lib *blas.Library, weights, grads []float32, l *lossOptions) (*machine, error) {
	n := &network{plan: p, memory: memory{Arena: a}, pool: pool, blas: lib, training: l != nil, weights: weights, grads: grads}
	n.allocate(l)
	g, err := n.build()
	if err != nil {
		return nil, err
	}
	return &machine{n, gorgonia.NewTapeMachine(g)}, nil
}

// run computes the graph for one batch.
func (m *machine) run(ctx context.Context, in *Input, seed uint64, at engine.Place) error {
	m.ctx, m.in, m.seed, m.at, m.err = ctx, in, seed, at, nil
	err := m.vm.RunAll()
	m.vm.Reset()
	m.ctx, m.in = nil, nil
	if m.err != nil {
		return m.err
	}
	return err
}

// allocate makes the layers and all buffers.
func (n *network) allocate(l *lossOptions) {
	var top *layer
	add := func(index int) {
		top = newLayer(n, index, top)
		n.layers = append(n.layers, top)
	}
	if n.training {
		n.dropout = kernel.NewDropout(n.model.Dropout)
	}
	if n.projects() {
		add(model.InputLayer)
	}
	for i := range n.sizes.Dst {
		add(n.first + i)
	}
	if n.training {
		n.loss = newLoss(n, l)
		n.partial = n.floats(n.partialFloats)
	}
	n.scratch = n.floats(n.threads * chunkRows * n.scratchWidth)
	n.wide = n.doubles(n.threads * n.wideWidth)
}

// build makes the expression graph: for every layer an operation and a vector of
// parameters, and in training the loss and what differentiates all of it.
func (n *network) build() (*gorgonia.ExprGraph, error) {
	g := gorgonia.NewGraph()
	var params gorgonia.Nodes
	var h *gorgonia.Node
	for _, k := range n.layers {
		w := n.layerParams(n.weights, k.index)
		p := gorgonia.NewVector(g, gorgonia.Float32, gorgonia.WithName(fmt.Sprintf("params%d", k.index)),
			gorgonia.WithShape(len(w)), gorgonia.WithValue(dense(w, len(w))))
		params = append(params, p)
		operands := gorgonia.Nodes{p}
		if h != nil {
			operands = append(operands, h)
		}
		var err error
		if h, err = gorgonia.ApplyOp(&forward{n.node("layer", len(operands), k.data, k.rows, k.width), k}, operands...); err != nil {
			return nil, fmt.Errorf("cpu engine: build layer %d: %w", k.index, err)
		}
	}
	if !n.training {
		return g, nil
	}
	n.loss.node = n.node("loss", 1, nil)
	cost, err := gorgonia.ApplyOp(n.loss, h)
	if err != nil {
		return nil, fmt.Errorf("cpu engine: build loss: %w", err)
	}
	if _, err := gorgonia.Grad(cost, params...); err != nil {
		return nil, fmt.Errorf("cpu engine: differentiate: %w", err)
	}
	return g, nil
}

// statistics copies the means and variances of the batch that was run to where the running
// ones lie among the parameters, which dst has the places of from the first of them on.
func (n *network) statistics(dst []float32) {
	n.eachBatchNorm(func(o *norm, mean, variance int) {
		copy(dst[mean:], o.mean)
		copy(dst[variance:], o.variance)
	})
}

// track lets running statistics follow those of a batch.
func (n *network) track(batch []float32) {
	n.eachBatchNorm(func(o *norm, mean, variance int) {
		follow(o.runMean, batch[mean:])
		follow(o.runVar, batch[variance:])
	})
}

// eachBatchNorm calls f with where the running statistics of each batch norm lie behind the
// parameters that are trained.
func (n *network) eachBatchNorm(f func(o *norm, mean, variance int)) {
	for _, k := range n.layers {
		if o := k.tail.norm; o != nil && o.batch {
			mean, variance := n.Statistics(k.index)
			f(o, mean, variance)
		}
	}
}

// last returns the layer that puts out the logits.
func (n *network) last() *layer { return n.layers[len(n.layers)-1] }

// workerScratch returns the worker's own memory for rows of this width.
func (n *network) workerScratch(worker, rows, width int) []float32 {
	size := chunkRows * n.scratchWidth
	return n.scratch[worker*size:][:rows*width]
}

// each runs b over n rows in chunks of grain, and keeps the error that stopped it:
// the machine's own would hide it behind a trace.
func (n *network) each(rows, grain int, b body) error {
	if n.err == nil {
		n.err = n.pool.each(n.ctx, rows, grain, b)
	}
	return n.err
}
