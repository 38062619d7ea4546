package grid

import (
	"context"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// GPUGroup is Group on a GPU. Tests change it.
var GPUGroup = 4096

// GPU is a layer on a GPU.
type GPU struct {
	On      *gpu.Inference
	Model   *model.Model // with the orders of all layers
	Layer   int          // or model.InputLayer
	Weights []float32    // of the model
	Graph   *prepare.Whole
	Shape   prepare.PullShape
}

// GPUSizes are the numbers that decide how a layer is computed on a GPU.
type GPUSizes struct {
	Memory int64 // bytes of its memory
	// Bytes returns the bytes that a tile takes.
	Bytes func(s gpu.TileSizes) int64
	// Lists has the number of sources of each group of Shape.Group targets.
	Lists []int64
}

// mostSpan is the most bytes of a block on the GPU. A block of this size takes longer to copy than to add.
const mostSpan = 1 << 30

// span returns the rows of a block on the GPU where memory is not short.
func (s *Sizes) span(block int) int {
	most, row := min(mostSpan, s.GPU.Memory/4), 4*int64(2*s.Shape.In+s.Shape.Row)
	span := block
	for int64(span) < s.Nodes && 2*int64(span)*row <= most {
		span *= 2
	}
	return span
}

// sources returns the most sources of a tile of some groups. A tile may begin at any group: see Layer.From.
func (s *GPUSizes) sources(groups int) (most int64) {
	n := int64(0)
	for i, k := range s.Lists {
		if n += k; i >= groups {
			n -= s.Lists[i-groups]
		}
		most = max(most, n)
	}
	return most
}

// tileSizes returns the sizes of the GPU's memory.
func (r *run) tileSizes() gpu.TileSizes {
	return gpu.TileSizes{Tile: r.Plan.Tile, Lists: mostLists(r.Parts, r.Plan.Tile), Edges: r.Plan.Sources, Long: int(r.longest),
		Span: r.Plan.Span, Window: r.Plan.Block, Group: r.Group, Fold: Fold, Keep: r.Plan.Keep && r.inOrder(), Listed: r.Targets != nil}
}

// inOrder reports whether a target is the node with its number, and its row of the table has the number too.
func (r *run) inOrder() bool { return r.Targets == nil && r.Parts == nil }

// onGPU computes tiles on a GPU. The windows are pinned.
type onGPU struct {
	*run
	pinned  *cuda.Pinned
	tile    *gpu.Tile
	detach  func()
	spans   []gpu.Span
	long    []uint32     // places of long lists in their spans, a span after the other
	weights []float32    // of a window's rows as sources; empty: they have none
	factors [2][]float32 // of a window's sums, and of its own rows; in a typed graph, of the sums of a piece
}

func (g *onGPU) carve(c *carver) {
	g.mapped = carve[float32](c, max(int64(g.Plan.Block)*int64(g.Out), 2)) // putStarts puts 8 bytes there
	if g.Acc == 0 {
		return
	}
	g.long = carve[uint32](c, g.longest)[:0]
	if g.weighs() {
		g.weights = carve[float32](c, int64(g.Plan.Block))
	}
	if g.Parts != nil {
		g.factors[0] = carve[float32](c, int64(g.Group)*int64(mostLinks(g.Parts)))
	} else {
		for i := range g.factors {
			g.factors[i] = carve[float32](c, int64(g.Plan.Block))
		}
	}
	if g.Plan.Keep && !g.inOrder() { // rows in order are kept on the GPU
		g.kept = carve[float32](c, int64(g.Plan.Tile)*int64(g.In))
	}
}

// mostLinks returns the most lists of a target.
func mostLinks(parts []Part) (most int) {
	for i := range parts {
		most = max(most, len(parts[i].Links))
	}
	return most
}

// weighs reports whether sources have weights.
func (g *onGPU) weighs() bool {
	if g.Parts != nil {
		return false
	}
	if g.GPU.Graph == nil {
		return true // memory is counted before there is a graph
	}
	weighs, _ := g.GPU.Graph.Weighs()
	return weighs
}

func (g *onGPU) open() (err error) {
	d := g.GPU.On.Device()
	if g.detach, err = d.Attach(); err != nil {
		return err
	}
	if g.pinned, err = d.Register(g.mem.Bytes()); err != nil {
		return err
	}
	g.tile, err = g.GPU.On.NewTile(g.GPU.Model, g.GPU.Layer, g.tileSizes(), g.GPU.Weights)
	return err
}

func (g *onGPU) close() {
	if g.tile != nil {
		g.tile.Free()
	}
	if g.pinned != nil {
		g.pinned.Free()
	}
	if g.detach != nil {
		g.detach()
	}
}

func (g *onGPU) begin(ctx context.Context) error {
	if err := g.tile.Begin(g.lo, g.begins[len(g.of)]); err != nil {
		return err
	}
	if g.Targets != nil && g.Parts == nil {
		if err := g.tile.PutNodes(g.Targets[g.lo:g.hi]); err != nil {
			return err
		}
	}
	sources, err := g.putStarts(ctx)
	if err != nil {
		return err
	}
	if err := g.tile.PutSpans(g.spans, g.long); err != nil {
		return err
	}
	return g.putSources(ctx, sources)
}

// spansOf stores the spans of the lists of the targets from lo to hi, which are of one part.
func (g *onGPU) spansOf(part, lo, hi int) []gpu.Span {
	g.spans = g.appendSpans(g.spans[:0], part, lo, hi)
	return g.spans
}

func (g *onGPU) appendSpans(to []gpu.Span, part, lo, hi int) []gpu.Span {
	p, at := &g.of[part], g.begins[part]
	first, end := max(p.Lo, g.lo), min(p.Hi, g.hi)
	for k := range p.Links {
		l := &p.Links[k]
		to = append(to, gpu.Span{Relation: l.Relation, At: at + lo - first, Rows: hi - lo, Lo: l.Lo, Hi: l.Hi})
		at += end - first
	}
	return to
}

// eachList calls see for the lists of the tile in the order of the spans, of which span is the number: link k of target i of
// part p. It touches the graph.
func (g *onGPU) eachList(ctx context.Context, see func(span int, p *Part, i, k int, list []uint32) error) error {
	span := -1
	return split(g.of, g.lo, g.hi, func(part, lo, hi int) error {
		p := &g.of[part]
		for k := range p.Links {
			span++
			for i := lo; i < hi; i++ {
				if err := ctx.Err(); i%eachListChecks == 0 && err != nil {
					return err
				}
				list, err := g.Graph.Row(p.row(g.Targets, i, k))
				if err != nil {
					return err
				}
				if err := see(span, p, i, k, list); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// putStarts copies where the lists begin, through the memory of output rows, and finds the spans and the long lists. It
// returns the number of sources.
func (g *onGPU) putStarts(ctx context.Context) (int64, error) {
	room := binio.View[uint64](binio.Bytes(g.mapped[:len(g.mapped)&^1]))
	n, sent, sources := 0, 0, uint64(0)
	put := func() error {
		room[n] = sources
		if n++; n < len(room) {
			return nil
		}
		sent, n = sent+n, 0
		return g.tile.PutStarts(sent-len(room), room)
	}
	g.spans, g.long = g.spans[:0], g.long[:0]
	_ = split(g.of, g.lo, g.hi, func(part, lo, hi int) error {
		g.spans = g.appendSpans(g.spans, part, lo, hi)
		return nil
	})
	err := g.Guard(func() error {
		err := g.eachList(ctx, func(span int, p *Part, i, _ int, list []uint32) error {
			if len(list) > Fold && cap(g.long) > 0 {
				if len(g.long) == cap(g.long) {
					return tooLong(p.node(g.Targets, i))
				}
				g.long = append(g.long, uint32(i-max(p.Lo, g.lo)))
				g.spans[span].Long++
			}
			err := put()
			sources += uint64(len(list))
			return err
		})
		if err == nil {
			err = put()
		}
		return err
	})
	if err == nil && int64(sources) > g.Plan.Sources {
		err = g.changed()
	}
	if err == nil && n > 0 {
		err = g.tile.PutStarts(sent, room[:n])
	}
	return int64(sources), err
}

func (g *onGPU) changed() error {
	return fault.New(fault.ErrCorrupt, "the nodes from %d on have other numbers of in-neighbours than when they were counted", g.first())
}

// first returns the first node of the tile.
func (g *onGPU) first() (v uint32) {
	_ = split(g.of, g.lo, g.lo+1, func(part, lo, _ int) error {
		v = g.of[part].node(g.Targets, lo)
		return nil
	})
	return v
}

// putSources copies the lists, with the given number of sources, in the same way. Sources are rows of the table.
func (g *onGPU) putSources(ctx context.Context, sources int64) error {
	if g.inOrder() {
		return g.putFollowing(ctx, g.lo, sources)
	}
	room, n, sent := binio.View[uint32](binio.Bytes(g.mapped)), 0, int64(0)
	send := func() error {
		if sent += int64(n); sent > sources {
			return g.changed()
		}
		defer func() { n = 0 }()
		return g.tile.PutSources(sent-int64(n), room[:n])
	}
	err := g.Guard(func() error {
		return g.eachList(ctx, func(_ int, p *Part, _, k int, list []uint32) error {
			for len(list) > 0 {
				some := room[n:][:copy(room[n:], list)]
				for c, u := range some {
					some[c] = p.Links[k].in(u)
				}
				list = list[len(some):]
				if n += len(some); n < len(room) {
					continue
				}
				if err := send(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil && n > 0 {
		err = send()
	}
	if err == nil && sent != sources {
		err = g.changed()
	}
	return err
}

// putFollowing copies the lists of nodes from lo on, which follow each other.
func (g *onGPU) putFollowing(ctx context.Context, lo int, sources int64) error {
	var all []uint32
	err := g.Guard(func() error {
		if from := g.Graph.Indptr[lo]; from >= 0 && from <= int64(len(g.Graph.Indices))-sources {
			all = g.Graph.Indices[from : from+sources]
			return nil
		}
		return g.changed()
	})
	room := binio.View[uint32](binio.Bytes(g.mapped))
	for at := 0; at < len(all) && err == nil; at += len(room) {
		some := all[at:min(at+len(room), len(all))]
		err = g.each(ctx, len(some), sourceGrain, func(_, from, to int) error {
			copy(room[from:to], some[from:to])
			return nil
		})
		if err == nil {
			err = g.tile.PutSources(int64(at), room[:len(some)])
		}
	}
	return err
}

// sourceGrain is the number of sources that a worker copies at a time.
const sourceGrain = 1 << 16

// pieces calls do for the part of n targets from first on of each part that has any; in a typed graph for each of their
// groups, at absolute numbers.
func (g *onGPU) pieces(first, n int, do func(part, lo, hi int) error) error {
	return split(g.of, first, first+n, func(part, lo, hi int) error {
		if g.Parts == nil {
			return do(part, lo, hi)
		}
		for lo < hi {
			to := min(hi, lo-lo%g.Group+g.Group)
			if err := do(part, lo, to); err != nil {
				return err
			}
			lo = to
		}
		return nil
	})
}

// rowsOf returns the own rows of targets from lo on, of a part, among the rows x of targets from first on; nil if they have
// none.
func (g *onGPU) rowsOf(part, first, lo int, x []float32) []float32 {
	if g.of[part].Own < 0 {
		return nil
	}
	return x[(lo-first)*g.In:]
}

func (g *onGPU) own(_ context.Context, first, n int, x []float32) error {
	return g.pieces(first, n, func(part, lo, hi int) error {
		return g.tile.Own(g.spansOf(part, lo, hi), g.rowsOf(part, first, lo, x))
	})
}

func (g *onGPU) add(ctx context.Context, first, n int, x []float32) error {
	if len(g.weights) == 0 {
		return g.tile.Take(first, n, x, nil)
	}
	err := g.each(ctx, n, g.Group, func(_, from, to int) error {
		for i := from; i < to; i++ {
			g.weights[i] = g.GPU.Graph.Source(uint32(first + i))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return g.tile.Take(first, n, x, g.weights)
}

func (g *onGPU) end(context.Context) error { return g.tile.End() }

func (g *onGPU) finish(ctx context.Context, first, n int, out, x []float32) error {
	if g.Parts != nil {
		return g.finishTypes(ctx, first, n, out, x)
	}
	err := g.each(ctx, n, g.Group, func(_, from, to int) error {
		for i := from; i < to; i++ {
			v := g.node(first + i)
			list, err := g.Graph.Row(v)
			if err != nil {
				return err
			}
			if g.factors[0][i], g.factors[1][i] = g.GPU.Graph.Destination(v); len(list) == 0 {
				g.factors[0][i] = 0
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return g.tile.Finish(first-g.lo, n, out, x, g.factors[0], g.factors[1])
}

// finishTypes is finish in a typed graph.
func (g *onGPU) finishTypes(ctx context.Context, first, n int, out, x []float32) error {
	err := g.pieces(first, n, func(part, lo, hi int) error {
		p := gpu.Piece{Kind: g.of[part].Lists.Kind, At: lo - first, Rows: hi - lo, Lists: g.spansOf(part, lo, hi)}
		if !g.Last {
			return g.tile.Sums(&p, nil, nil)
		}
		factors := g.factors[0][:p.Rows*len(p.Lists)]
		if err := g.factorsOf(ctx, &g.of[part], lo, hi, factors); err != nil {
			return err
		}
		return g.tile.Sums(&p, g.rowsOf(part, first, lo, x), factors)
	})
	if err != nil {
		return err
	}
	return g.tile.Output(n, out)
}

// factorGrain is the number of targets for which a worker finds factors at a time.
const factorGrain = 512

// factorsOf stores the weights of the sums of targets from lo to hi of a part, for a link after the other.
func (g *onGPU) factorsOf(ctx context.Context, p *Part, lo, hi int, factors []float32) error {
	rows := hi - lo
	return g.each(ctx, rows, factorGrain, func(_, from, to int) error {
		for k := range p.Links {
			for i := from; i < to; i++ {
				factors[k*rows+i], _ = g.GPU.Graph.Destination(p.row(g.Targets, lo+i, k))
			}
		}
		return nil
	})
}

func (g *onGPU) rows(_ context.Context, _, n int, out, x []float32) error {
	return g.tile.Rows(n, out, x)
}
