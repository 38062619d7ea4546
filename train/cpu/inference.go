package cpu

import (
	"diskgnn/graph"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
	"diskgnn/train/score"
)

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
	p, err := e.evaluationPlan(layer, 1, sizes)
	if err != nil {
		return 0, err
	}
	return networkBytes(p, nil) + prepare.New(p.model, p.orders, p.sizes, false).Bytes(), nil
}

// Class returns the class that a row of logits speaks for: the largest one's, the
// first of equals.
func Class(logits []float32) int { return score.Largest(logits) }

// Finite tells whether all values are numbers: neither NaN nor infinite.
func Finite(values []float32) bool {
	sum := float32(0)
	for _, v := range values {
		sum += v - v // zero, or NaN from here on
	}
	return sum == 0
}
