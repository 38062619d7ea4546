package cpu

import (
	"fmt"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// NewPull returns the arithmetic of a layer in groups of rows, or of the input projection
// (model.InputLayer), of which only Map is used: its rows are the output of the projection. The graph may
// be nil for the projection. PullBytes predicts its memory.
func (e *Engine) NewPull(layer, group int, g *prepare.Whole) *Pull {
	return e.newPull(device.NewArena(), layer, group, g, e.opt.weights)
}

// PullBytes returns the bytes of NewPull's memory, and the shape of its rows.
func (e *Engine) PullBytes(layer, group int) (int64, prepare.PullShape) {
	dry := new(device.Arena)
	p := e.newPull(dry, layer, group, nil, nil)
	return dry.Used(), p.PullShape
}

func (e *Engine) newPull(a *device.Arena, l, group int, g *prepare.Whole, weights []float32) *Pull {
	m, rows := e.plan.model, []int{e.plan.threads * group}
	first := max(l, 0)
	plan := newPlan(m, first, []model.Order{e.plan.orders[first]}, graph.Sizes{Src: rows, Dst: rows, Edges: []int{0}}, e.plan.threads)
	if m.Weighing() == model.Attended {
		plan.orders[0] = model.Multiply
	}
	n := &network{plan: plan, memory: memory{Arena: a}, pool: e.pool, blas: e.blas, weights: weights}
	p := &Pull{layer: newLayer(n, l, nil), graph: g}
	n.scratch = n.floats(n.threads * chunkRows * n.scratchWidth)
	p.In, p.Out, p.Group = p.layer.in, p.layer.width, group
	switch c := p.layer.conv.(type) {
	case *linear:
		p.pulling = c.pull(p)
	case *attentionProducts:
		p.pulling = c.pull(p)
	case *relational:
		p.pulling = c.pull(p)
	case *relationAttention:
		p.pulling = c.pull(p)
	case *projection:
		p.Row, p.Maps = p.Out, true
		p.pulling = &pullProjection{p, c}
	default:
		panic(fmt.Sprintf("cpu: layer %d cannot pull", l))
	}
	if t, typed := p.layer.tail.(*typedTail); weights != nil && typed {
		t.activation.begin()
		t.foldBiases()
	} else if weights != nil {
		p.layer.tail.begin()
	}
	return p
}

// InferenceOrders returns the orders of the layers of a Pull for a graph: for layers with the order
// Auto the cheaper one, by the graph and the widths alone. Attention multiplies first. Layers of typed models have no
// choice: there are no orders.
func InferenceOrders(m *model.Model, nodes, edges int64) ([]model.Order, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Types != nil {
		return nil, nil
	}
	orders := make([]model.Order, m.Layers())
	for l := range orders {
		orders[l] = m.ResolveOrder(l, int(nodes), int(nodes), int(edges), false, model.OpenBLASRates)
		if m.Weighing() == model.Attended {
			orders[l] = model.Multiply
		}
	}
	return orders, nil
}

// pullProjection is the input projection.
type pullProjection struct {
	*Pull
	of *projection
}

func (p *pullProjection) Map(worker int, to, x []float32, _ uint32, n int) {
	z := p.rows(worker)
	p.of.net.blas.Sgemm(false, false, p.Group, p.Out, p.In, 1, x, p.In, p.of.weights, p.Out, 0, z, p.Out)
	p.tail(worker, to, n)
}

func (p *pullProjection) Begin(int, []float32, []float32, int, *prepare.Lists)                {}
func (p *pullProjection) Add(int, []float32, []float64, []float32, []uint32, int)             {}
func (p *pullProjection) sums(int, []float32, []float32, []float32, []uint32, *prepare.Lists) {}
