// Package model describes a network once, for every engine that computes it: its
// kind, the widths of its layers, the order of operations in each, and the names,
// shapes and initial values of its parameters.
//
// It knows no tensors and no graphs: an engine reads the description and builds
// what it needs.
package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
)

// Kind names an architecture.
type Kind string

// SAGE is GraphSAGE with mean aggregation (Hamilton et al. 2017, as PyTorch
// Geometric's SAGEConv computes it): a layer maps the features x of a block's
// sources to
//
//	mean of x over the sampled neighbours · Wneigh + x of the destination · Wself + b
//
// followed, except in the last layer, by ReLU and dropout. A destination without
// neighbours has mean zero.
const SAGE Kind = "sage"

// Model describes a network.
type Model struct {
	Kind    Kind    `json:"kind"`
	Dims    []int   `json:"dims"`    // input width, hidden widths, number of classes: one more than layers
	Dropout float64 `json:"dropout"` // rate after every layer but the last, in [0, 1)
	// Orders holds each layer's order of operations. Nil stands for Auto in all of
	// them; engines resolve Auto and report what they resolved it to.
	Orders []Order `json:"orders,omitempty"`
}

// Layers returns the number of layers.
func (m *Model) Layers() int { return len(m.Dims) - 1 }

// In returns the width of layer l's input.
func (m *Model) In(l int) int { return m.Dims[l] }

// Out returns the width of layer l's output.
func (m *Model) Out(l int) int { return m.Dims[l+1] }

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
	if m.Kind != SAGE {
		return fault.New(fault.ErrUsage, "model: unknown kind %q (known: %s)", m.Kind, SAGE)
	}
	if len(m.Dims) < 2 {
		return fault.New(fault.ErrUsage, "model: %d widths describe no layer", len(m.Dims))
	}
	if slices.Min(m.Dims) < 1 {
		return fault.New(fault.ErrUsage, "model: a layer of width %d", slices.Min(m.Dims))
	}
	if !(m.Dropout >= 0 && m.Dropout < 1) {
		return fault.New(fault.ErrUsage, "model: dropout %v is not in [0, 1)", m.Dropout)
	}
	if m.Orders != nil && len(m.Orders) != m.Layers() {
		return fault.New(fault.ErrUsage, "model: %d orders of operations for %d layers", len(m.Orders), m.Layers())
	}
	for l := range m.Layers() {
		if o := m.Order(l); !slices.Contains(orders, o) {
			return fault.New(fault.ErrUsage, "model: layer %d: unknown order %q (known: %s)", l, o, joined(orders))
		}
	}
	return nil
}

func joined(o []Order) string {
	s := make([]string, len(o))
	for i := range o {
		s[i] = string(o[i])
	}
	return strings.Join(s, ", ")
}

// Role says what a parameter does in its layer.
type Role int

const (
	Neighbour Role = iota // multiplies the neighbours' mean
	Self                  // multiplies the destination's own features
	Bias
)

// Param describes one parameter.
type Param struct {
	// Name is what PyTorch Geometric's state_dict calls it in a module list named
	// convs: convs.0.lin_l.weight, convs.0.lin_l.bias, convs.0.lin_r.weight.
	Name  string
	Layer int
	Role  Role
	// Rows and Cols are the shape in which engines keep a weight: Rows inputs by
	// Cols outputs, row-major, the transpose of PyTorch's. A bias has one row.
	Rows, Cols int
	// Bound is the half-width of the uniform distribution of the initial values:
	// 1/√inputs, for the bias too, as SAGEConv's linear layers have it (Kaiming
	// uniform with a = √5).
	Bound float64
}

// Len returns the number of elements.
func (p *Param) Len() int { return p.Rows * p.Cols }

// Params returns the parameters, layer by layer, each in the order of the roles.
func (m *Model) Params() []Param {
	var ps []Param
	for l := range m.Layers() {
		prefix := "convs." + strconv.Itoa(l)
		bound := 1 / math.Sqrt(float64(m.In(l)))
		ps = append(ps,
			Param{prefix + ".lin_l.weight", l, Neighbour, m.In(l), m.Out(l), bound},
			Param{prefix + ".lin_r.weight", l, Self, m.In(l), m.Out(l), bound},
			Param{prefix + ".lin_l.bias", l, Bias, 1, m.Out(l), bound})
	}
	return ps
}

// Init fills values, of p.Len() elements in the engines' order, with the initial
// values that the seed gives the i-th parameter. They depend on nothing else.
func (p *Param) Init(values []float32, seed uint64, i int) {
	rng := rand.NewPCG(seed, uint64(i))
	for k := range values {
		u := float64(rng.Uint64()>>11) / (1 << 53)
		values[k] = float32((2*u - 1) * p.Bound)
	}
}
