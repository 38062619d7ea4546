package cpu

import (
	"context"

	"diskgnn/graph"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// Evaluator computes logits, or one layer's output, with an engine's current weights, which it
// shares, without dropout. It must not be used while the engine steps, nor after the engine's
// Close.
type Evaluator struct {
	plan     *plan
	net      *machine
	preparer *prepare.Preparer
}

// evaluationPlan is the plan of an evaluator beside a plan for training.
func evaluationPlan(p *plan, lib *blas.Library, first, layers int, sizes graph.Sizes) (*plan, error) {
	if err := engine.CheckSizes(layers, sizes); err != nil {
		return nil, err
	}
	return newPlan(p.model, first, resolveOrders(p.model, first, sizes, lib, false), sizes, p.threads), nil
}

// Preparer returns the preparer of batches for Infer.
func (v *Evaluator) Preparer() *prepare.Preparer { return v.preparer }

// Infer returns the logits of the batch's seed nodes, row-major, a column per class (for one layer
// its output, a column per element), in the evaluator's own memory: valid until its next call.
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

// Finite reports whether no value is NaN or infinite.
func Finite(values []float32) bool {
	sum := float32(0)
	for _, v := range values {
		sum += v - v // zero, or NaN from here on
	}
	return sum == 0
}

// resolveOrders replaces every Auto by the cheaper order, for the layers from first on, with the
// typical sizes.
func resolveOrders(m *model.Model, first int, typical graph.Sizes, lib *blas.Library, training bool) []model.Order {
	rates := model.OpenBLASRates
	if lib.Kind() == blas.Gonum {
		rates = model.GonumRates
	}
	orders := make([]model.Order, len(typical.Src))
	for i := range orders {
		orders[i] = m.ResolveOrder(first+i, typical.Src[i], typical.Dst[i], typical.Edges[i], training, rates)
	}
	return orders
}
