package model

// relationParams returns a parameter of every relation.
func (m *Model) relationParams(l int, name string, make func(name string) Param) []Param {
	var ps []Param
	for r := range m.Types.Relations {
		ps = append(ps, make(numbered("convs", l, "convs."+m.Types.key(r)+"."+name)))
	}
	return ps
}

// relationalParams returns the parameters of layer l of R-GraphSAGE: a SAGEConv for every relation.
func (m *Model) relationalParams(l int) (weights, vectors []Param) {
	in, out, bound := m.In(l), m.Out(l), linearBound(m.In(l))
	weights = m.relationParams(l, "lin_l.weight", func(name string) Param { return matrix(name, l, Neighbour, in, out, bound) })
	weights = append(weights, m.relationParams(l, "lin_r.weight", func(name string) Param { return matrix(name, l, Self, in, out, bound) })...)
	return weights, m.relationParams(l, "lin_l.bias", func(name string) Param { return vector(name, l, Bias, out, 0, bound) })
}

// rootedParams returns the parameters of layer l of R-GCN: RGCNConv's, of which weights are inputs by outputs.
func (m *Model) rootedParams(l int) (weights, vectors []Param) {
	in, out := m.In(l), m.Out(l)
	relations := len(m.Types.Relations)
	matrices, bound := relations, glorotBound(in, out)
	if m.Bases > 0 {
		matrices = m.Bases
	}
	weights = []Param{{Name: numbered("convs", l, "weight"), Layer: l, Role: Neighbour, Rows: matrices * in, Cols: out, Shape: []int{matrices, in, out}, Straight: true, Bound: bound}}
	if m.Bases > 0 {
		weights = append(weights, Param{Name: numbered("convs", l, "comp"), Layer: l, Role: Composition, Rows: relations, Cols: m.Bases,
			Shape: []int{relations, m.Bases}, Straight: true, Bound: glorotBound(relations, m.Bases)})
	}
	weights = append(weights, Param{Name: numbered("convs", l, "root"), Layer: l, Role: Self, Rows: in, Cols: out, Shape: []int{in, out}, Straight: true, Bound: bound})
	return weights, []Param{vector(numbered("convs", l, "bias"), l, Bias, out, 0, 0)}
}

// relationAttentionParams returns the parameters of layer l of R-GAT: a GATConv for every relation, of which both ends have
// one projection.
func (m *Model) relationAttentionParams(l int) (weights, vectors []Param) {
	in, part := m.In(l), m.HeadWidth(l)
	width := m.Heads * part
	attention := func(r Role) func(name string) Param {
		return func(name string) Param {
			p := vector(name, l, r, width, 0, glorotBound(m.Heads, part))
			p.Shape = []int{1, m.Heads, part}
			return p
		}
	}
	weights = m.relationParams(l, "lin.weight", func(name string) Param { return matrix(name, l, Neighbour, in, width, glorotBound(in, width)) })
	vectors = append(m.relationParams(l, "att_src", attention(AttentionSrc)), m.relationParams(l, "att_dst", attention(AttentionDst))...)
	return weights, append(vectors, m.relationParams(l, "bias", func(name string) Param { return vector(name, l, Bias, m.Out(l), 0, 0) })...)
}
