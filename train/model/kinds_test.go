package model

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
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

// smallest returns a model of one layer.
func smallest(kind Kind) Model {
	m := Model{Kind: kind, Dims: []int{4, 2}, Heads: 1, Bases: 1}
	m.ClearOthers()
	if kind.Typed() {
		m.Types = &Types{Nodes: []string{"a"}, Relations: []Relation{{Name: "r"}}}
	}
	return m
}

// No row lacks a part, but for options of its own, and none is there twice. What the parts say
// agrees: a layer whose destinations have weights of their own costs their products.
func TestEveryKindIsWhole(t *testing.T) {
	titles := map[string]bool{}
	for i := range architectures {
		a := &architectures[i]
		row := reflect.ValueOf(a).Elem()
		for f := range row.NumField() {
			if name := row.Type().Field(f).Name; row.Field(f).IsZero() && name != "options" {
				t.Errorf("%s has no %s", a.kind, name)
			}
		}
		if titles[a.title] || a.kind.row() != a || a.kind.Title() != a.title {
			t.Errorf("%s or %s is there twice", a.kind, a.title)
		}
		titles[a.title] = true
		m := smallest(a.kind)
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
		if w := m.Weighing(); !slices.Contains(Weighings, w) {
			t.Errorf("%s: edges are weighed %q", a.kind, w)
		}
		layout := m.Layout()
		if k := m.costLayer(0, 3, 2, 5, true); k.Self != layout.Has(0, Self) || k.Heads != m.Heads || k.Edges < 5 {
			t.Errorf("%s costs as %+v", a.kind, k)
		}
		for _, p := range m.Params() {
			if !strings.HasPrefix(p.Name, "convs.0.") {
				t.Errorf("%s: %s is no parameter of PyTorch Geometric's layer", a.kind, p.Name)
			}
		}
	}
	if got := Kind("mlp").Title(); got != "MLP" || Kind("mlp").Has(HeadsOption) {
		t.Errorf("a kind that is not known is %s", got)
	}
}

// The script that loads weights into PyTorch Geometric, and the tables of tensors and of flags, have
// every kind.
func TestEveryKindIsDocumented(t *testing.T) {
	for file, form := range map[string]string{"python/load.py": `kind == "%s"`, "python.md": "` | %s |", "cli/train.md": "`%s`"} {
		text, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range Kinds() {
			if want := fmt.Sprintf(form, kind); !strings.Contains(string(text), want) {
				t.Errorf("docs/%s has no %s", file, want)
			}
		}
	}
}

// Every kind that Validate accepts has parameters of its own; any other is a bug of the
// caller, not GraphSAGE.
func TestEveryKindHasParameters(t *testing.T) {
	seen := map[string]Kind{}
	for _, kind := range Kinds() {
		m := smallest(kind)
		names := ""
		for _, p := range m.Params() {
			names += p.Name + " "
		}
		if other, ok := seen[names]; ok || names == "" {
			t.Errorf("%s has the parameters %sof %s", kind, names, other)
		}
		seen[names] = kind
	}
	defer func() {
		if r := fmt.Sprint(recover()); r != `model: unknown kind "mlp"` {
			t.Error("a kind that is not known:", r)
		}
	}()
	(&Model{Kind: "mlp", Dims: []int{4, 2}}).Params()
}
