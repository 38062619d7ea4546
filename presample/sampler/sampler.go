package sampler

import (
	"context"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/prefetch"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// Options are options of a Sampler. The zero value of a field is its default.
type Options struct {
	// Hash selects a hash table of a batch's size to number nodes. The default is an array of the
	// graph's size. HashFaster says which is faster.
	Hash bool
	// Outside puts a large table into memory outside Go's heap, which Free frees.
	Outside bool
	// Degrees, if not nil, has the in-degree of every node, as FillDegrees sets it. A batch's inputs need degrees
	// alone: a byte of each node is nearer to the processor than the positions of its edges.
	Degrees []byte
	// Types, if not nil, are the types of the graph: the lists of the topology are its rows. Check has prepared them.
	Types *graph.Types
	// Relations has the fanout of every relation, and the fanout is then the largest. Nil: it is the fanout of each.
	Relations [][]int
	// Merged says that a destination draws from all relations into it together.
	Merged bool
	// Check, if not nil, is called before a batch becomes larger: x is a lower bound of the batch's
	// size, and table the bytes of the table of nodes. An error of Check ends Draw.
	Check func(x Extent, table int64) error
}

// Sampler samples batches. Its memory grows to the largest batch and is reused. It is not safe for
// concurrent use; any number of samplers may share a graph and Seeds.
type Sampler struct {
	from   Reader
	fanout []int
	table  table
	short  []byte // Options.Degrees
	check  func(x Extent, table int64) error
	drawer
	chooser
	labor  labor // how the batch is drawn
	within within
	typed  typed
	picked Picked
	batch  graph.Batch // the last one

	nodes  []uint32 // in the order of discovery
	degree []uint32 // of every node: its neighbours that may be drawn
	start  []int64  // of every destination: its first edge
	pos    []int64  // edges drawn and not looked up yet
	ids    []uint32 // the numbers of seed nodes
	asked  Hop      // the hop that is read
}

// New returns a sampler of a graph in memory, or of a mapped graph if the caller guards Draw. fanout
// has the number of neighbours that a destination draws, for each hop, input side first as in DGL: the
// last entry is for the seed nodes. mbfile.AllNeighbours means all.
func New(g *graph.CSC, fanout []int, o Options) *Sampler { return NewFrom(Graph(g), fanout, o) }

// NewFrom returns a sampler of the graph that from reads. No other sampler may use from.
func NewFrom(from Reader, fanout []int, o Options) *Sampler {
	s := &Sampler{from: from, fanout: fanout, short: o.Degrees, check: o.Check, typed: typed{types: o.Types, fanouts: o.Relations, merged: o.Merged}}
	if o.Hash {
		s.table = newHashTable(0, o.Outside)
	} else {
		s.table = newArrayTable(int64(s.numNodes()), o.Outside)
	}
	chunk := chunkOf(Widest(fanout))
	s.pos, s.ids = make([]int64, chunk), make([]uint32, chunk)
	s.drawer.prepare(slices.Max(fanout))
	return s
}

// numNodes returns the number of nodes that the lists of the topology may have.
func (s *Sampler) numNodes() int {
	if s.typed.types != nil {
		return int(s.typed.types.NumNodes())
	}
	return s.from.NumNodes()
}

// Free frees memory outside Go's heap. No batch may be drawn afterwards.
func (s *Sampler) Free() { s.table.free() }

// Draw samples a batch. It depends only on the graph, the fanout and the parameters and training set
// of from. The result is in the sampler's memory and valid until the next call.
func (s *Sampler) Draw(ctx context.Context, from *Seeds, id ID) (*graph.Batch, error) {
	key := from.Pick(id, &s.picked)
	if s.labor = from.labor(id); s.labor.on {
		s.chooser.prepare(s.fanout)
	}
	s.within.restrict(from, id)
	b := &s.batch
	b.Labels, b.Targets = s.picked.Labels, s.picked.Targets
	if s.typed.types != nil {
		return b, s.sampleTyped(ctx, b, s.picked.Nodes, key)
	}
	return b, s.sample(ctx, b, s.picked.Nodes, key)
}

// sample draws the blocks of a batch. Its input nodes and degrees alias the sampler's memory until the
// next call; the caller sets labels. key is the key of (seed, epoch, batch); hops count from 0 at the
// seed nodes.
func (s *Sampler) sample(ctx context.Context, b *graph.Batch, seeds []uint32, key uint64) error {
	n, err := s.begin(b, seeds)
	if err != nil {
		return err
	}
	fanout, k := s.fanout, b.Blocks
	if err := s.locate(ctx, 0, n, true); err != nil {
		return err
	}
	var size Extent
	for hop := range fanout {
		l := len(fanout) - 1 - hop
		edges, err := s.count(&k[l], n, fanout[l])
		if err != nil {
			return err
		}
		size = Extent{int64(n), size.Dst + int64(n), size.Edges + edges, Widest(fanout), false} // at least
		if err := s.allow(size); err != nil {
			return err
		}
		if err := s.hop(ctx, &k[l], n, s.nodes[:n], int(edges), rng.Join(key, uint64(hop)), s.labor.hop(hop)); err != nil {
			return err
		}
		size.Nodes = int64(k[l].NumSrc)
		if err := s.allow(size); err != nil {
			return err
		}
		if err := s.locate(ctx, n, k[l].NumSrc, l > 0); err != nil {
			return err
		}
		n = k[l].NumSrc
	}
	b.Input, b.Degree = s.nodes[:n], s.degree[:n]
	if s.within.on { // batches have the degrees of the whole graph
		for i := range b.Degree {
			d, err := s.wholeDegree(i)
			if err != nil {
				return err
			}
			b.Degree[i] = d
		}
	}
	return nil
}

// begin makes the seed nodes the first nodes, and makes room for the blocks. It returns the number of seed nodes.
func (s *Sampler) begin(b *graph.Batch, seeds []uint32) (int, error) {
	s.table.begin()
	b.Blocks = binio.Grow(b.Blocks, len(s.fanout))
	n, err := s.numberAll(seeds)
	if err == nil && n != len(seeds) {
		err = fault.New(fault.ErrInput, "a seed node is listed twice")
	}
	return n, err
}

// allow asks whether the batch may become as large as x, or larger.
func (s *Sampler) allow(x Extent) error {
	if s.check == nil {
		return nil
	}
	return s.check(x, s.table.memory(x.Nodes))
}

func (s *Sampler) numberAll(seeds []uint32) (_ int, err error) {
	n := uint32(0)
	for piece := range slices.Chunk(seeds, chunkEdges) {
		if n, err = s.number(s.ids, piece, n); err != nil {
			return 0, err
		}
	}
	return int(n), nil
}

// number gives new nodes the numbers from n on, and sets out to the numbers of ids. The list of nodes
// grows with the nodes that are found, which may be far fewer than edges.
func (s *Sampler) number(out, ids []uint32, n uint32) (uint32, error) {
	s.nodes = enlarge(s.nodes, int(n), int(n)+len(ids)+1)
	n, ok := s.table.number(out, ids, s.nodes, n)
	if !ok {
		return n, outside(slices.Max(ids), s.numNodes())
	}
	return n, nil
}

// locate looks up how many edges of the nodes lo to hi-1 may be drawn, and, of destinations, where they lie.
func (s *Sampler) locate(ctx context.Context, lo, hi int, destinations bool) error {
	s.degree = enlarge(s.degree, lo, hi)
	var start []int64
	if destinations || s.within.on { // which looks at their edges
		s.start = enlarge(s.start, lo, hi)
		start = s.start[lo:hi]
	} else if s.short != nil {
		return s.degrees(s.nodes[lo:hi], s.degree[lo:hi])
	}
	if err := s.from.Locate(s.nodes[lo:hi], start, s.degree[lo:hi]); err != nil || !s.within.on {
		return err
	}
	s.asked = Hop{s: s, first: lo, lists: s.nodes[lo:hi]}
	return s.from.Read(ctx, &s.asked)
}

// longDegree stands for all degrees that a byte cannot hold.
const longDegree = math.MaxUint8

// FillDegrees sets to[i] to the in-degree of the i-th node, or to 255 if it is larger. The edges of the node are
// numbered from indptr[i] to indptr[i+1].
func FillDegrees(to []byte, indptr []int64) {
	for i := range to {
		to[i] = byte(min(uint64(indptr[i+1]-indptr[i]), longDegree))
	}
}

// degrees looks up degrees in the table, and long ones in the topology, many of them at once.
func (s *Sampler) degrees(nodes, degree []uint32) error {
	short := s.short
	long, found, at := s.ids[:chunkEdges/2], s.ids[chunkEdges/2:chunkEdges], s.pos[:chunkEdges/2]
	n := 0
	look := func() error {
		if err := s.from.Locate(long[:n], nil, found[:n]); err != nil {
			return err
		}
		for k, i := range at[:n] {
			degree[i] = found[k]
		}
		n = 0
		return nil
	}
	for i, v := range nodes {
		prefetch.Ahead(short, nodes, i, requestAhead)
		if int(v) >= len(short) {
			return outside(v, s.from.NumNodes())
		}
		if degree[i] = uint32(short[v]); degree[i] < longDegree {
			continue
		}
		long[n], at[n] = v, int64(i)
		if n++; n == len(long) {
			if err := look(); err != nil {
				return err
			}
		}
	}
	return look()
}

// wholeDegree returns how many neighbours one of the nodes has in the whole graph.
func (s *Sampler) wholeDegree(i int) (uint32, error) {
	var start [1]int64
	var degree [1]uint32
	err := s.from.Locate(s.nodes[i:i+1], start[:], degree[:])
	return degree[0], err
}

// hop draws from lists of the topology, the in-neighbours of the first dst nodes: one block, with counted edges.
func (s *Sampler) hop(ctx context.Context, k *graph.Block, dst int, lists []uint32, edges int, key uint64, l labor) error {
	k.Indices = enlarge(k.Indices, 0, edges)
	s.asked = Hop{s: s, lists: lists, block: k, key: key, labor: l}
	if err := s.from.Read(ctx, &s.asked); err != nil {
		return err
	}
	n := uint32(dst)
	for piece := range slices.Chunk(k.Indices, chunkEdges) {
		err := ctx.Err()
		if err == nil {
			n, err = s.number(piece, piece, n)
		}
		if err != nil {
			return err
		}
	}
	k.NumDst, k.NumSrc, k.Dst = dst, int(n), nil
	return nil
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
	return sum, checkEdges(sum)
}

// checkEdges refuses a layer with more edges than 32 bits count.
func checkEdges(n int64) error {
	if n > math.MaxUint32 {
		return fault.New(fault.ErrBudget, "one layer of a batch has %d edges; the limit is 2³² - 1: sample fewer neighbours, or make batches smaller", n)
	}
	return nil
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
