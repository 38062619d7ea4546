package gnn

import (
	"context"
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"diskgnn/internal/kernel"
	"diskgnn/train/gnn/blas"
)

// machine runs the Gorgonia graph of a model, built once at maximum shapes, on one
// batch after the other.
type machine struct {
	*network
	vm gorgonia.VM
}

// network is what the operations of one graph share. It must not lead to the
// machine: Gorgonia gives that one a finalizer, and a cycle through it would keep
// all buffers for ever.
type network struct {
	*plan
	pool     *pool
	blas     *blas.Library
	training bool
	dropout  kernel.Dropout
	ops      int         // operations made so far
	buffers  [][]float32 // everything allocated so far

	layers  []*layer
	loss    *crossEntropy // nil outside training
	partial []float32     // group sums of the weight gradient being computed

	// The batch that is being run.
	ctx  context.Context
	in   *Input
	seed uint64
	step uint64
	err  error // what stopped the run
}

// newMachine builds the graph over the parameters, which lie one after the other in
// weights. In training their gradients are computed too, into grads.
func newMachine(p *plan, pool *pool, lib *blas.Library, weights, grads []float32) (*machine, error) {
	n := &network{plan: p, pool: pool, blas: lib, training: grads != nil}
	g, err := n.build(weights, grads)
	if err != nil {
		return nil, err
	}
	return &machine{n, gorgonia.NewTapeMachine(g)}, nil
}

// run computes the graph for one batch.
func (m *machine) run(ctx context.Context, in *Input, seed, step uint64) error {
	m.ctx, m.in, m.seed, m.step, m.err = ctx, in, seed, step, nil
	err := m.vm.RunAll()
	m.vm.Reset()
	m.ctx, m.in = nil, nil
	if m.err != nil {
		return m.err
	}
	return err
}

func (n *network) build(weights, grads []float32) (*gorgonia.ExprGraph, error) {
	p := n.plan
	if n.training {
		n.dropout = kernel.NewDropout(p.model.Dropout)
		size := 0
		for l := range p.model.Layers() {
			size = max(size, p.partialFloats(l))
		}
		n.partial = n.floats(size)
	}
	g := gorgonia.NewGraph()
	params := n.parameterNodes(g, weights)
	var scratch []float32
	if !n.training {
		scratch = n.floats(p.threads * p.scratchFloats())
	}
	var h *gorgonia.Node
	var err error
	for l := range p.model.Layers() {
		k := newLayer(n, l, scratch)
		n.layers = append(n.layers, k)
		operands := params[2*l : 2*l+2 : 2*l+2]
		if l > 0 {
			operands = gorgonia.Nodes{operands[0], operands[1], h}
		}
		if h, err = gorgonia.ApplyOp(k, operands...); err != nil {
			return nil, fmt.Errorf("gnn: build layer %d: %w", l, err)
		}
	}
	if n.training {
		n.loss = newCrossEntropy(n, n.layers[len(n.layers)-1])
		cost, err := gorgonia.ApplyOp(n.loss, h)
		if err != nil {
			return nil, fmt.Errorf("gnn: build loss: %w", err)
		}
		n.placeGradients(grads)
		if _, err := gorgonia.Grad(cost, params...); err != nil {
			return nil, fmt.Errorf("gnn: differentiate: %w", err)
		}
	}
	return g, nil
}

// floats allocates a buffer and notes it.
func (n *network) floats(count int) []float32 {
	b := make([]float32, count)
	n.buffers = append(n.buffers, b)
	return b
}

// parameterNodes returns two nodes for every layer: both weights, one below the
// other as they lie in memory, and the bias.
func (n *network) parameterNodes(g *gorgonia.ExprGraph, weights []float32) gorgonia.Nodes {
	var nodes gorgonia.Nodes
	add := func(name string, shape ...int) {
		size := tensor.Shape(shape).TotalSize()
		nodes = append(nodes, gorgonia.NewTensor(g, gorgonia.Float32, len(shape), gorgonia.WithName(name),
			gorgonia.WithShape(shape...), gorgonia.WithValue(dense(weights[:size:size], shape...))))
		weights = weights[size:]
	}
	for l := range n.model.Layers() {
		add(fmt.Sprintf("weights%d", l), 2*n.model.In(l), n.model.Out(l))
		add(fmt.Sprintf("bias%d", l), n.model.Out(l))
	}
	return nodes
}

// placeGradients tells every layer where its parameters' gradients go, in the order
// of the parameters.
func (n *network) placeGradients(grads []float32) {
	for _, k := range n.layers {
		weights := 2 * k.in * k.outDim
		k.dWeights, k.dBias = grads[:weights:weights], grads[weights:weights+k.outDim]
		grads = grads[weights+k.outDim:]
	}
}

// each runs b over n rows in chunks of grain, and keeps the error that stopped it:
// the machine's own would hide it behind a trace.
func (n *network) each(rows, grain int, b body) error {
	if n.err == nil {
		n.err = n.pool.each(n.ctx, rows, grain, b)
	}
	return n.err
}
