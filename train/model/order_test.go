package model

import "testing"

// TestOperandWidth: sums are as wide as the destinations' own rows.
func TestOperandWidth(t *testing.T) {
	for _, c := range []struct {
		order Order
		own   bool
		want  int
	}{{Aggregate, false, 8}, {Aggregate, true, 16}, {Multiply, false, 0}, {Multiply, true, 8}} {
		if got := c.order.OperandWidth(8, c.own); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestResolveOrder: an order that is given stays; auto takes the one that costs less, and a maximum has
// one order.
func TestResolveOrder(t *testing.T) {
	narrowing := func(orders ...Order) Model { return Model{Kind: GCN, Dims: []int{64, 2, 64}, Orders: orders} }
	aggregator := func(a Aggregator) Model {
		return Model{Kind: SAGE, Dims: []int{64, 2, 64}, Aggregator: a}
	}
	for _, c := range []struct {
		m    Model
		l    int
		want Order
	}{
		{narrowing(), 0, Multiply},
		{narrowing(Auto, Auto), 0, Multiply},
		{narrowing(), 1, Aggregate},
		{narrowing(Aggregate, Multiply), 0, Aggregate},
		{narrowing(Aggregate, Multiply), 1, Multiply},
		{aggregator(Sum), 0, Multiply},
		{aggregator(Max), 0, Aggregate},
	} {
		if got := c.m.ResolveOrder(c.l, 10, 10, 100, true, OpenBLASRates); got != c.want {
			t.Errorf("layer %d of %+v: %s", c.l, c.m, got)
		}
	}
}

// TestRates: what was measured. Other rates choose other orders, and with them other last bits.
func TestRates(t *testing.T) {
	want := Rates{Flops: 120e9, Bytes: 10e9, Terms: 30e9, Far: 5e9}
	if OpenBLASRates != want {
		t.Errorf("%+v", OpenBLASRates)
	}
	if want.Flops = 10e9; GonumRates != want {
		t.Errorf("%+v", GonumRates)
	}
}

// TestCostLayer: what the cost model is told of a layer.
func TestCostLayer(t *testing.T) {
	for _, c := range []struct {
		m    Model
		l    int
		want layerCounts
	}{
		{Model{Kind: SAGE, Dims: []int{8, 4, 2}}, 0, layerCounts{Src: 10, Dst: 4, Edges: 20, In: 8, Out: 4, Self: true, Input: true, Train: true}},
		{Model{Kind: SAGE, Dims: []int{8, 4, 2}}, 1, layerCounts{Src: 10, Dst: 4, Edges: 20, In: 4, Out: 2, Self: true, Train: true}},
		{Model{Kind: SAGE, Dims: []int{8, 4, 2}, InputProjection: 6}, 0, layerCounts{Src: 10, Dst: 4, Edges: 20, In: 6, Out: 4, Self: true, Train: true}},
		{Model{Kind: GCN, Dims: []int{8, 4, 2}}, 0, layerCounts{Src: 10, Dst: 4, Edges: 24, In: 8, Out: 4, Input: true, Train: true}},
		{Model{Kind: GCN, Dims: []int{8, 4, 2}, Residual: true}, 1, layerCounts{Src: 10, Dst: 4, Edges: 24, In: 4, Out: 2, Self: true, Train: true}},
		{Model{Kind: GAT, Dims: []int{8, 4, 2}, Heads: 2}, 0, layerCounts{Src: 10, Dst: 4, Edges: 24, In: 8, Out: 4, Input: true, Train: true, Heads: 2, Part: 2}},
		{Model{Kind: GAT, Dims: []int{8, 4, 2}, Heads: 2}, 1, layerCounts{Src: 10, Dst: 4, Edges: 24, In: 4, Out: 2, Train: true, Heads: 2, Part: 2}},
	} {
		if got := c.m.costLayer(c.l, 10, 4, 20, true); got != c.want {
			t.Errorf("layer %d of %+v: %+v, not %+v", c.l, c.m, got, c.want)
		}
	}
}

// Without weights of their own, destinations cost no products. By hand, as in TestCost.
func TestCostWithoutSelf(t *testing.T) {
	l := layerCounts{Src: 10, Dst: 4, Edges: 20, In: 8, Out: 2}
	unit := Rates{Flops: 1, Bytes: 1}
	if a, m := l.cost(Aggregate, unit), l.cost(Multiply, unit); a != 128+4*8*24 || m != 320+4*2*34 {
		t.Errorf("%v and %v", a, m)
	}
	// Of equal costs, sums come first.
	if got := chooseOrder(layerCounts{}, unit); got != Aggregate {
		t.Error(got)
	}
	// Sums that just fit in the nearest cache grow at its rate.
	near := layerCounts{Dst: 1, Edges: 2, In: 4096, Heads: 2, Part: 1}
	if got, want := near.cost(Aggregate, Rates{Flops: 1, Bytes: 1, Terms: 1, Far: 0.5}), 2*4096*2+4*4096*2+2*4096*2*2.0; got != want {
		t.Errorf("sums that fit cost %v, want %v", got, want)
	}
}
