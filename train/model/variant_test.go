package model

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

// TestNames: what is known, the default first.
func TestNames(t *testing.T) {
	got := fmt.Sprint(Kinds(), Norms, Activations, Aggregators, GCNNorms)
	if want := "[sage gcn gat rsage rgcn rgat] [none batch layer] [relu elu] [mean sum max] [graph block]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	for o, want := range map[Option]string{AggregatorOption: "sage", GCNNormOption: "gcn", HeadsOption: "gat and rgat", BasesOption: "rgcn"} {
		if got := o.Kinds(); got != want {
			t.Errorf("%s is of %s, not %s", o, got, want)
		}
	}
}

// TestValidateVariant: each option is refused by a sentence of its own.
func TestValidateVariant(t *testing.T) {
	sage := Model{Kind: SAGE, Dims: []int{8, 4, 2}}
	for _, c := range []struct {
		change func(m *Model)
		says   string // "": it is valid
	}{
		{func(*Model) {}, ""},
		{func(m *Model) { m.Norm, m.Activation, m.Aggregator = LayerNorm, ELU, Sum }, ""},
		{func(m *Model) { m.Activation, m.Aggregator = ReLU, Mean }, ""},
		{func(m *Model) { m.Norm = "group" }, `norm "group"`},
		{func(m *Model) { m.Activation = "gelu" }, `activation "gelu"`},
		{func(m *Model) { m.Aggregator = "median" }, `aggregator "median"`},
		{func(m *Model) { m.Kind, m.GCNNorm = GCN, "both" }, `gcn norm "both"`},
		{func(m *Model) { m.InputProjection = -1 }, "an input projection of width -1"},
		{func(m *Model) { m.InputProjection = 1 << 24 }, ""},
		{func(m *Model) { m.InputProjection = 1<<24 + 1 }, "an input projection of width 16777217"},
		{func(m *Model) { m.Aggregator, m.Orders = Max, []Order{Aggregate, Multiply} }, "aggregator max cannot multiply first"},
		{func(m *Model) { m.Aggregator, m.Orders = Max, []Order{Aggregate, Auto} }, ""},
		{func(m *Model) { m.Aggregator, m.Orders = Sum, []Order{Aggregate, Multiply} }, ""},
		{func(m *Model) { m.Kind, m.Aggregator = GCN, Mean }, ""},
		{func(m *Model) { m.Kind, m.Aggregator = GCN, Sum }, "aggregator sum is for sage, not gcn"},
		{func(m *Model) { m.Kind, m.GCNNorm = GCN, BlockNorm }, ""},
		{func(m *Model) { m.GCNNorm = GraphNorm }, ""},
		{func(m *Model) { m.GCNNorm = BlockNorm }, "gcn-norm block is for gcn, not sage"},
		{func(m *Model) { m.Heads = 1 }, "heads 1 is for gat and rgat, not sage"},
		{func(m *Model) { m.Kind = GAT }, "0 heads (1 to 1024)"},
		{func(m *Model) { m.Kind, m.Heads = GAT, 1 }, ""},
		{func(m *Model) { m.Kind, m.Heads, m.Dims = GAT, 1024, []int{8, 1024, 2} }, ""},
		{func(m *Model) { m.Kind, m.Heads, m.Dims = GAT, 1025, []int{8, 1025, 2} }, "1025 heads (1 to 1024)"},
		{func(m *Model) { m.Kind, m.Heads = GAT, 3 }, "a hidden width of 4 is not a multiple of 3 heads"},
	} {
		m := sage
		c.change(&m)
		err := m.Validate()
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, not %q", m, err, c.says)
		}
	}
}

// TestClearOthers: a model keeps the options of its own kind.
func TestClearOthers(t *testing.T) {
	for kind, want := range map[Kind]string{SAGE: "max  0", GCN: " block 0", GAT: "  2", "mlp": "  0"} {
		m := Model{Kind: kind, Aggregator: Max, GCNNorm: BlockNorm, Heads: 2}
		m.ClearOthers()
		if got := fmt.Sprint(m.Aggregator, " ", m.GCNNorm, " ", m.Heads); got != want {
			t.Errorf("%s keeps %q, not %q", kind, got, want)
		}
	}
}

// TestWeighing: how edges are weighed, by kind and option, and whether others in the block count.
func TestWeighing(t *testing.T) {
	for _, c := range []struct {
		m        Model
		want     Weighing
		commutes bool
		blocks   bool
	}{
		{Model{Kind: SAGE}, Averaged, true, false},
		{Model{Kind: SAGE, Aggregator: Mean}, Averaged, true, false},
		{Model{Kind: SAGE, Aggregator: Sum}, Unweighed, true, false},
		{Model{Kind: SAGE, Aggregator: Max}, Unweighed, false, false},
		{Model{Kind: GCN}, ByGraph, true, false},
		{Model{Kind: GCN, GCNNorm: GraphNorm}, ByGraph, true, false},
		{Model{Kind: GCN, GCNNorm: BlockNorm}, ByBlock, true, true},
		{Model{Kind: GAT, Heads: 2}, Attended, true, false},
	} {
		if c.m.Weighing() != c.want || c.m.Commutes() != c.commutes || c.m.CountsBlocks() != c.blocks {
			t.Errorf("%+v: %s, commutes %v, counts blocks %v", c.m, c.m.Weighing(), c.m.Commutes(), c.m.CountsBlocks())
		}
	}
}

// TestHasNorm: hidden layers are normalised, if any are.
func TestHasNorm(t *testing.T) {
	for norm, want := range map[Norm]string{"": "[false false false false]", NoNorm: "[false false false false]", BatchNorm: "[false true true false]", LayerNorm: "[false true true false]"} {
		m := Model{Kind: SAGE, Dims: []int{8, 4, 4, 2}, Norm: norm}
		var got []bool
		for l := -1; l < 3; l++ {
			got = append(got, m.HasNorm(l))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, not %s", norm, got, want)
		}
	}
}

// TestLoss: terms by hand, and what is refused.
func TestLoss(t *testing.T) {
	if c, b := CrossEntropy.Terms(7, 3), Binary.Terms(7, 3); c != 7 || b != 21 {
		t.Errorf("%d and %d terms", c, b)
	}
	for _, c := range []struct {
		loss      Loss
		smoothing float64
		says      string // "": it is valid
	}{
		{CrossEntropy, 0, ""},
		{CrossEntropy, 0.1, ""},
		{Binary, 0, ""},
		{"hinge", 0, `unknown loss "hinge" (known: cross-entropy, binary)`},
		{"", 0, `unknown loss ""`},
		{CrossEntropy, -0.1, "label smoothing -0.1 is not in [0, 1)"},
		{CrossEntropy, 1, "label smoothing 1 is not in [0, 1)"},
		{CrossEntropy, math.NaN(), "label smoothing NaN is not in [0, 1)"},
		{Binary, 0.1, "label smoothing is for cross-entropy, not binary"},
	} {
		err := c.loss.Validate(c.smoothing)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s, %v: %v, not %q", c.loss, c.smoothing, err, c.says)
		}
	}
}
