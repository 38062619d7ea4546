package model

// Layout says where a model's parameters lie when they lie one after the other, in the
// order of Params: as engines keep them.
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

// Count returns the elements of all parameters.
func (l *Layout) Count() int { return l.Offsets[len(l.Params)] }

// Span returns where a layer's parameters with roles from one to another lie, which are
// next to each other; nothing, at 0, where it has none.
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

// Init fills values, one for every element, with the initial ones of a seed.
func (l *Layout) Init(values []float32, seed uint64) {
	for i := range l.Params {
		l.Params[i].Init(values[l.Offsets[i]:l.Offsets[i+1]], seed, i)
	}
}
