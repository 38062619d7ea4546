package model

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

func TestValidate(t *testing.T) {
	good := Model{Kind: SAGE, Dims: []int{8, 4, 2}, Dropout: 0.5, Orders: []Order{Auto, Multiply}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(m *Model){
		"kind":            func(m *Model) { m.Kind = "mlp" },
		"no kind":         func(m *Model) { m.Kind = "" },
		"no layer":        func(m *Model) { m.Dims, m.Orders = m.Dims[:1], nil },
		"nothing":         func(m *Model) { m.Dims, m.Orders = nil, nil },
		"width":           func(m *Model) { m.Dims = []int{8, -1, 2} },
		"dropout":         func(m *Model) { m.Dropout = -0.1 },
		"dropout one":     func(m *Model) { m.Dropout = 1 },
		"dropout NaN":     func(m *Model) { m.Dropout = math.NaN() },
		"rounds to one":   func(m *Model) { m.Dropout = 0.99999999999 },
		"orders too many": func(m *Model) { m.Orders = append(m.Orders, Auto) },
		"order":           func(m *Model) { m.Orders = []Order{Auto, ""} },
	} {
		m := good
		spoil(&m)
		if err := m.Validate(); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseOrder(t *testing.T) {
	for _, name := range []string{"auto", "aggregate", "multiply"} {
		if o, ok := ParseOrder(name); !ok || string(o) != name {
			t.Errorf("%q: %q %v", name, o, ok)
		}
	}
	if _, ok := ParseOrder("Auto"); ok {
		t.Error("capitals are another name")
	}
}

// Initial values are a promise: what a seed gives must not change between releases.
func TestInit(t *testing.T) {
	m := Model{Kind: SAGE, Dims: []int{4, 3, 2}}
	p := m.Params()[1]
	v := make([]float32, p.Len())
	p.Init(v, 7, 1)
	want := []float32{0.11791525, 0.30263525, -0.45910507}
	for i := range want {
		if math.Abs(float64(v[i]-want[i])) > 1e-5 {
			t.Errorf("value %d is %v, want %v", i, v[i], want[i])
		}
	}
}

// The values fill [−1/√in, 1/√in] evenly: mean 0, variance 1/(3·in), within six
// standard deviations.
func TestInitDistribution(t *testing.T) {
	p := Param{Rows: 100, Cols: 1000, Bound: 0.1}
	v := make([]float32, p.Len())
	p.Init(v, 1, 2)
	sum, squares := 0.0, 0.0
	for _, x := range v {
		if math.Abs(float64(x)) > p.Bound {
			t.Fatalf("%v is beyond %v", x, p.Bound)
		}
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	n := float64(len(v))
	variance := p.Bound * p.Bound / 3
	if mean := sum / n; math.Abs(mean) > 6*math.Sqrt(variance/n) {
		t.Errorf("mean %v", mean)
	}
	if got := squares / n; math.Abs(got/variance-1) > 6*math.Sqrt(0.8/n) { // the square's relative variance is 4/5
		t.Errorf("variance %v, want %v", got, variance)
	}
}

// Initial values are those of PyTorch Geometric's layers: torch.nn.Linear's within
// 1/√in for SAGEConv and all that is no convolution, Glorot's within √(6/(in+out)) for
// GCNConv's weight, whose bias is zero at first; norms scale by one and shift by zero.
func TestInitialBounds(t *testing.T) {
	for want, m := range map[string]Model{
		"convs.0.lin_l.weight 0±0.5, convs.0.lin_r.weight 0±0.5, convs.0.lin_l.bias 0±0.5, " +
			"convs.1.lin_l.weight 0±0.25, convs.1.lin_r.weight 0±0.25, convs.1.lin_l.bias 0±0.25": {Kind: SAGE, Dims: []int{4, 16, 9}},
		"convs.0.lin.weight 0±0.547723, convs.0.bias 0±0, convs.1.lin.weight 0±0.489898, convs.1.bias 0±0": {Kind: GCN, Dims: []int{4, 16, 9}},
		"lin_in.weight 0±0.333333, lin_in.bias 0±0.333333, " +
			"convs.0.lin.weight 0±0.547723, lins.0.weight 0±0.5, convs.0.bias 0±0, lins.0.bias 0±0.5, norms.0.weight 1±0, norms.0.bias 0±0, " +
			"convs.1.lin.weight 0±0.547723, lins.1.weight 0±0.25, convs.1.bias 0±0, lins.1.bias 0±0.25, " +
			"norms.0.running_mean 0±0, norms.0.running_var 1±0": {Kind: GCN, Dims: []int{9, 16, 4}, InputProjection: 4, Residual: true, Norm: BatchNorm},
	} {
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range m.Params() {
			got = append(got, fmt.Sprintf("%s %g±%.6g", p.Name, p.Value, p.Bound))
			v := make([]float32, p.Len())
			p.Init(v, 3, len(got))
			for _, x := range v {
				if math.Abs(float64(x)-p.Value) > p.Bound {
					t.Errorf("%s begins with %v", p.Name, x)
				}
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: initial values are\n%s, want\n%s", m.Kind, text, want)
		}
	}
}

func TestChooseOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		layer layerCounts
		want  Order
	}{
		{"many more sources than destinations", layerCounts{Self: true, Src: 450_000, Dst: 110_000, Edges: 678_000, In: 128, Out: 256, Input: true, Train: true}, Aggregate},
		{"the same, inner", layerCounts{Self: true, Src: 110_000, Dst: 12_000, Edges: 124_000, In: 256, Out: 256, Train: true}, Aggregate},
		{"wide input, narrow output, sources are nearly the destinations", layerCounts{Self: true, Src: 13_000, Dst: 12_500, Edges: 400_000, In: 767, Out: 10, Input: true, Train: true}, Multiply},
		{"widening", layerCounts{Self: true, Src: 13_000, Dst: 12_500, Edges: 125_000, In: 64, Out: 256, Input: true, Train: true}, Aggregate},
		{"evaluation with all neighbours", layerCounts{Self: true, Src: 13_000, Dst: 13_000, Edges: 490_000, In: 767, Out: 256}, Multiply},
		{"nothing", layerCounts{In: 1, Out: 1}, Aggregate},
		{"heads over many sources", layerCounts{Src: 450_000, Dst: 110_000, Edges: 788_000, In: 128, Out: 256, Heads: 8, Part: 32, Input: true, Train: true}, Aggregate},
		{"heads, their mean", layerCounts{Src: 12_000, Dst: 1_024, Edges: 14_500, In: 256, Out: 172, Heads: 8, Part: 172, Train: true}, Aggregate},
		{"heads over wide input", layerCounts{Src: 13_000, Dst: 8_000, Edges: 88_000, In: 767, Out: 256, Heads: 8, Part: 32, Input: true, Train: true}, Multiply},
		{"heads over sums beyond the cache", layerCounts{Src: 11_000, Dst: 2_900, Edges: 17_000, In: 8415, Out: 256, Heads: 8, Part: 32, Input: true, Train: true}, Multiply},
		{"heads with all neighbours", layerCounts{Src: 54_000, Dst: 13_500, Edges: 504_000, In: 767, Out: 256, Heads: 8, Part: 32}, Multiply},
	} {
		if got := chooseOrder(c.layer, OpenBLASRates); got != c.want {
			t.Errorf("%s: %s first, want %s (%.3g s and %.3g s)", c.name, got, c.want, c.layer.cost(Aggregate, OpenBLASRates), c.layer.cost(Multiply, OpenBLASRates))
		}
	}
}

// By hand: 10 sources, 4 destinations, 20 edges, widths 8 and 2, unit rates.
func TestCost(t *testing.T) {
	l := layerCounts{Src: 10, Dst: 4, Edges: 20, In: 8, Out: 2, Self: true}
	unit := Rates{Flops: 1, Bytes: 1}
	for _, c := range []struct {
		order        Order
		input, train bool
		want         float64
	}{
		{Aggregate, false, false, 2*128 + 4*8*24},
		{Multiply, false, false, 320 + 128 + 4*2*34},
		{Aggregate, true, true, 4*128 + 4*8*24},
		{Aggregate, false, true, 6*128 + 4*8*24 + 4*8*34},
		{Multiply, true, true, 2*(320+128) + 4*2*34 + 4*2*40},
		{Multiply, false, true, 3*(320+128) + 4*2*34 + 4*2*40},
	} {
		l.Input, l.Train = c.input, c.train
		if got := l.cost(c.order, unit); got != c.want {
			t.Errorf("%s, input %v, train %v: %v, want %v", c.order, c.input, c.train, got, c.want)
		}
	}
}

// By hand: 10 sources, 4 destinations, 20 edges, width 8, two heads of 3 columns, unit
// rates.
func TestAttentionCost(t *testing.T) {
	m := Model{Kind: GAT, Dims: []int{8, 6, 6, 3}, Heads: 2}
	unit := Rates{Flops: 1, Bytes: 1, Terms: 1}
	for _, c := range []struct {
		layer int
		order Order
		train bool
		want  float64
	}{
		// Products per destination of 8 by 2·3; edges with loops are 24.
		{0, Aggregate, false, 2*4*8*6 + 4*8*24 + 2*8*24*2},
		{0, Aggregate, true, 3*2*4*8*6 + 3*4*8*24 + 5*8*24*2},
		{1, Aggregate, true, 3*2*4*6*6 + 3*4*6*24 + 4*6*2*(4+24) + 6*6*24*2},
		// Rows of 2·3 columns and 2·2 scores.
		{0, Multiply, false, 2*10*8*10 + 4*(10*10+24*6) + 24*6},
		{0, Multiply, true, 2*2*10*8*10 + 4*(3*10*10+24*6+24*(6+6)) + 3*24*6},
		{2, Multiply, true, 3*2*10*6*10 + 4*(3*10*10+24*6+24*(6+3)) + 3*24*6},
	} {
		if got := m.costLayer(c.layer, 10, 4, 20, c.train).cost(c.order, unit); got != c.want {
			t.Errorf("layer %d, %s, train %v: %v, want %v", c.layer, c.order, c.train, got, c.want)
		}
	}
	// Sums that the nearest cache does not hold grow at another rate.
	wide := layerCounts{Dst: 1, Edges: 2, In: 8192, Heads: 2, Part: 1}
	if got, want := wide.cost(Aggregate, Rates{Flops: 1, Bytes: 1, Terms: 1, Far: 0.5}), 2*8192*2+4*8192*2+2*(2*8192*2*2.0); got != want {
		t.Errorf("wide sums cost %v, want %v", got, want)
	}
}
