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
	lot  []uint64 // of a piece of the edges, or a copy of lots
	from uint32   // source of the edge looked at before
	nth  int      // how many parallel ones that edge is behind
	kept []edge   // a heap once it has n edges, with the first edge to give up on top
	n    int      // edges that the destination takes
	at   uint32   // those that were looked at
	last uint64   // the greatest lot that may be taken
	left int      // edges to look at before the context is looked at

	lots    []uint64 // of the edges to choose from, and chunkEdges more
	places  []uint32 // the numbers of these edges among the destination's
	inOrder bool     // kept is in the order of the graph
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
	widest := max(slices.Max(fanout), 0)
	return 16*int64(widest) + 20*int64(candidates(widest))
}

// candidates returns the number of edges that a chooser has room for to choose n from, and to look at
// chunkEdges more: twice the margin of enough.
func candidates(n int) int {
	return n + 6*int(math.Sqrt(float64(n))) + 6 + chunkEdges
}

func (c *chooser) prepare(fanout []int) {
	if c.lot == nil {
		widest := max(slices.Max(fanout), 0)
		n := candidates(widest)
		c.kept = make([]edge, 0, widest)
		c.lot, c.lots, c.places = make([]uint64, n), make([]uint64, n), make([]uint32, n)
	}
}

// begin begins a destination that takes n edges, of more.
func (c *chooser) begin(n int) {
	c.kept, c.n, c.at, c.last = c.kept[:0], n, 0, math.MaxUint64
	c.from, c.nth, c.inOrder = 0, -1, false // an edge from node 0 is the first
}

// addAll takes the sources of all edges of the destination. Few of them have lots up to a bound that nearly
// always leaves enough: these are chosen from. Else, the heap takes all.
func (c *chooser) addAll(ctx context.Context, sources []uint32, l *labor) error {
	bound := uint64(math.MaxUint64)
	if l.cos == 0 { // lots are uniform
		bound = enough(c.n, len(sources))
	}
	if bound < math.MaxUint64 || len(sources) <= cap(c.lots)-chunkEdges {
		if done, err := c.choose(ctx, sources, l, bound); done || err != nil {
			return err
		}
		c.begin(c.n)
	}
	return c.add(ctx, sources, l)
}

// choose takes the edges with the least lots among the edges with lots up to bound. It reports false,
// and has taken none, if these are fewer than the destination takes or have no room, or if lots are equal.
func (c *chooser) choose(ctx context.Context, sources []uint32, l *labor, bound uint64) (bool, error) {
	lots, places := c.lots[:cap(c.lots)], c.places[:cap(c.places)]
	m, at := 0, uint32(0)
	for piece := range slices.Chunk(sources, chunkEdges) {
		lot, err := c.look(ctx, piece, l)
		if err != nil {
			return false, err
		}
		if m+len(lot) > len(lots) {
			return false, nil
		}
		low, place := lots[m:m+len(lot)], places[m:m+len(lot)]
		k := uint(0)
		for i, r := range lot { // without branches, which would be mispredicted
			low[k], place[k] = r, at+uint32(i)
			_, above := bits.Sub64(bound, r, 0)
			k += uint(1 - above)
		}
		m, at = m+int(k), at+uint32(len(piece))
	}
	if m < c.n {
		return false, nil
	}
	lots, places = lots[:m], places[:m]
	last := greatest(lots, c.n, bound, c.lot)
	kept := c.kept
	for i, r := range lots {
		if r <= last {
			if len(kept) == c.n {
				return false, nil // equal lots
			}
			kept = append(kept, edge{r, sources[places[i]], places[i]})
		}
	}
	c.kept, c.inOrder = kept, true
	return true, nil
}

// greatest returns the greatest of the n least lots, of which none exceeds bound, or a larger number up to
// the next lot. It counts the lots of 64 equal intervals, so that only the lots of one need an order. buf has
// room for all lots.
func greatest(lots []uint64, n int, bound uint64, buf []uint64) uint64 {
	const digit = 6
	scale := bits.LeadingZeros64(bound | 1)
	var counts [1 << digit]uint32
	for _, r := range lots {
		counts[r<<scale>>(64-digit)]++
	}
	i, before := 0, 0
	for ; i < len(counts)-1 && before+int(counts[i]) < n; i++ {
		before += int(counts[i])
	}
	if before+int(counts[i]) == n {
		return (uint64(i+1)<<(64-digit) - 1) >> scale
	}
	k := 0
	for _, r := range lots {
		if r<<scale>>(64-digit) == uint64(i) {
			buf[k] = r
			k++
		}
	}
	return nth(buf[:k], n-1-before)
}

// nth returns the element of s that has n lesser or equal ones before it in ascending order. It changes
// the order of s.
func nth(s []uint64, n int) uint64 {
	for len(s) > 1 {
		pivot := s[len(s)/2]
		lo, hi := 0, len(s)-1
		for lo <= hi {
			for s[lo] < pivot {
				lo++
			}
			for s[hi] > pivot {
				hi--
			}
			if lo <= hi {
				s[lo], s[hi] = s[hi], s[lo]
				lo, hi = lo+1, hi-1
			}
		}
		switch {
		case n <= hi:
			s = s[:hi+1]
		case n >= lo:
			s, n = s[lo:], n-lo
		default:
			return pivot
		}
	}
	return s[0]
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
		lot, err := c.look(ctx, piece, l)
		if err != nil {
			return err
		}
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

// look returns the lots of the next piece of the edges, until the next call. It looks at the context once in
// edgesAtOnce edges.
func (c *chooser) look(ctx context.Context, piece []uint32, l *labor) ([]uint64, error) {
	if c.left -= len(piece); c.left < 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.left = edgesAtOnce
	}
	lot := c.lot[:len(piece)]
	l.lots(lot, piece)
	c.parallel(lot, piece, l)
	return lot, nil
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
	if !c.inOrder {
		slices.SortFunc(c.kept, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	}
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
