package grid

import (
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/train/cpu"
	"diskgnn/train/prepare"
)

// Sizes are the numbers that decide how a layer is computed.
type Sizes struct {
	Nodes   int64
	Targets int64
	Long    int64 // lists longer than Fold
	Shape   prepare.PullShape
	Edges   bool // the layer has neighbours; else its rows are Map's
	Threads int
	Table   *Table
	IDs     []uint32  // the targets; nil: all nodes, or the parts' destinations
	Parts   []Part    // of the targets, in a typed graph
	Need    []bool    // see Layer
	Lists   int64     // bytes of the topology of the targets
	GPU     *GPUSizes // nil: the CPU computes
}

// Plan says how a layer is computed. Tile and Block are multiples of Group, but for a last tile.
type Plan struct {
	Tile  int   // destinations with accumulators in memory
	Block int   // rows of a block of sources
	Hold  bool  // the table is kept in memory when it was read
	Keep  bool  // destinations' own rows are kept when they pass by, instead of being read again
	Tiles int64 // of the layer
	// Blocks is the number of blocks that pass by each tile.
	Blocks int64
	// On a GPU: the rows of a block there, a multiple of Block; the most sources of a tile; the bytes that Run takes
	// of its memory.
	Span         int
	Sources, GPU int64
	Memory       int64 // bytes that Run takes
	// TableBytes are read from the table for sources, OwnBytes for destinations. ListBytes are the bytes of
	// the topology, mapped and looked at, block by block.
	TableBytes, OwnBytes, ListBytes int64
}

// Read returns the bytes that are read from the table.
func (p *Plan) Read() int64 { return p.TableBytes + p.OwnBytes }

// Cost returns the bytes to read. A look at a list counts as a byte: a core takes as long for it.
func (p *Plan) Cost(s *Sizes) int64 {
	if s.GPU != nil {
		return p.Read() + 2*p.Tiles*p.Blocks*windowCost
	}
	return p.Read() + p.Blocks*s.AllLists()
}

// windowCost is the bytes that a drive reads while a window waits on its way to the GPU or back.
const windowCost = 256 << 10

// Blocks have at most this many bytes of rows, so that reading and computing overlap and a block's rows stay
// near the core.
const mostBlock = 64 << 20

// Choose returns the plan that reads least within the bytes of memory, and false if there is none. Where
// memory is 0 it returns the plan that needs least.
func (s *Sizes) Choose(memory int64) (best Plan, ok bool) {
	rows := binio.AlignUp(max(s.Nodes, s.Targets, 1), int64(s.Shape.Group))
	for _, kind := range []Plan{{}, {Hold: true}, {Keep: true}} {
		if !s.allows(kind, memory) {
			continue
		}
		for block := int64(s.Shape.Group); ; block *= 2 {
			block = min(block, rows)
			kind.Block = int(block)
			p, fits := s.with(kind, memory)
			better := p.Cost(s) < best.Cost(s)
			if memory == 0 {
				better = p.Memory < best.Memory
			}
			if fits && (!ok || better) {
				best, ok = p, true
			}
			if block == rows || memory == 0 || s.last(block) {
				break
			}
		}
	}
	return best, ok
}

// allows reports whether a layer can be computed in a kind of plan. Keeping own rows never needs less memory.
func (s *Sizes) allows(kind Plan, memory int64) bool {
	reads := s.Table.File != nil && s.Edges
	switch {
	case s.GPU != nil:
		return !kind.Hold && (!kind.Keep || s.Edges && s.Shape.Last && memory > 0)
	case kind.Hold:
		return reads && s.Need == nil
	case kind.Keep:
		return reads && s.Shape.Last && memory > 0
	}
	return true
}

// Most returns the bytes with which nothing is read twice.
func (s *Sizes) Most() int64 { return s.whole().Memory }

// MostGPU returns the bytes of a GPU's memory for which the layer has a use.
func (s *Sizes) MostGPU() int64 { return s.whole().GPU }

// whole returns the plan of a layer in one tile.
func (s *Sizes) whole() Plan {
	rows := binio.AlignUp(max(s.Nodes, s.Targets, 1), int64(s.Shape.Group))
	p := Plan{Block: s.Shape.Group, Tile: int(rows), Hold: s.Edges && s.Need == nil && s.GPU == nil, Keep: s.GPU != nil && s.allows(Plan{Keep: true}, 1)}
	for p.Block < int(rows) && !s.last(int64(p.Block)) {
		p.Block *= 2
	}
	if p.Span = p.Block; s.GPU != nil {
		p.Span = s.span(p.Block)
	}
	s.takes(&p)
	return p
}

// last reports whether a block is as long as blocks may be.
func (s *Sizes) last(block int64) bool {
	return 8*block*int64(max(s.Shape.In, s.Shape.Row)) > mostBlock
}

// with returns the plan of a kind, with a length of blocks, that has the longest tiles, and whether it fits.
func (s *Sizes) with(p Plan, memory int64) (_ Plan, ok bool) {
	group := s.Shape.Group
	p.Tile = group
	all := int(binio.AlignUp(max(s.Targets, 1), int64(group)))
	p.Span = p.Block
	if memory == 0 {
		return s.count(p), true
	}
	if !s.fits(p, memory) {
		return p, false
	}
	if s.GPU != nil {
		if p.Span = s.span(p.Block); !s.fits(p, memory) {
			p.Span = p.Block
		}
	}
	if !s.Edges {
		return s.count(p), true
	}
	lo, hi := 1, all/group // groups in a tile
	for lo < hi {
		p.Tile = (lo + hi + 1) / 2 * group
		if s.fits(p, memory) {
			lo = (lo + hi + 1) / 2
		} else {
			hi = (lo+hi+1)/2 - 1
		}
	}
	tiles := (all/group + lo - 1) / lo
	p.Tile = (all/group + tiles - 1) / tiles * group
	return s.count(p), true
}

// fits reports whether there is memory for a plan.
func (s *Sizes) fits(p Plan, memory int64) bool {
	s.takes(&p)
	return p.Memory <= memory && (s.GPU == nil || p.GPU <= s.GPU.Memory)
}

// count sets the figures of a plan that follow from Tile, Block and Hold.
func (s *Sizes) count(p Plan) Plan {
	s.takes(&p)
	tile := int64(p.Tile)
	p.Tiles = max(1, (s.Targets+tile-1)/tile)
	p.Blocks = (s.Nodes + int64(p.Block) - 1) / int64(p.Block)
	if s.Targets == 0 {
		p.Tiles, p.Blocks = 0, 0
		return p
	}
	if !s.Edges {
		p.Tiles = 1
	}
	passes := p.Tiles
	if p.Hold {
		passes = 1
	}
	p.TableBytes, p.ListBytes = passes*(&selection{hi: int(s.Nodes), need: s.Need}).bytes(s.Table), p.Blocks*s.Lists
	if s.GPU != nil {
		p.ListBytes = s.Lists
	}
	if s.Edges && !p.Hold {
		p.OwnBytes = s.own(tile, !p.Keep)
	}
	return p
}

// own returns the bytes of own rows, for tiles of the given length. last says that Finish's are read.
func (s *Sizes) own(tile int64, last bool) (n int64) {
	times := int64(0)
	if s.Shape.First {
		times++
	}
	if s.Shape.Last && last {
		times++
	}
	if times == 0 {
		return 0
	}
	for lo := int64(0); lo < s.Targets; lo += tile {
		of := selection{lo: int(lo), hi: int(min(lo+tile, s.Targets)), ids: s.IDs, parts: s.Parts}
		n += of.bytes(s.Table)
	}
	return times * n
}

// run describes a run with a plan.
func (s *Sizes) run(p *Plan) *run {
	l := &Layer{Plan: *p, Table: *s.Table, Targets: s.IDs, Parts: s.Parts, Threads: s.Threads, Long: s.Long, Pull: &cpu.Pull{PullShape: s.Shape}}
	if s.Edges {
		l.Graph = new(graph.CSC)
	}
	if s.GPU != nil {
		l.GPU = &GPU{Shape: s.Shape}
	}
	return l.newRun()
}

// takes sets the memory of Run with a plan.
func (s *Sizes) takes(p *Plan) {
	c := carver{}
	s.run(p).carve(&c)
	if p.Memory = c.used + c.beside; s.GPU != nil {
		p.Sources = s.GPU.sources(p.Tile / s.Shape.Group)
		p.GPU = s.GPU.Bytes(s.run(p).tileSizes())
	}
}

// carve takes the memory of a run.
func (r *run) carve(c *carver) {
	block := int64(r.Plan.Block)
	r.tiler.carve(c)
	if r.Plan.Hold {
		r.held = carve[float32](c, binio.AlignUp(r.Table.Rows, int64(r.Group))*int64(r.In))
	}
	if r.buffered() {
		for i := range r.windows {
			r.windows[i] = carve[float32](c, block*int64(r.In))
		}
	}
}

// buffered reports whether rows pass through windows.
func (r *run) buffered() bool {
	if (r.Targets != nil || r.Parts != nil) && (r.First || r.Last && !r.Plan.Keep) {
		return true
	}
	if r.Table.File == nil {
		return r.GPU != nil || r.Table.DType != dtype.Float32
	}
	return !r.Plan.Hold
}
