package model

import (
	"fmt"
	"slices"
	"strings"
)

// architecture is a row of the table of kinds: the properties of one kind of model. Each engine has
// a table of its own with the layer of every kind. Tests fail for a part that a row lacks, and for
// a row that another table lacks.
type architecture struct {
	kind    Kind
	title   string                                           // the name in prose
	unit    Activation                                       // of the hidden layers, where it is left open
	typing  typing                                           // the graphs that it is for
	options []Option                                         // beside the options of every kind
	edges   func(m *Model) Weighing                          // how a block's edges are weighed
	costs   func(m *Model, l int, k *layerCounts)            // completes layer l for the cost model
	params  func(m *Model, l int) (weights, vectors []Param) // of layer l's convolution, by PyTorch's names
}

// architectures is the table of kinds, the default first. The constants SAGE, GCN and GAT define
// the layers, and the self-loops of GCN and GAT.
var architectures = []architecture{{
	kind: SAGE, title: "GraphSAGE", unit: ReLU, typing: untyped, options: []Option{AggregatorOption},
	edges: func(m *Model) Weighing {
		if m.Aggregator == "" || m.Aggregator == Mean {
			return Averaged
		}
		return Unweighed
	},
	costs: func(_ *Model, _ int, k *layerCounts) { k.Self = true },
	params: func(m *Model, l int) (weights, vectors []Param) {
		in, out, bound := m.In(l), m.Out(l), linearBound(m.In(l))
		weights = []Param{matrix(numbered("convs", l, "lin_l.weight"), l, Neighbour, in, out, bound),
			matrix(numbered("convs", l, "lin_r.weight"), l, Self, in, out, bound)}
		return weights, []Param{vector(numbered("convs", l, "lin_l.bias"), l, Bias, out, 0, bound)}
	},
}, {
	kind: GCN, title: "GCN", unit: ReLU, typing: untyped, options: []Option{GCNNormOption},
	edges: func(m *Model) Weighing {
		if m.GCNNorm == BlockNorm {
			return ByBlock
		}
		return ByGraph
	},
	costs: func(_ *Model, _ int, k *layerCounts) { k.Edges += k.Dst },
	params: func(m *Model, l int) (weights, vectors []Param) { // Glorot's weight, no bias at first
		in, out := m.In(l), m.Out(l)
		weights = []Param{matrix(numbered("convs", l, "lin.weight"), l, Neighbour, in, out, glorotBound(in, out))}
		return weights, []Param{vector(numbered("convs", l, "bias"), l, Bias, out, 0, 0)}
	},
}, {
	kind: GAT, title: "GAT", unit: ELU, typing: untyped, options: []Option{HeadsOption},
	edges: func(*Model) Weighing { return Attended },
	costs: func(m *Model, l int, k *layerCounts) {
		k.Edges += k.Dst
		k.Heads, k.Part = m.Heads, m.HeadWidth(l)
	},
	params: (*Model).attentionParams,
}, {
	kind: RSAGE, title: "R-GraphSAGE", unit: ReLU, typing: byRelation,
	edges:  func(*Model) Weighing { return Averaged },
	costs:  func(_ *Model, _ int, k *layerCounts) { k.Self = true },
	params: (*Model).relationalParams,
}, {
	kind: RGCN, title: "R-GCN", unit: ReLU, typing: rooted, options: []Option{BasesOption},
	edges:  func(*Model) Weighing { return Averaged },
	costs:  func(_ *Model, _ int, k *layerCounts) { k.Self = true },
	params: (*Model).rootedParams,
}, {
	kind: RGAT, title: "R-GAT", unit: ELU, typing: byRelation, options: []Option{HeadsOption},
	edges:  func(*Model) Weighing { return AttendedByRow },
	costs:  func(m *Model, l int, k *layerCounts) { k.Heads, k.Part = m.Heads, m.HeadWidth(l) },
	params: (*Model).relationAttentionParams,
}}

// Kinds returns the kinds of models, the default first.
func Kinds() []Kind {
	kinds := make([]Kind, len(architectures))
	for i := range architectures {
		kinds[i] = architectures[i].kind
	}
	return kinds
}

// row returns the kind's row of the table, nil for a kind that is not in it.
func (k Kind) row() *architecture {
	i := slices.IndexFunc(architectures, func(a architecture) bool { return a.kind == k })
	if i < 0 {
		return nil
	}
	return &architectures[i]
}

// row returns the row of the model's kind, which must be valid.
func (m *Model) row() *architecture {
	a := m.Kind.row()
	if a == nil {
		panic(fmt.Sprintf("model: unknown kind %q", m.Kind))
	}
	return a
}

// Title returns the kind's name in prose; for an unknown kind its name in capitals.
func (k Kind) Title() string {
	if a := k.row(); a != nil {
		return a.title
	}
	return strings.ToUpper(string(k))
}

// Option is an option of a Model that only some kinds have, named after its flag.
type Option string

const (
	AggregatorOption Option = "aggregator"
	GCNNormOption    Option = "gcn-norm"
	HeadsOption      Option = "heads"
	BasesOption      Option = "bases"
)

// Has reports whether models of the kind have the option.
func (k Kind) Has(o Option) bool {
	a := k.row()
	return a != nil && slices.Contains(a.options, o)
}

// Kinds names the kinds that have the option.
func (o Option) Kinds() string {
	var names []string
	for _, k := range Kinds() {
		if k.Has(o) {
			names = append(names, string(k))
		}
	}
	return strings.Join(names, " and ")
}

// ClearOthers clears the options of other kinds.
func (m *Model) ClearOthers() {
	if !m.Kind.Has(AggregatorOption) {
		m.Aggregator = ""
	}
	if !m.Kind.Has(GCNNormOption) {
		m.GCNNorm = ""
	}
	if !m.Kind.Has(HeadsOption) {
		m.Heads = 0
	}
	if !m.Kind.Has(BasesOption) {
		m.Bases = 0
	}
}

// Foreign returns an option that is set though only other kinds have it, with its value; "" if
// there is none.
func (m *Model) Foreign() (o Option, value any) {
	switch k := m.Kind; {
	case !k.Has(AggregatorOption) && m.Aggregator != "" && m.Aggregator != Mean:
		return AggregatorOption, m.Aggregator
	case !k.Has(GCNNormOption) && m.GCNNorm != "" && m.GCNNorm != GraphNorm:
		return GCNNormOption, m.GCNNorm
	case !k.Has(HeadsOption) && m.Heads != 0:
		return HeadsOption, m.Heads
	case !k.Has(BasesOption) && m.Bases != 0:
		return BasesOption, m.Bases
	}
	return "", nil
}

// Unit returns the activation of the hidden layers.
func (m *Model) Unit() Activation {
	if m.Activation != "" {
		return m.Activation
	}
	return m.row().unit
}

// Weighing is the way in which a block's edges are weighed. It decides as well whether destinations
// have an edge to themselves.
type Weighing string

const (
	Unweighed Weighing = "unweighed" // all alike: in a sum, or a maximum
	Averaged  Weighing = "averaged"  // for the mean over a row's edges
	ByGraph   Weighing = "by graph"  // as GraphNorm says, the destination itself too
	ByBlock   Weighing = "by block"  // as BlockNorm says, the destination itself too
	Attended  Weighing = "attended"  // by the layer itself, over edges of which one is from the destination to itself
	// By the layer itself, over the edges of each row.
	AttendedByRow Weighing = "attended by row"
)

// Weighings lists all values of Weighing.
var Weighings = []Weighing{Unweighed, Averaged, ByGraph, ByBlock, Attended, AttendedByRow}

// Weighing returns how the model's edges are weighed.
func (m *Model) Weighing() Weighing { return m.row().edges(m) }

// MaxHeads and MaxBases bound the numbers of heads and of bases.
const (
	MaxHeads = 1024
	MaxBases = 1024
)

// LeakySlope is GAT's leaky ReLU's factor for negative scores.
const LeakySlope = 0.2

// attentionParams returns the parameters of layer l of GAT. W has a block of columns, and each
// attention vector a part, for every head.
func (m *Model) attentionParams(l int) (weights, vectors []Param) {
	in, part := m.In(l), m.HeadWidth(l)
	width := m.Heads * part
	attention := func(name string, r Role) Param {
		p := vector(numbered("convs", l, name), l, r, width, 0, glorotBound(m.Heads, part))
		p.Shape = []int{1, m.Heads, part}
		return p
	}
	weights = []Param{matrix(numbered("convs", l, "lin.weight"), l, Neighbour, in, width, glorotBound(in, width))}
	return weights, []Param{attention("att_src", AttentionSrc), attention("att_dst", AttentionDst),
		vector(numbered("convs", l, "bias"), l, Bias, m.Out(l), 0, 0)}
}

// costLayer describes layer l to the cost model, for blocks of these counts.
func (m *Model) costLayer(l, src, dst, edges int, train bool) layerCounts {
	k := layerCounts{Src: src, Dst: dst, Edges: edges, In: m.In(l), Out: m.Out(l), Self: m.Residual,
		Input: l == 0 && m.InputProjection == 0, Train: train}
	m.row().costs(m, l, &k)
	return k
}

// ResolveOrder returns layer l's order. It replaces Auto by the cheaper order for blocks of these
// counts.
func (m *Model) ResolveOrder(l, src, dst, edges int, train bool, r Rates) Order {
	switch o := m.Order(l); {
	case !m.Commutes() || m.Types != nil:
		return Aggregate
	case o != Auto:
		return o
	}
	return chooseOrder(m.costLayer(l, src, dst, edges, train), r)
}
