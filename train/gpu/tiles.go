package gpu

import (
	"errors"
	"slices"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// TileShape returns the shape of the rows of a layer, or of the input projection (model.InputLayer).
func TileShape(m *model.Model, layer, group int) prepare.PullShape {
	t := newTile(m, layer, TileSizes{Group: group, Window: group, Span: group})
	return t.PullShape
}

// TileBytes returns the bytes of device memory of a Tile.
func TileBytes(m *model.Model, layer int, s TileSizes) int64 {
	return newTile(m, layer, s).arena.Used()
}

// newTile describes a Tile, and counts its memory.
func newTile(m *model.Model, layer int, s TileSizes) *Tile {
	t := &Tile{sizes: s, memory: memory{arena: new(cuda.Arena)}}
	t.lay(m, layer)
	return t
}

// NewTile makes a Tile of a model, which has all orders, with the weights. The caller frees it. An Inference has one
// Tile at a time.
func (f *Inference) NewTile(m *model.Model, layer int, s TileSizes, weights []float32) (_ *Tile, err error) {
	t := newTile(m, layer, s)
	t.Inference = f
	arena, err := f.device.NewArena(t.arena.Used())
	if err != nil {
		return nil, err
	}
	t.memory = memory{arena: arena}
	for i := range t.copied {
		var errs [2]error
		t.copied[i], errs[0] = f.device.NewEvent()
		t.used[i], errs[1] = f.device.NewEvent()
		err = errors.Join(err, errs[0], errs[1])
	}
	if err == nil {
		t.lay(m, layer)
		t.net.stream, t.net.blas = f.main, f.blas
		t.start(weights)
		err = t.Wait()
	}
	if err != nil {
		t.Free()
		return nil, err
	}
	return t, nil
}

// lay takes the memory.
func (t *Tile) lay(m *model.Model, l int) {
	s := &t.sizes
	window := slices.Repeat([]int{s.Window}, m.Layers())
	p := &plan{model: m, layout: m.Layout(), sizes: graph.Sizes{Src: window, Dst: window, Edges: window}, orders: m.Orders}
	t.net = &network{plan: p, memory: &t.memory, asked: p.sizes, in: &input{now: &bucket{blocks: make([]block, m.Layers())}}}
	t.net.weights = t.floats(p.layout.Count())
	k := &layer{output: output{net: t.net, index: l, width: m.Out(l)}, in: m.In(l)}
	rows := s.Window
	if m.Types != nil { // products of pieces are of whole groups
		rows += s.Group
	}
	k.data = t.floats(rows * k.width)
	k.tail.make(&k.output)
	t.layer = k
	t.PullShape = prepare.PullShape{In: k.in, Out: k.width, Group: s.Group}
	switch {
	case l == model.InputLayer:
		t.kind = &pullProjection{Tile: t}
	case m.Kind == model.RGAT:
		t.kind = &pullRelationAttention{pullTypes: pullTypes{Tile: t}}
	case m.Types != nil:
		t.kind = &pullRelational{pullTypes: pullTypes{Tile: t}}
	case m.Weighing() == model.Attended:
		t.kind = &pullAttention{Tile: t}
	default:
		t.kind = &pullLinear{Tile: t}
	}
	t.kind.lay(s)
	for i := range t.x {
		t.x[i] = t.floats(s.Span * t.In)
	}
	if t.Maps {
		t.products = t.floats(s.Span * t.Row)
	}
	if t.Acc == 0 {
		return
	}
	t.acc = t.floats(s.Lists * t.Acc)
	t.lists = kernels.Lists{Starts: t.bytes(8 * int64(s.Lists+1)), Sources: t.bytes(4 * max(1, s.Edges)), Fold: uint32(s.Fold)}
	for i := range t.positions {
		t.positions[i] = t.floats(s.Lists)
	}
	if s.Long > 0 && t.Wide > 0 {
		t.lists.Wide, t.lists.Long = t.bytes(8*int64(s.Long)*int64(t.Wide)), t.floats(s.Long)
	}
	if s.Keep && t.Last {
		t.kept = t.floats(s.Tile * t.In)
	}
	if s.Listed && t.Loops {
		t.nodes = t.floats(s.Tile)
	}
	t.bad = t.floats(1)
}
