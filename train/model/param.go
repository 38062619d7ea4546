package model

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// InputLayer is the layer number of the input projection.
const InputLayer = -1

// Role is a parameter's role in its layer.
type Role int

const (
	Neighbour      Role = iota // multiplies the aggregate of the neighbours
	Composition                // combines weights of relations from matrices
	Self                       // multiplies the row's own features
	ResidualWeight             // the same, as a linear map of its own
	AttentionSrc               // gives a source its part of an edge's score
	AttentionDst               // and a destination its part
	Bias
	ResidualBias
	NormScale
	NormShift
	// The running averages of a batch norm: not trained, and used in evaluation.
	RunningMean
	RunningVar

	LastTrained = NormShift
)

// Param describes one parameter.
type Param struct {
	// Name is the parameter's key in the state_dict of a PyTorch module with lists named convs
	// (PyTorch Geometric's layers), lins (residuals) and norms, and the input projection lin_in:
	// convs.0.lin_l.weight, norms.0.bias, lin_in.weight.
	Name  string
	Layer int // or InputLayer
	Role  Role
	// Rows and Cols are the shape of a weight in engines: Rows inputs by Cols outputs, row-major,
	// the transpose of PyTorch's unless it is Straight. A vector has one row. A layer may have several
	// parameters of a role, one for each relation.
	Rows, Cols int
	Shape      []int // PyTorch's
	Straight   bool  // PyTorch has the elements in the order of engines
	// Initial values are uniform on Value ± Bound.
	Value, Bound float64
}

// Len returns the number of elements.
func (p *Param) Len() int { return p.Rows * p.Cols }

// Place returns the place of an element of engines in PyTorch's tensor, row-major.
func (p *Param) Place(row, col int) int {
	if p.Straight {
		return row*p.Cols + col
	}
	return col*p.Rows + row
}

// Trained reports whether the parameter has a gradient.
func (p *Param) Trained() bool { return p.Role <= LastTrained }

// linearBound is the bound of PyTorch's linear layers (Kaiming uniform with a = √5), for weights
// and biases alike.
func linearBound(in int) float64 { return 1 / math.Sqrt(float64(in)) }

// glorotBound is the bound of Glorot's uniform initial values.
func glorotBound(in, out int) float64 { return math.Sqrt(6 / float64(in+out)) }

func numbered(list string, l int, name string) string {
	return list + "." + strconv.Itoa(l) + "." + name
}

func matrix(name string, l int, r Role, in, out int, bound float64) Param {
	return Param{Name: name, Layer: l, Role: r, Rows: in, Cols: out, Shape: []int{out, in}, Bound: bound}
}

func vector(name string, l int, r Role, n int, value, bound float64) Param {
	return Param{Name: name, Layer: l, Role: r, Rows: 1, Cols: n, Shape: []int{n}, Value: value, Bound: bound}
}

// Init fills values, of p.Len() elements in the engines' order, with the initial values of the i-th
// parameter, which depend only on the seed, i and p.
func (p *Param) Init(values []float32, seed uint64, i int) {
	rng := rand.NewPCG(seed, uint64(i))
	for k := range values {
		u := float64(rng.Uint64()>>11) / (1 << 53)
		values[k] = float32(p.Value + (2*u-1)*p.Bound)
	}
}
