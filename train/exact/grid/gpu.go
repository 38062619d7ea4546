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
	return gpu.TileSizes{Tile: r.Plan.Tile, Edges: r.Plan.Sources, Long: int(r.longest), Span: r.Plan.Span, Window: r.Plan.Block, Group: r.Group, Fold: Fold,
		Keep: r.Plan.Keep && r.Targets == nil, Listed: r.Targets != nil}
}

// onGPU computes tiles on a GPU. The windows are pinned.
type onGPU struct {
	*run
	lo      int
	pinned  *cuda.Pinned
	tile    *gpu.Tile
	detach  func()
	weights []float32    // of a window's rows as sources; empty: they have none
	factors [2][]float32 // of a window's sums, and of its own rows
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
	for i := range g.factors {
		g.factors[i] = carve[float32](c, int64(g.Plan.Block))
	}
	if g.Plan.Keep && g.Targets != nil { // the rows of consecutive nodes are kept on the GPU
		g.kept = carve[float32](c, int64(g.Plan.Tile)*int64(g.In))
	}
}

// weighs reports whether sources have weights.
func (g *onGPU) weighs() bool {
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

func (g *onGPU) begin(ctx context.Context, lo, hi int) error {
	g.lo = lo
	if err := g.tile.Begin(lo, hi-lo, len(g.long)); err != nil {
		return err
	}
	if err := g.tile.PutLong(g.long); err != nil {
		return err
	}
	if g.Targets != nil {
		if err := g.tile.PutNodes(g.Targets[lo:hi]); err != nil {
			return err
		}
	}
	sources, err := g.putStarts(ctx, lo, hi)
	if err != nil {
		return err
	}
	return g.putSources(ctx, lo, hi, sources)
}

// putStarts copies where the lists begin, through the memory of output rows, and returns the number of sources.
func (g *onGPU) putStarts(ctx context.Context, lo, hi int) (int64, error) {
	room := binio.View[uint64](binio.Bytes(g.mapped[:len(g.mapped)&^1]))
	n := uint64(0)
	for at := lo; at <= hi; at += len(room) {
		some := room[:min(len(room), hi+1-at)]
		err := g.Guard(func() error {
			for k := range some {
				if some[k] = n; at+k == hi {
					break
				}
				list, err := g.Graph.Row(g.node(at + k))
				if err != nil {
					return err
				}
				n += uint64(len(list))
			}
			return ctx.Err()
		})
		if err != nil {
			return 0, err
		}
		if int64(n) > g.Plan.Sources {
			return 0, g.changed(lo)
		}
		if err := g.tile.PutStarts(at-lo, some); err != nil {
			return 0, err
		}
	}
	return int64(n), nil
}

func (g *onGPU) changed(lo int) error {
	return fault.New(fault.ErrCorrupt, "the nodes from %d on have other numbers of in-neighbours than when they were counted", g.node(lo))
}

// putSources copies the lists, with the given number of sources, in the same way.
func (g *onGPU) putSources(ctx context.Context, lo, hi int, sources int64) error {
	if g.Targets == nil {
		return g.putFollowing(ctx, lo, sources)
	}
	room, n, sent := binio.View[uint32](binio.Bytes(g.mapped)), 0, int64(0)
	send := func() error {
		if sent += int64(n); sent > sources {
			return g.changed(lo)
		}
		defer func() { n = 0 }()
		return g.tile.PutSources(sent-int64(n), room[:n])
	}
	err := g.Guard(func() error {
		for i := lo; i < hi; i++ {
			list, err := g.Graph.Row(g.node(i))
			if err != nil {
				return err
			}
			for len(list) > 0 {
				k := copy(room[n:], list)
				list = list[k:]
				if n += k; n < len(room) {
					continue
				}
				if err := send(); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
	if err == nil && n > 0 {
		err = send()
	}
	if err == nil && sent != sources {
		err = g.changed(lo)
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
		return g.changed(lo)
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

func (g *onGPU) own(_ context.Context, first, n int, x []float32) error {
	return g.tile.Own(first-g.lo, n, x)
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

func (g *onGPU) rows(_ context.Context, _, n int, out, x []float32) error {
	return g.tile.Rows(n, out, x)
}
