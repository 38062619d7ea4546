package sampler

import (
	"context"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// Options of a Sampler. The zero value of a field is its default.
type Options struct {
	// Hash numbers nodes by a hash table of a batch's size instead of an array of the
	// graph's, which is faster.
	Hash bool
	// Check, if not nil, may refuse a batch that is going to be at least as large as x, and
	// needs a table of so many bytes.
	Check func(x Extent, table int64) error
}

// Sampler draws batches. Its memory grows to the largest batch and is reused. It
// is for one goroutine; any number of them may share a graph and its Seeds.
type Sampler struct {
	g      *graph.CSC
	fanout []int
	table  table
	check  func(x Extent, table int64) error
	drawer
	chooser
	labor  labor // how the batch is drawn
	within within
	picked Picked
	batch  graph.Batch // the last one

	nodes  []uint32 // in the order of discovery
	degree []uint32 // of every node: its neighbours that may be drawn
	start  []int64  // of every destination: its first edge
	pos    []int64  // edges drawn and not looked up yet
	ids    []uint32 // their sources
}

// New returns a sampler of a graph. fanout lists the neighbours to draw per destination,
// input side first as in DGL: the last entry is for the seed nodes.
// mbfile.AllNeighbours takes all.
func New(g *graph.CSC, fanout []int, o Options) *Sampler {
	s := &Sampler{g: g, fanout: fanout, check: o.Check}
	if o.Hash {
		s.table = newHashTable(0)
	} else {
		s.table = newArrayTable(int64(g.NumNodes()))
	}
	chunk := chunkOf(Widest(fanout))
	s.pos, s.ids = make([]int64, chunk), make([]uint32, chunk)
	s.drawer.prepare(slices.Max(fanout))
	return s
}

// Draw draws a batch, which is a function of the graph, the fanout and the Seeds' set,
// order, seed and method of sampling alone. It is the sampler's memory until the next call.
// A graph that is mapped must be guarded by the caller.
func (s *Sampler) Draw(ctx context.Context, from *Seeds, id ID) (*graph.Batch, error) {
	key := from.Pick(id, &s.picked)
	if s.labor = from.labor(id); s.labor.on {
		s.chooser.prepare(s.fanout)
	}
	s.within.restrict(from, id)
	b := &s.batch
	b.Labels, b.Targets = s.picked.Labels, s.picked.Targets
	return b, s.sample(ctx, b, s.picked.Nodes, key)
}

// sample draws the blocks of a batch. Its input nodes and degrees alias the
// sampler's memory until the next call; labels are left to the caller. key is
// that of (seed, epoch, batch); hops count from 0 at the seed nodes.
func (s *Sampler) sample(ctx context.Context, b *graph.Batch, seeds []uint32, key uint64) error {
	fanout := s.fanout
	s.table.begin()
	k := binio.Grow(b.Blocks, len(fanout))
	b.Blocks = k
	n := s.numberAll(seeds)
	if n != len(seeds) {
		return fault.New(fault.ErrInput, "a seed node is listed twice")
	}
	if err := s.locate(ctx, 0, n); err != nil {
		return err
	}
	var size Extent
	for hop := range fanout {
		l := len(fanout) - 1 - hop
		edges, err := s.count(&k[l], n, fanout[l])
		if err != nil {
			return err
		}
		size = Extent{int64(n), size.Dst + int64(n), size.Edges + edges, Widest(fanout)} // at least
		if err := s.allow(size); err != nil {
			return err
		}
		if err := s.hop(ctx, &k[l], n, int(edges), rng.Join(key, uint64(hop)), s.labor.hop(hop)); err != nil {
			return err
		}
		size.Nodes = int64(k[l].NumSrc)
		if err := s.allow(size); err != nil {
			return err
		}
		if err := s.locate(ctx, n, k[l].NumSrc); err != nil {
			return err
		}
		n = k[l].NumSrc
	}
	b.Input, b.Degree = s.nodes[:n], s.degree[:n]
	if s.within.on { // batches have the degrees of the whole graph
		for i, v := range b.Input {
			b.Degree[i] = uint32(len(s.g.Neighbors(v)))
		}
	}
	return nil
}

// allow asks whether the batch may become as large as x, or larger.
func (s *Sampler) allow(x Extent) error {
	if s.check == nil {
		return nil
	}
	return s.check(x, s.table.memory(x.Nodes))
}

// numberAll numbers the seed nodes.
func (s *Sampler) numberAll(seeds []uint32) int {
	n := uint32(0)
	for piece := range slices.Chunk(seeds, chunkEdges) {
		n = s.number(s.ids, piece, n)
	}
	return int(n)
}

// number gives nodes that are new the numbers from n on, and puts those of ids into out. The
// list of nodes grows with the nodes that are found, which may be far fewer than edges.
func (s *Sampler) number(out, ids []uint32, n uint32) uint32 {
	s.nodes = enlarge(s.nodes, int(n), int(n)+len(ids)+1)
	return s.table.number(out, ids, s.nodes, n)
}

// locate looks up where the edges of the nodes lo to hi-1 lie, and how many of them may be
// drawn.
func (s *Sampler) locate(ctx context.Context, lo, hi int) (err error) {
	s.degree, s.start = enlarge(s.degree, lo, hi), enlarge(s.start, lo, hi)
	indptr := s.g.Indptr
	var most int64
	start, degree := s.start[lo:hi], s.degree[lo:hi]
	for i, v := range s.nodes[lo:hi] {
		a, d := indptr[v], indptr[int(v)+1]-indptr[v]
		start[i], degree[i] = a, uint32(d)
		most = max(most, d)
	}
	if most > math.MaxUint32 {
		return fault.New(fault.ErrInput, "a node has %d in-neighbours, more than 32 bits count", most)
	}
	if s.within.on {
		for i, v := range s.nodes[lo:hi] {
			if degree[i], err = s.within.count(ctx, s.g.Neighbors(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// hop draws the in-neighbours of the first dst nodes: one block, whose edges are
// counted already.
func (s *Sampler) hop(ctx context.Context, k *graph.Block, dst, edges int, key uint64, l labor) error {
	k.Indices = enlarge(k.Indices, 0, edges)
	n, done, fill := uint32(dst), 0, 0
	look := func() {
		out := k.Indices[done : done+fill]
		ids := s.ids[:fill]
		gather(ids, s.g.Indices, s.pos)
		n = s.number(out, ids, n)
		done, fill = done+fill, 0
	}
	for i := range dst {
		d, start := s.degree[i], s.start[i]
		take := k.Indptr[i+1] - k.Indptr[i]
		if fill+int(take) > len(s.pos) {
			look()
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		sources := s.g.Indices[start : start+int64(d)]
		part := false // may be drawn
		if s.within.on {
			sources = s.g.Neighbors(s.nodes[i])
			part = int(d) < len(sources)
		}
		if int(take) > len(s.pos) { // only ever all neighbours
			for piece := range slices.Chunk(sources, chunkEdges) {
				if part {
					piece = s.within.keep(s.ids, piece)
				}
				n = s.number(k.Indices[done:done+len(piece)], piece, n)
				done += len(piece)
			}
			continue
		}
		pos := s.pos[fill : fill+int(take)]
		fill += int(take)
		switch {
		case take == d:
			for j := range pos {
				pos[j] = start + int64(j)
			}
		case l.on:
			if err := s.choose(ctx, pos, sources, start, &l); err != nil {
				return err
			}
		default:
			s.draw(pos, start, d, rng.Join(key, uint64(s.nodes[i])))
		}
		if part {
			if err := s.within.among(ctx, pos, sources, start); err != nil {
				return err
			}
		}
	}
	look()
	k.NumDst, k.NumSrc, k.Dst = dst, int(n), nil
	return nil
}

// gather fetches the sources of edges. The loop does nothing else, so that as
// many cache misses are under way at once as the processor can hold.
func gather(out, indices []uint32, pos []int64) {
	pos = pos[:len(out)]
	for i := range out {
		out[i] = indices[pos[i]]
	}
}

// count fills the block's index pointers and returns the number of its edges.
func (s *Sampler) count(k *graph.Block, dst, fanout int) (int64, error) {
	k.Indptr = enlarge(k.Indptr, 0, dst+1)
	limit := uint32(math.MaxUint32)
	if fanout != mbfile.AllNeighbours {
		limit = uint32(fanout)
	}
	var sum int64
	indptr := k.Indptr[1:]
	k.Indptr[0] = 0
	for i, d := range s.degree[:dst] {
		sum += int64(min(d, limit))
		indptr[i] = uint32(sum)
	}
	if sum > math.MaxUint32 {
		return 0, fault.New(fault.ErrBudget, "one layer of a batch has %d edges, more than 32 bits count: sample fewer neighbours, or make batches smaller", sum)
	}
	return sum, nil
}

// enlarge returns s with length n, its first keep elements kept. When it must
// move, it leaves a quarter more room: batches differ a little in size.
func enlarge[T any](s []T, keep, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	t := make([]T, n, n+n/4)
	copy(t, s[:keep])
	return t
}
