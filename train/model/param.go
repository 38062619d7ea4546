package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// InputLayer is the layer number of the input projection.
const InputLayer = -1

// Role says what a parameter does in its layer.
type Role int

const (
	Neighbour      Role = iota // multiplies what is aggregated
	Self                       // multiplies the row's own features
	ResidualWeight             // the same, as a linear map of its own
	AttentionSrc               // GAT: gives a source its part of an edge's score
	AttentionDst               // and a destination its part
	Bias
	ResidualBias
	NormScale
	NormShift
	// What a batch norm has seen, on average: not trained, and used in evaluation.
	RunningMean
	RunningVar

	LastTrained = NormShift
)

// Param describes one parameter.
type Param struct {
	// Name is its key in the state_dict of a PyTorch module whose lists are named
	// convs (PyTorch Geometric's layers), lins (residuals), norms, and whose input
	// projection is lin_in: convs.0.lin_l.weight, norms.0.bias, lin_in.weight.
	Name  string
	Layer int // or InputLayer
	Role  Role
	// Rows and Cols are the shape in which engines keep a weight: Rows inputs by
	// Cols outputs, row-major, the transpose of PyTorch's. A vector has one row.
	Rows, Cols int
	Shape      []int // PyTorch's
	// Initial values are uniform on Value ± Bound.
	Value, Bound float64
}

// Len returns the number of elements.
func (p *Param) Len() int { return p.Rows * p.Cols }

// Trained tells whether the parameter has a gradient.
func (p *Param) Trained() bool { return p.Role <= LastTrained }

// Params returns the parameters: those trained, layer by layer, the input
// projection first, each layer's in the order of the roles; then the statistics. The kind is
// one that Validate accepts.
func (m *Model) Params() []Param {
	var ps []Param
	if m.InputProjection > 0 {
		in, out := m.Features(), m.InputProjection
		ps = append(ps, matrix("lin_in.weight", InputLayer, Self, in, out, linearBound(in)),
			vector("lin_in.bias", InputLayer, Bias, out, 0, linearBound(in)))
	}
	for l := range m.Layers() {
		ps = append(ps, m.layerParams(l)...)
	}
	for l := range m.Layers() {
		if m.HasNorm(l) && m.Norm == BatchNorm {
			ps = append(ps, vector(numbered("norms", l, "running_mean"), l, RunningMean, m.Out(l), 0, 0),
				vector(numbered("norms", l, "running_var"), l, RunningVar, m.Out(l), 1, 0))
		}
	}
	return ps
}

func (m *Model) layerParams(l int) []Param {
	in, out := m.In(l), m.Out(l)
	bound := linearBound(in)
	var weights, biases []Param
	switch m.Kind {
	case GAT:
		weights, biases = m.gatParams(l)
	case GCN: // Glorot's weight, no bias at first
		weights = []Param{matrix(numbered("convs", l, "lin.weight"), l, Neighbour, in, out, math.Sqrt(6/float64(in+out)))}
		biases = []Param{vector(numbered("convs", l, "bias"), l, Bias, out, 0, 0)}
	case SAGE:
		weights = []Param{matrix(numbered("convs", l, "lin_l.weight"), l, Neighbour, in, out, bound),
			matrix(numbered("convs", l, "lin_r.weight"), l, Self, in, out, bound)}
		biases = []Param{vector(numbered("convs", l, "lin_l.bias"), l, Bias, out, 0, bound)}
	default:
		panic(fmt.Sprintf("model: no parameters of the kind %q", m.Kind))
	}
	if m.Residual {
		weights = append(weights, matrix(numbered("lins", l, "weight"), l, ResidualWeight, in, out, bound))
		biases = append(biases, vector(numbered("lins", l, "bias"), l, ResidualBias, out, 0, bound))
	}
	ps := append(weights, biases...)
	if m.HasNorm(l) {
		ps = append(ps, vector(numbered("norms", l, "weight"), l, NormScale, out, 1, 0),
			vector(numbered("norms", l, "bias"), l, NormShift, out, 0, 0))
	}
	return ps
}

// linearBound is that of PyTorch's linear layers (Kaiming uniform with a = √5), for
// weights and biases alike.
func linearBound(in int) float64 { return 1 / math.Sqrt(float64(in)) }

func numbered(list string, l int, name string) string {
	return list + "." + strconv.Itoa(l) + "." + name
}

func matrix(name string, l int, r Role, in, out int, bound float64) Param {
	return Param{Name: name, Layer: l, Role: r, Rows: in, Cols: out, Shape: []int{out, in}, Bound: bound}
}

func vector(name string, l int, r Role, n int, value, bound float64) Param {
	return Param{Name: name, Layer: l, Role: r, Rows: 1, Cols: n, Shape: []int{n}, Value: value, Bound: bound}
}

// Init fills values, of p.Len() elements in the engines' order, with the initial
// values that the seed gives the i-th parameter. They depend on nothing else.
func (p *Param) Init(values []float32, seed uint64, i int) {
	rng := rand.NewPCG(seed, uint64(i))
	for k := range values {
		u := float64(rng.Uint64()>>11) / (1 << 53)
		values[k] = float32(p.Value + (2*u-1)*p.Bound)
	}
}
