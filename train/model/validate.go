package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
)

// Validate checks the description. Its errors are of kind fault.ErrUsage.
func (m *Model) Validate() error {
	if m.Kind.row() == nil {
		return unknown("kind", m.Kind, Kinds())
	}
	if len(m.Dims) < 2 {
		return fault.New(fault.ErrUsage, "model: %d widths describe no layer", len(m.Dims))
	}
	if m.Layers() > maxLayers {
		return fault.New(fault.ErrUsage, "model: %d layers; the most is %d", m.Layers(), maxLayers)
	}
	if least, most := slices.Min(m.Dims), slices.Max(m.Dims[:m.Layers()]); least < 1 || most > maxWidth || m.Classes() > math.MaxInt32 {
		return fault.New(fault.ErrUsage, "model: layers of the widths %v are impossible", m.Dims)
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
	if err := m.validateTypes(); err != nil {
		return err
	}
	if err := m.validateVariant(); err != nil {
		return err
	}
	return m.validateCount()
}

// These bound widths and layers, so that no count overflows. Batches have at most this number of
// layers.
const (
	maxWidth  = 1 << 24
	maxLayers = 64
)

func (m *Model) validateVariant() error {
	switch {
	case !known(m.Norm, Norms):
		return unknown("norm", m.Norm, Norms)
	case !known(m.Activation, Activations):
		return unknown("activation", m.Activation, Activations)
	case !known(m.Aggregator, Aggregators):
		return unknown("aggregator", m.Aggregator, Aggregators)
	case !known(m.GCNNorm, GCNNorms):
		return unknown("gcn norm", m.GCNNorm, GCNNorms)
	case m.InputProjection < 0 || m.InputProjection > maxWidth:
		return fault.New(fault.ErrUsage, "model: an input projection of width %d is impossible", m.InputProjection)
	case !m.Commutes() && slices.Contains(m.Orders, Multiply):
		return fault.New(fault.ErrUsage, "model: aggregator %s cannot multiply first", m.Aggregator)
	}
	return m.validateOptions()
}

func (m *Model) validateOptions() error {
	if o, value := m.Foreign(); o != "" {
		return fault.New(fault.ErrUsage, "model: %s %v is for %s, not %s", o, value, o.Kinds(), m.Kind)
	}
	if m.Bases < 0 || m.Bases > MaxBases {
		return fault.New(fault.ErrUsage, "model: %d bases (0 to %d)", m.Bases, MaxBases)
	}
	if !m.Kind.Has(HeadsOption) {
		return nil
	}
	if m.Heads < 1 || m.Heads > MaxHeads {
		return fault.New(fault.ErrUsage, "model: %d heads (1 to %d)", m.Heads, MaxHeads)
	}
	for l := range m.Layers() - 1 {
		if m.Out(l)%m.Heads != 0 {
			return fault.New(fault.ErrUsage, "model: a hidden width of %d is not a multiple of %d heads", m.Out(l), m.Heads)
		}
	}
	return nil
}

// validateCount refuses more parameters than any memory holds: counts of them would overflow.
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

// known reports whether a name is empty or in the list.
func known[T ~string](name T, list []T) bool { return name == "" || slices.Contains(list, name) }

// unknown says that a name is none of those known.
func unknown[T ~string](what string, name T, known []T) error {
	s := make([]string, len(known))
	for i := range known {
		s[i] = string(known[i])
	}
	return fault.New(fault.ErrUsage, "model: unknown %s %q (known: %s)", what, name, strings.Join(s, ", "))
}
