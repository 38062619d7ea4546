package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"diskgnn/internal/fault"
)

// Names and shapes are those of the state_dict of two GATConvs, 8 → 4×3 and 12 → 5
// with four heads, averaged.
func TestGATParams(t *testing.T) {
	m := Model{Kind: GAT, Dims: []int{8, 12, 5}, Heads: 4}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Params() {
		got = append(got, fmt.Sprintf("%s %v %.4f", p.Name, p.Shape, p.Bound))
		n := 1
		for _, d := range p.Shape {
			n *= d
		}
		if p.Len() != n || p.Value != 0 {
			t.Errorf("%s: %d elements around %v", p.Name, p.Len(), p.Value)
		}
	}
	glorot := func(a, b float64) float64 { return math.Sqrt(6 / (a + b)) }
	want := []string{
		fmt.Sprintf("convs.0.lin.weight [12 8] %.4f", glorot(8, 12)),
		fmt.Sprintf("convs.0.att_src [1 4 3] %.4f", glorot(4, 3)),
		fmt.Sprintf("convs.0.att_dst [1 4 3] %.4f", glorot(4, 3)),
		"convs.0.bias [12] 0.0000",
		fmt.Sprintf("convs.1.lin.weight [20 12] %.4f", glorot(12, 20)),
		fmt.Sprintf("convs.1.att_src [1 4 5] %.4f", glorot(4, 5)),
		fmt.Sprintf("convs.1.att_dst [1 4 5] %.4f", glorot(4, 5)),
		"convs.1.bias [5] 0.0000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("parameters\n%q, want\n%q", got, want)
	}
}

func TestGATOptions(t *testing.T) {
	good := Model{Kind: GAT, Dims: []int{8, 12, 5}, Heads: 4}
	for name, spoil := range map[string]func(m *Model){
		"no heads":        func(m *Model) { m.Heads = 0 },
		"too many":        func(m *Model) { m.Heads = MaxHeads + 1 },
		"heads of SAGE":   func(m *Model) { m.Kind = SAGE },
		"not dividing":    func(m *Model) { m.Heads = 5 },
		"with aggregator": func(m *Model) { m.Aggregator = Max },
	} {
		m := good
		spoil(&m)
		if err := m.Validate(); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	one := Model{Kind: GAT, Dims: []int{8, 5}, Heads: 4} // classes need not be divided
	if err := one.Validate(); err != nil {
		t.Error(err)
	}
	if relu := (Model{Kind: SAGE}); good.Unit() != ELU || relu.Unit() != ReLU {
		t.Error("default activations")
	}
	if chosen := (Model{Kind: GAT, Activation: ReLU}); chosen.Unit() != ReLU {
		t.Error("a chosen activation")
	}
}
