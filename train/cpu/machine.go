package cpu

import (
	"context"
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

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
	layers []*layer // input side first
	loss   *loss    // nil outside training
	vm     gorgonia.VM
}

// networkBytes returns the bytes of newMachine's network, parameters not included.
func networkBytes(p *plan, l *lossOptions) int64 {
	dry := new(device.Arena)
	n := &network{plan: p, memory: memory{Arena: dry}, training: l != nil}
	(&machine{network: n}).allocate(l)
	return dry.Used()
}

// newMachine builds the graph over the parameters, which lie one after the other in weights. In
// training, with a loss, it computes their gradients too, into grads.
func newMachine(p *plan, a *device.Arena, pool *pool, lib *blas.Library, weights, grads []float32, l *lossOptions) (*machine, error) {
	n := &network{plan: p, memory: memory{Arena: a}, pool: pool, blas: lib, training: l != nil, weights: weights, grads: grads}
	m := &machine{network: n}
	m.allocate(l)
	g, err := m.build()
	if err != nil {
		return nil, err
	}
	m.vm = gorgonia.NewTapeMachine(g)
	return m, nil
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
func (m *machine) allocate(l *lossOptions) {
	n := m.network
	var top *layer
	add := func(index int) {
		top = newLayer(n, index, top)
		m.layers = append(m.layers, top)
	}
	if n.training {
		n.dropout = kernel.NewDropout(n.model.Dropout)
	}
	if n.first == 0 && n.model.InputProjection > 0 {
		add(model.InputLayer)
	}
	for i := range n.sizes.Dst {
		add(n.first + i)
	}
	if n.training {
		m.loss = newLoss(top, l)
		n.partial = n.floats(n.partialFloats)
	}
	n.scratch = n.floats(n.threads * chunkRows * n.scratchWidth)
	n.wide = n.doubles(n.threads * n.wideWidth)
}

// build makes the expression graph: for every layer an operation and a vector of parameters, and in
// training the loss and the graph's derivative.
func (m *machine) build() (*gorgonia.ExprGraph, error) {
	g := gorgonia.NewGraph()
	var params gorgonia.Nodes
	var h *gorgonia.Node
	for _, k := range m.layers {
		w := m.layerParams(m.weights, k.index)
		p := gorgonia.NewVector(g, gorgonia.Float32, gorgonia.WithName(fmt.Sprintf("params%d", k.index)),
			gorgonia.WithShape(len(w)), gorgonia.WithValue(dense(w, len(w))))
		params = append(params, p)
		operands := gorgonia.Nodes{p}
		if h != nil {
			operands = append(operands, h)
		}
		var err error
		if h, err = gorgonia.ApplyOp(&forward{m.node("layer", len(operands), k.data, k.rows, k.width), k}, operands...); err != nil {
			return nil, fmt.Errorf("cpu engine: build layer %d: %w", k.index, err)
		}
	}
	if !m.training {
		return g, nil
	}
	m.loss.node = m.node("loss", 1, nil)
	cost, err := gorgonia.ApplyOp(m.loss, h)
	if err != nil {
		return nil, fmt.Errorf("cpu engine: build loss: %w", err)
	}
	if _, err := gorgonia.Grad(cost, params...); err != nil {
		return nil, fmt.Errorf("cpu engine: differentiate: %w", err)
	}
	return g, nil
}

// statistics copies the means and variances of the batch to the places of the running ones in dst,
// the part of the parameters from the first statistic on.
func (m *machine) statistics(dst []float32) {
	m.eachBatchNorm(func(o *norm, mean, variance int) {
		copy(dst[mean:], o.mean)
		copy(dst[variance:], o.variance)
	})
}

// track updates the running statistics with a batch's.
func (m *machine) track(batch []float32) {
	m.eachBatchNorm(func(o *norm, mean, variance int) {
		follow(o.runMean, batch[mean:])
		follow(o.runVar, batch[variance:])
	})
}

// eachBatchNorm calls f with the offsets of each batch norm's running statistics after the trained
// parameters.
func (m *machine) eachBatchNorm(f func(o *norm, mean, variance int)) {
	for _, k := range m.layers {
		if o, ok := k.tail.(*norm); ok && o.batch {
			mean, variance := m.Statistics(k.index)
			f(o, mean, variance)
		}
	}
}

// last returns the layer of the logits.
func (m *machine) last() *layer { return m.layers[len(m.layers)-1] }

func newLayer(n *network, index int, below *layer) *layer {
	k := &layer{output: newOutput(n, index), below: below, in: n.model.In(index)}
	if n.training && below != nil {
		k.dx = n.floats(below.rows * below.width)
	}
	switch {
	case n.model.Types != nil:
		k.tail = newTypedTail(&k.output)
	case n.model.HasNorm(index):
		k.tail = newNorm(newActivation(&k.output))
	default:
		k.tail = newActivation(&k.output)
	}
	k.conv = newConv(k)
	return k
}

// convs has the convolution of every kind of model.
var convs = map[model.Kind]func(*layer) conv{
	model.SAGE:  newLinear,
	model.GCN:   newLinear,
	model.GAT:   newAttention,
	model.RSAGE: newRelationalSAGE,
	model.RGCN:  newRelationalGCN,
	model.RGAT:  newRelationAttention,
}

// newConv makes a layer's convolution. The kind is one that Validate of the model accepts.
func newConv(k *layer) conv {
	if k.index == model.InputLayer {
		return newProjection(k)
	}
	kind := k.net.model.Kind
	if convs[kind] == nil {
		panic(fmt.Sprintf("cpu: no layer of the kind %q", kind))
	}
	return convs[kind](k)
}

func newAttention(k *layer) conv {
	if k.net.orders[k.index-k.net.first] == model.Multiply {
		return newAttentionProducts(k)
	}
	return newAttentionSums(k)
}

// forward is a layer's forward pass as an operation of its parameters and its input.
type forward struct {
	node
	layer *layer
}

func (o *forward) Do(...gorgonia.Value) (gorgonia.Value, error) {
	k := o.layer
	k.tail.begin()
	if err := k.conv.forward(k.source()); err != nil {
		return nil, err
	}
	return o.out, k.tail.complete()
}

func (o *forward) DiffWRT(inputs int) []bool {
	wrt := make([]bool, inputs)
	for i := range wrt {
		wrt[i] = true
	}
	return wrt
}

// SymDiff makes one operation of the layer's whole backward pass. dz is the gradient
// of the sums.
func (o *forward) SymDiff(inputs gorgonia.Nodes, _, dz *gorgonia.Node) (gorgonia.Nodes, error) {
	k, n := o.layer, o.layer.net
	grads := n.layerParams(n.grads, k.index)
	if k.below == nil {
		dp, err := gorgonia.ApplyOp(&backward{n.node("backward", 1, grads, len(grads)), k}, dz)
		return gorgonia.Nodes{dp}, err
	}
	dx, err := gorgonia.ApplyOp(&backward{n.node("backward", 2, k.dx, k.below.rows, k.below.width), k}, dz, inputs[1])
	if err != nil {
		return nil, err
	}
	dp, err := gorgonia.ApplyOp(&computed{n.node("gradients", 1, grads, len(grads))}, dx)
	return gorgonia.Nodes{dp, dx}, err
}

// backward is a layer's backward pass as an operation of the gradient of its sums and, except in
// the first layer, of its input. Its result is the gradient of the input; the gradients of the
// parameters are computed with it.
type backward struct {
	node
	layer *layer
}

func (o *backward) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	k, dz := o.layer, v[0].(*tensor.Dense).Float32s()
	if err := k.tail.completeBackward(dz); err != nil {
		return nil, err
	}
	return o.out, k.conv.backward(k.source(), dz)
}
