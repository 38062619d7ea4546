package cpu

import (
	"context"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Evaluator computes logits, or one layer's output, with an engine's current weights, which it shares,
// without dropout. It must not be used while the engine steps, nor after the
// engine's Close.
type Evaluator struct {
	plan     *plan
	net      *machine
	preparer *Preparer
}

// NewEvaluator makes an evaluator for batches of at most these sizes, which may be
// far larger than the training ones. Layers whose order was Auto get the cheaper
// one for a forward pass at these sizes.
func (e *Engine) NewEvaluator(sizes graph.Sizes) (*Evaluator, error) {
	return e.newEvaluator(0, e.plan.model.Layers(), sizes)
}

// NewLayerEvaluator makes an evaluator of one layer, for batches of one block: Infer
// returns what the layer hands on to the next, norm and activation included, or the
// logits. Layer 0 has the input projection in front of it, and takes features; the
// others take what the layer before has returned. Sizes are those of the one block.
// Its batches have a label for every destination, as any; their values don't matter.
func (e *Engine) NewLayerEvaluator(layer int, sizes graph.Sizes) (*Evaluator, error) {
	if layer < 0 || layer >= e.plan.model.Layers() {
		return nil, fault.New(fault.ErrUsage, "cpu engine: layer %d of %d", layer, e.plan.model.Layers())
	}
	v, err := e.newEvaluator(layer, 1, sizes)
	if err != nil {
		return nil, err
	}
	v.preparer.IgnoreLabels()
	return v, nil
}

func (e *Engine) newEvaluator(first, layers int, sizes graph.Sizes) (*Evaluator, error) {
	p, err := evaluationPlan(e.plan, e.blas, first, layers, sizes)
	if err != nil {
		return nil, err
	}
	v := &Evaluator{plan: p, preparer: prepare.New(p.model, p.orders, p.sizes, false)}
	v.net, err = newMachine(p, device.NewArena(), e.pool, e.blas, e.opt.weights, nil, nil)
	return v, err
}

// EvaluatorBytes predicts the memory that NewEvaluator's evaluator will hold.
func (e *Engine) EvaluatorBytes(sizes graph.Sizes) (int64, error) {
	p, err := evaluationPlan(e.plan, e.blas, 0, e.plan.model.Layers(), sizes)
	if err != nil {
		return 0, err
	}
	return networkBytes(p, nil), nil
}

// evaluationPlan is the plan of an evaluator beside a plan for training.
func evaluationPlan(p *plan, lib *blas.Library, first, layers int, sizes graph.Sizes) (*plan, error) {
	if err := engine.CheckSizes(layers, sizes); err != nil {
		return nil, err
	}
	return newPlan(p.model, first, resolveOrders(p.model, first, sizes, lib, false), sizes, p.threads), nil
}

// Width returns the width of the rows that Infer returns.
func (v *Evaluator) Width() int { return v.net.last().width }

// Preparer returns what makes batches ready for Infer.
func (v *Evaluator) Preparer() *Preparer { return v.preparer }

// Orders returns the layers' orders of operations.
func (v *Evaluator) Orders() []model.Order { return v.plan.orders }

// Infer returns the logits of the batch's seed nodes, row-major, a column per class
// (of one layer its output, of Width columns), in the evaluator's own memory: valid until its next call.
func (v *Evaluator) Infer(ctx context.Context, in *Input) ([]float32, error) {
	if err := checkInput(v.plan, v.preparer, in); err != nil {
		return nil, err
	}
	if err := v.net.run(ctx, in, 0, engine.Place{}); err != nil {
		return nil, err
	}
	last := v.net.last()
	return last.data[:in.Prepared.Batch().NumSeeds()*last.width], nil
}

// InferenceOrders returns the layers' orders with every Auto replaced by the order
// that is cheaper for forward passes at these counts, given a kind of BLAS.
func InferenceOrders(m *model.Model, counts graph.Sizes, kind string) ([]model.Order, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	lib, err := blas.Open(kind)
	if err != nil {
		return nil, err
	}
	return resolveOrders(m, 0, counts, lib, false), nil
}

// LayerBytes predicts the memory that computing one layer on blocks of at most these
// sizes takes: that of NewLayerEvaluator's evaluator and of one Prepared. It grows
// with each of the sizes.
func (e *Engine) LayerBytes(layer int, sizes graph.Sizes) (int64, error) {
	p, err := evaluationPlan(e.plan, e.blas, layer, 1, sizes)
	if err != nil {
		return 0, err
	}
	return networkBytes(p, nil) + prepare.New(p.model, p.orders, p.sizes, false).Bytes(), nil
}

// Finite tells whether all values are numbers: neither NaN nor infinite.
func Finite(values []float32) bool {
	sum := float32(0)
	for _, v := range values {
		sum += v - v // zero, or NaN from here on
	}
	return sum == 0
}
