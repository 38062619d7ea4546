package model

// Params returns the parameters: the trained ones layer by layer, the input projection first, each
// layer's in the order of the roles; then the statistics. The kind must be valid.
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
	in, out, bound := m.In(l), m.Out(l), linearBound(m.In(l))
	weights, biases := m.row().params(m, l)
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

// Layout gives the offsets of a model's parameters in one array, in the order of Params, which
// engines use.
type Layout struct {
	Params  []Param
	Offsets []int // where each begins, and where the last ends, in elements
	Trained int   // elements that have a gradient; they come first
}

// Layout returns the layout of the model's parameters.
func (m *Model) Layout() Layout {
	l := Layout{Params: m.Params(), Offsets: []int{0}}
	for i := range l.Params {
		l.Offsets = append(l.Offsets, l.Offsets[i]+l.Params[i].Len())
		if l.Params[i].Trained() {
			l.Trained = l.Offsets[i+1]
		}
	}
	return l
}

// Count returns the number of elements of all parameters.
func (l *Layout) Count() int { return l.Offsets[len(l.Params)] }

// Span returns the range lo to hi of a layer's parameters with the roles from to to, which are
// adjacent; an empty range at 0 if it has none.
func (l *Layout) Span(layer int, from, to Role) (lo, hi int) {
	for i := range l.Params {
		if p := &l.Params[i]; p.Layer == layer && from <= p.Role && p.Role <= to {
			if hi == 0 {
				lo = l.Offsets[i]
			}
			hi = l.Offsets[i+1]
		}
	}
	return lo, hi
}

// Statistics returns the offsets of a layer's running mean and variance, counted from the end of
// the trained parameters.
func (l *Layout) Statistics(layer int) (mean, variance int) {
	mean, _ = l.Span(layer, RunningMean, RunningMean)
	variance, _ = l.Span(layer, RunningVar, RunningVar)
	return mean - l.Trained, variance - l.Trained
}

// Has reports whether a layer has a parameter with the role.
func (l *Layout) Has(layer int, r Role) bool {
	lo, hi := l.Span(layer, r, r)
	return lo < hi
}

// Init fills values, one for every element, with a seed's initial values.
func (l *Layout) Init(values []float32, seed uint64) {
	for i := range l.Params {
		l.Params[i].Init(values[l.Offsets[i]:l.Offsets[i+1]], seed, i)
	}
}
