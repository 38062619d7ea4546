package gnn

import (
	"context"
	"fmt"

	"gorgonia.org/gorgonia"

	"diskgnn/train/gnn/blas"
	"diskgnn/train/gnn/kernel"
	"diskgnn/train/gnn/model"
)

// network is a Gorgonia graph of the model at maximum shapes, built once, and the
// machine that runs it on one batch after the other.
type network struct {
	*plan
	pool     *pool
	blas     *blas.Library
	training bool
	dropout  kernel.Dropout
	ops      int   // operations made so far
	bytes    int64 // allocated so far

	machine gorgonia.VM
	layers  []*layer
	loss    *crossEntropy // nil outside training

	partial []float32 // group sums of the weight gradient being computed

	// The batch that is being run.
	ctx  context.Context
	in   *Input
	seed uint64
	step uint64
	err  error // what stopped the run
}

// newNetwork builds the graph over the parameters, which lie one after the other in
// weights. In training their gradients are computed too, into grads.
func newNetwork(p *plan, pool *pool, lib *blas.Library, weights, grads []float32) (*network, error) {
	n := &network{plan: p, pool: pool, blas: lib, training: grads != nil}
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
		width := 0
		for l := range p.model.Layers() {
			width = max(width, p.model.In(l))
		}
		scratch = n.floats(p.threads * 2 * chunkRows * width)
	}
	var h *gorgonia.Node
	var err error
	for l := range p.model.Layers() {
		k := newLayer(n, l, scratch)
		n.layers = append(n.layers, k)
		operands := gorgonia.Nodes{params[3*l], params[3*l+2], params[3*l+1]} // neighbour, self, bias
		if l > 0 {
			operands = append(gorgonia.Nodes{h}, operands...)
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
	n.machine = gorgonia.NewTapeMachine(g)
	return n, nil
}

// floats allocates and counts.
func (n *network) floats(count int) []float32 {
	n.bytes += 4 * int64(count)
	return make([]float32, count)
}

func (n *network) parameterNodes(g *gorgonia.ExprGraph, weights []float32) gorgonia.Nodes {
	nodes := make(gorgonia.Nodes, len(n.params))
	at := 0
	for i := range n.params {
		q := &n.params[i]
		shape := []int{q.Rows, q.Cols}
		if q.Role == model.Bias {
			shape = shape[1:]
		}
		nodes[i] = gorgonia.NewTensor(g, gorgonia.Float32, len(shape), gorgonia.WithName(q.Name), gorgonia.WithShape(shape...),
			gorgonia.WithValue(dense(weights[at:at+q.Len()], shape...)))
		at += q.Len()
	}
	return nodes
}

// placeGradients tells every layer where its parameters' gradients go.
func (n *network) placeGradients(grads []float32) {
	for i := range n.params {
		q := &n.params[i]
		n.layers[q.Layer].grads[q.Role], grads = grads[:q.Len()], grads[q.Len():]
	}
}

// run computes the graph for one batch.
func (n *network) run(ctx context.Context, in *Input, seed, step uint64) error {
	n.ctx, n.in, n.seed, n.step, n.err = ctx, in, seed, step, nil
	err := n.machine.RunAll()
	n.machine.Reset()
	n.ctx, n.in = nil, nil
	if n.err != nil {
		return n.err
	}
	return err
}

// each runs b over n rows in chunks of grain, and keeps the error that stopped it:
// the machine's own would hide it behind a trace.
func (n *network) each(rows, grain int, b body) error {
	if n.err == nil {
		n.err = n.pool.each(n.ctx, rows, grain, b)
	}
	return n.err
}
