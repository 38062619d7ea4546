package model

import "diskgnn/internal/fault"

// Typed reports whether models of the kind are for typed graphs, and have Types.
func (k Kind) Typed() bool {
	a := k.row()
	return a != nil && a.typing != untyped
}

// Alive returns which node types have rows in the input of layer l, or in the logits if there is no layer l. In
// layer 0 all types have. A layer that sums over relations makes rows of the types that relations of the layer
// lead to, and a relation takes part in a layer if its source type is alive there; then its destination is alive
// too. In a typed batch, nodes of other types have rows of zeros, which no layer reads.
func (m *Model) Alive(l int) []bool {
	alive := make([]bool, len(m.Types.Nodes))
	for i := range alive {
		alive[i] = true
	}
	if m.row().typing == rooted {
		return alive
	}
	for range l {
		next := make([]bool, len(alive))
		for _, r := range m.Types.Relations {
			if alive[r.Source] {
				next[r.Destination] = true
			}
		}
		alive = next
	}
	return alive
}

// TakesPart returns which relations take part in layer l: see Alive.
func (m *Model) TakesPart(l int) []bool {
	alive, parts := m.Alive(l), make([]bool, len(m.Types.Relations))
	for r, k := range m.Types.Relations {
		parts[r] = alive[k.Source]
	}
	return parts
}

// validateTypes checks that the model has types if its kind needs them, and no option that typed models lack.
func (m *Model) validateTypes() error {
	if !m.Kind.Typed() {
		if m.Types != nil {
			return fault.New(fault.ErrUsage, "model: node types are for other kinds than %s", m.Kind)
		}
		return nil
	}
	if m.Types == nil {
		return fault.New(fault.ErrUsage, "model: %s is for graphs with node types", m.Kind)
	}
	if err := m.Types.validate(); err != nil {
		return err
	}
	switch {
	case m.Norm != "" && m.Norm != NoNorm:
		return fault.New(fault.ErrUsage, "model: %s has no norm", m.Kind)
	case m.Residual:
		return fault.New(fault.ErrUsage, "model: %s has no residual", m.Kind)
	case m.InputProjection != 0:
		return fault.New(fault.ErrUsage, "model: %s has no input projection", m.Kind)
	case m.Orders != nil:
		return fault.New(fault.ErrUsage, "model: %s has one order of operations: it aggregates first", m.Kind)
	case !m.Alive(m.Layers())[m.Types.Seed]:
		return fault.New(fault.ErrUsage, "model: the seed nodes, of type %s, have no logits in %d layers of %s: relations lead to them by fewer steps",
			m.Types.Nodes[m.Types.Seed], m.Layers(), m.Kind)
	}
	return nil
}
