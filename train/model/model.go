// Package model describes a network once, for every engine that computes it: its
// kind, the widths of its layers, the order of operations in each, and the names,
// shapes and initial values of its parameters.
//
// It knows no tensors and no graphs: an engine reads the description and builds
// what it needs.
package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
)

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
	// Orders holds each layer's order of operations. Nil stands for Auto in all of
	// them; engines resolve Auto and report what they resolved it to.
	Orders []Order `json:"orders,omitempty"`

	Norm       Norm       `json:"norm,omitempty"`
	Activation Activation `json:"activation,omitempty"`
	// Residual adds a learned linear map of the destination's input to every layer's
	// output, ahead of the norm.
	Residual bool `json:"residual,omitempty"`
	// InputProjection is the width to which a linear map brings the features before
	// the first layer; 0 is none.
	InputProjection int `json:"input_projection,omitempty"`
	// Options of some kinds.
	Aggregator Aggregator `json:"aggregator,omitempty"`
	GCNNorm    GCNNorm    `json:"gcn_norm,omitempty"`
	Heads      int        `json:"heads,omitempty"`
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

// Validate checks the description. Its errors are of kind fault.ErrUsage.
func (m *Model) Validate() error {
	if m.Kind.row() == nil {
		return unknown("kind", m.Kind, Kinds())
	}
	if len(m.Dims) < 2 {
		return fault.New(fault.ErrUsage, "model: %d widths describe no layer", len(m.Dims))
	}
	if m.Layers() > maxLayers {
		return fault.New(fault.ErrUsage, "model: %d layers, more than %d", m.Layers(), maxLayers)
	}
	if least, most := slices.Min(m.Dims), slices.Max(m.Dims[:m.Layers()]); least < 1 || most > maxWidth || m.Classes() > math.MaxInt32 {
		return fault.New(fault.ErrUsage, "model: layers of widths %v", m.Dims)
	}
	if err := kernel.CheckDropout(m.Dropout); err != nil {
		return fault.New(fault.ErrUsage, "model: dropout %v: %w", m.Dropout, err)
	}
	if m.Orders != nil && len(m.Orders) != m.Layers() {
		return fault.New(fault.ErrUsage, "model: %d orders of operations for %d layers", len(m.Orders), m.Layers())
	}
	for l := range m.Layers() {
		if o := m.Order(l); !slices.Contains(orders, o) {
			return fmt.Errorf("layer %d: %w", l, unknown("order", o, orders))
		}
	}
	if err := m.validateVariant(); err != nil {
		return err
	}
	return m.validateCount()
}

// validateCount refuses more parameters than any memory holds, of which counts would
// overflow.
func (m *Model) validateCount() error {
	const most = 1 << 48
	sum := 0.0
	for _, p := range m.Params() {
		sum += float64(p.Rows) * float64(p.Cols)
	}
	if sum > most {
		return fault.New(fault.ErrUsage, "model: layers of widths %v have more than %d parameters", m.Dims, int64(most))
	}
	return nil
}

// unknown says that a name is none of those known.
func unknown[T ~string](what string, name T, known []T) error {
	s := make([]string, len(known))
	for i := range known {
		s[i] = string(known[i])
	}
	return fault.New(fault.ErrUsage, "model: unknown %s %q (known: %s)", what, name, strings.Join(s, ", "))
}
