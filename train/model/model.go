// Package model describes a network once, for every engine that computes it: its
// kind, the widths of its layers, the order of operations in each, and the names,
// shapes and initial values of its parameters.
//
// It has no tensors and no graphs: an engine builds them from the description.
package model

// Model describes a network:
//
//	h = x, or with an input projection dropout(relu(x·W + b))
//	h = dropout(activation(norm(layer(h) + residual)))    all layers but the last
//	logits = layer(h) + residual
//
// Zero values of the options stand for their defaults.
type Model struct {
	Kind    Kind    `json:"kind"`
	Dims    []int   `json:"dims"`    // input width, hidden widths, number of classes: one more than layers
	Dropout float64 `json:"dropout"` // rate after every layer but the last, from 0 to kernel.MaxDropout
	// Orders holds each layer's order of operations. Nil stands for Auto in all of them; engines
	// resolve Auto and report the resolved orders.
	Orders []Order `json:"orders,omitempty"`

	Norm       Norm       `json:"norm,omitempty"`
	Activation Activation `json:"activation,omitempty"`
	// Residual adds a learned linear map of the destination's input to every layer's
	// output, ahead of the norm.
	Residual bool `json:"residual,omitempty"`
	// InputProjection is the width of a linear map of the features before the first layer; 0 is
	// none.
	InputProjection int `json:"input_projection,omitempty"`
	// Options of some kinds.
	Aggregator Aggregator `json:"aggregator,omitempty"`
	GCNNorm    GCNNorm    `json:"gcn_norm,omitempty"`
	Heads      int        `json:"heads,omitempty"`
	Bases      int        `json:"bases,omitempty"`
	// Types are set for the kinds that are for typed graphs.
	Types *Types `json:"types,omitempty"`
}

// Layers returns the number of layers.
func (m *Model) Layers() int { return len(m.Dims) - 1 }

// Features returns the width of the batches' features.
func (m *Model) Features() int { return m.Dims[0] }

// In returns the width of layer l's input; l may be InputLayer.
func (m *Model) In(l int) int {
	switch {
	case l == InputLayer:
		return m.Features()
	case l == 0 && m.InputProjection > 0:
		return m.InputProjection
	}
	return m.Dims[l]
}

// Out returns the width of layer l's output; l may be InputLayer.
func (m *Model) Out(l int) int {
	if l == InputLayer {
		return m.InputProjection
	}
	return m.Dims[l+1]
}

// Classes returns the width of the last layer's output.
func (m *Model) Classes() int { return m.Dims[len(m.Dims)-1] }

// Order returns layer l's order of operations.
func (m *Model) Order(l int) Order {
	if m.Orders == nil {
		return Auto
	}
	return m.Orders[l]
}

// Commutes reports whether a layer's aggregation commutes with linear maps, so that both orders of
// operations are possible.
func (m *Model) Commutes() bool { return m.Aggregator != Max }

// CountsBlocks reports whether the weight of an edge depends on the other edges in its block.
func (m *Model) CountsBlocks() bool { return m.GCNNorm == BlockNorm }

// HasNorm reports whether layer l's sums are normalised.
func (m *Model) HasNorm(l int) bool {
	return l >= 0 && l < m.Layers()-1 && m.Norm != "" && m.Norm != NoNorm
}

// HeadWidth returns the width of one of the heads in layer l.
func (m *Model) HeadWidth(l int) int {
	if l == m.Layers()-1 {
		return m.Out(l)
	}
	return m.Out(l) / m.Heads
}
