// Package engine is what computes a model on mini-batches, as a run sees it.
package engine

import "diskgnn/train/model"

// Info says what an engine computes with.
type Info struct {
	BLAS       string        `json:"blas,omitempty"`
	SIMD       string        `json:"simd,omitempty"`
	Device     string        `json:"device,omitempty"`            // the GPU
	Precision  string        `json:"precision,omitempty"`         // of its matrix products
	Orders     []model.Order `json:"layer_orders,omitempty"`      // of training
	EvalOrders []model.Order `json:"eval_layer_orders,omitempty"` // of evaluation
	Note       string        `json:"-"`                           // what the user should know
}
