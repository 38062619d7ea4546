package sampler

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"diskgnn/internal/kernel"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// labor has the parameters with which LABOR-0 draws one batch (Balın, Çatalyürek:
// Layer-Neighbor Sampling, NeurIPS 2023). In every hop each node has a random lot, the same
// for all destinations. A destination with the fanout k takes the k neighbours with the
// least lots, and so, where possible, the same neighbours as other destinations: the batch
// needs fewer input nodes. Of parallel edges, which are next to each other, the first has
// the lot of the node, and the n-th further one the node's n-th further lot, which also is
// the same for all destinations.
//
// Lots are independent and alike in distribution: each set of a destination's edges is as
// likely as under uniform sampling. The zero value is uniform sampling.
type labor struct {
	first, second uint64 // keys, of the batch or of its group and the next
	cos, sin      int64  // weights of the two; cos is 0 where batches are independent
	sameLots      bool   // in all hops
	on            bool
}

// labor returns the parameters for a batch. Under a batch dependency of k, the lots of batch i
// are cos(πf/2)·A + sin(πf/2)·B, where A and B are normally distributed, f = (i mod k)/k,
// and the k batches of a group have A and B in common; B is the next group's A. The
// correlation of lots is the cosine of the turn between two batches of a group, and 0
// between batches of groups that do not follow each other.
func (s *Seeds) labor(id ID) labor {
	p := &s.params
	if p.Method != mbfile.Labor {
		return labor{}
	}
	l := labor{sameLots: p.LayerDependency, on: true}
	epoch := id.drawnAs()
	k := p.BatchDependency
	if k == 0 {
		l.first = rng.Key(p.Seed, forLots, epoch, uint64(id.Index))
		return l
	}
	i := id.Index
	if id.Split == Train { // batches are counted on from epoch to epoch
		epoch, i = 0, i+id.Epoch*s.Batches(Train)
	}
	of := rng.Key(p.Seed, forNormals, epoch)
	l.first, l.second = rng.Join(of, uint64(i/k)), rng.Join(of, uint64(i/k+1))
	l.cos, l.sin = cosine(i%k, k), cosine(k-i%k, k)
	return l
}

func (l *labor) hop(hop int) labor {
	h := *l
	if l.sameLots {
		hop = 0
	}
	h.first, h.second = rng.Join(l.first, uint64(hop)), rng.Join(l.second, uint64(hop))
	return h
}

func (l *labor) lots(to []uint64, nodes []uint32) {
	if l.cos == 0 {
		kernel.Join(to, l.first, nodes)
		return
	}
	for i, v := range nodes {
		to[i] = l.weighed(rng.Join(l.first, uint64(v)), rng.Join(l.second, uint64(v)))
	}
}

// further returns the n-th further lot of a node, for the edge behind n parallel ones.
func (l *labor) further(v uint32, n int) uint64 {
	first := rng.Join(rng.Join(l.first, uint64(v)), uint64(n))
	if l.cos == 0 {
		return first
	}
	return l.weighed(first, rng.Join(rng.Join(l.second, uint64(v)), uint64(n)))
}

// weighed returns the lot with parts of the given keys.
func (l *labor) weighed(first, second uint64) uint64 {
	return uint64(l.cos*normal(first)+l.sin*normal(second)) ^ 1<<63 // in the order of signed numbers
}

// normal returns a random number with a distribution close to the normal one, mean 0 and
// variance (16 + 1/6)·2⁶⁴: the number of set bits among 64 random bits, plus a triangular
// number that fills the steps between. Its absolute value is below 33·2³². It uses only
// integers, as cosine does, since floating-point functions and fused products round
// differently on other processors, which would change the batches. The shape need not be
// exact: the choice depends on the order of lots only, and the correlation of weighted sums
// needs only equal variances.
func normal(key uint64) int64 {
	src := rng.New(key)
	set, fill := src.Uint64(), src.Uint64()
	return int64(bits.OnesCount64(set)-32)<<32 + int64(fill>>32) - int64(fill&math.MaxUint32)
}

// cosine returns cos(π/2 · j/k), for 0 ≤ j ≤ k, in units of 2⁻²⁴: the rounded sum of
// Taylor's series, in units of 2⁻⁶².
func cosine(j, k int) int64 {
	const quarter = 0x6487ED5110B4611A // π/2
	hi, lo := bits.Mul64(quarter, uint64(j))
	x, _ := bits.Div64(hi, lo, uint64(k))
	square := times(x, x)
	sum, term := int64(0), uint64(1<<62)
	for n := uint64(1); term != 0; n += 4 {
		sum += int64(term)
		term = times(term, square) / (n * (n + 1))
		sum -= int64(term)
		term = times(term, square) / ((n + 2) * (n + 3))
	}
	return (sum + 1<<37) >> 38
}

// times multiplies numbers in units of 2⁻⁶².
func times(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<2 | lo>>62
}

// chooser takes the edges of a destination with the least lots. Of equal lots, which no two nodes of
// independent batches have, it takes the lower ids.
type chooser struct {
	lot  []uint64 // of a piece of the edges
	from uint32   // source of the edge looked at before
	nth  int      // how many parallel ones that edge is behind
	kept []edge   // a heap once it has n edges, with the first edge to give up on top
	n    int      // edges that the destination takes
	at   uint32   // those that were looked at
	last uint64   // the greatest lot that may be taken
	left int      // edges to look at before the context is looked at
}

// edge is one of a destination's edges.
type edge struct {
	lot  uint64
	node uint32
	at   uint32 // its number among the destination's
}

// before reports whether a is taken sooner than b.
func (a edge) before(b edge) bool {
	if a.lot != b.lot {
		return a.lot < b.lot
	}
	if a.node != b.node {
		return a.node < b.node
	}
	return a.at < b.at
}

// edgesAtOnce is the number of edges for which a chooser works between two looks at the context: a
// destination may have any number of neighbours.
const edgesAtOnce = 1 << 18

// LaborMemory returns the bytes of memory that a sampler with this fanout needs for LABOR, beside
// Extent.Memory.
func LaborMemory(fanout []int) int64 {
	return 8*chunkEdges + 16*int64(max(slices.Max(fanout), 0))
}

func (c *chooser) prepare(fanout []int) {
	if c.lot == nil {
		c.lot, c.kept = make([]uint64, chunkEdges), make([]edge, 0, max(slices.Max(fanout), 0))
	}
}

// begin begins a destination that takes n edges, of more.
func (c *chooser) begin(n int) {
	c.kept, c.n, c.at, c.last = c.kept[:0], n, 0, math.MaxUint64
	c.from, c.nth = 0, -1 // an edge from node 0 is the first
}

// addAll takes the sources of all edges of the destination. Few edges have lots up to a bound that nearly always leaves
// enough of them: the heap seldom changes.
func (c *chooser) addAll(ctx context.Context, sources []uint32, l *labor) error {
	n := c.n
	if l.cos == 0 { // lots are uniform
		c.last = enough(n, len(sources))
	}
	if err := c.add(ctx, sources, l); err != nil || len(c.kept) == n {
		return err
	}
	c.begin(n)
	return c.add(ctx, sources, l)
}

// enough returns a bound that n of d uniform lots or more do not exceed, except in about one of a thousand cases: it leaves
// n and three standard deviations on average.
func enough(n, d int) uint64 {
	share := (float64(n) + 3*math.Sqrt(float64(n)) + 3) / float64(d)
	if share >= 1 {
		return math.MaxUint64
	}
	return uint64(share * (1 << 64))
}

// add takes the sources of the destination's next edges.
func (c *chooser) add(ctx context.Context, sources []uint32, l *labor) error {
	kept, last := c.kept, c.last
	for piece := range slices.Chunk(sources, chunkEdges) {
		if c.left -= len(piece); c.left < 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.left = edgesAtOnce
		}
		lot := c.lot[:len(piece)]
		l.lots(lot, piece)
		c.parallel(lot, piece, l)
		for i, r := range lot {
			if r > last {
				continue
			}
			e := edge{r, piece[i], c.at + uint32(i)}
			switch {
			case len(kept) < c.n:
				if kept = append(kept, e); len(kept) < c.n {
					continue
				}
				for i := len(kept)/2 - 1; i >= 0; i-- {
					sink(kept, i)
				}
			case e.before(kept[0]):
				kept[0] = e
				sink(kept, 0)
			}
			last = kept[0].lot
		}
		c.at += uint32(len(piece))
	}
	c.kept, c.last = kept, last
	return nil
}

// parallel gives edges with the same source as the edge before lots of their own.
func (c *chooser) parallel(lot []uint64, piece []uint32, l *labor) {
	from, nth := c.from, c.nth
	for i, v := range piece {
		if v != from {
			from, nth = v, 0
			continue
		}
		if nth++; nth > 0 {
			lot[i] = l.further(v, nth)
		}
	}
	c.from, c.nth = from, nth
}

// end puts the sources of the edges that are taken into out, in the order of the graph.
func (c *chooser) end(out []uint32) {
	slices.SortFunc(c.kept, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	for i, e := range c.kept {
		out[i] = e.node
	}
}

// sink restores the heap below i.
func sink(heap []edge, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child].before(heap[child+1]) {
			child++
		}
		if !heap[i].before(heap[child]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
