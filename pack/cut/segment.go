package cut

import (
	"context"
	"math/bits"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/presample/mbfile"
)

// Segment finds the nodes that several batches of one segment use, and orders them band by band, coldest
// first, each by the batches that use a node, so that the rows of a batch are contiguous where possible. It
// takes O(nodes) memory, and is reused for one segment after another.
//
// Nodes are compared by their first batch, the lower first, then by their second, the higher first, and
// so on in turn: the order of a reflected Gray code with the batches as digits. Where one group of
// nodes ends and the next begins, most batches then use both or neither. A key of 64 bits holds a
// node's first batches: all of them in segments of up to 15, a dozen in segments of 31. (DiskGNN sorts
// by two MinHash values. On a power-law graph batches read 2.1 and 2.6 times the bytes they used with
// that, in segments of 12 and 24, and 1.01 and 1.41 times with this: go run ./bench segments.)
type Segment struct {
	rank  []uint32
	edges []int64 // band edges, descending

	used, shared []uint64 // sets of nodes: used by a batch, by more than one
	// marks has, for every used node, its first batches from the top bits down, then ones; the lowest bits
	// count the batches. Once ordered they are the places of shared nodes.
	marks      []uint64
	width      int      // bits of a batch
	places     int      // most batches in a mark
	reversed   uint64   // mask that reverses the order of every second batch
	order, tmp []uint32 // the shared nodes, by place
	at         []int
}

const (
	countBits = 4
	digitBits = 15 // bits of a key sorted at a time: a quarter of the bits that countBits leaves
)

// SegmentMemory returns the memory of a Segment in bytes, if no segment shares more than the given number
// of nodes: a mark and two bits for every node, two lists of the shared nodes, and the counts for sorting
// them.
func SegmentMemory(nodes, shared int64) int64 { return 8*nodes + nodes/4 + 8*shared + 8<<digitBits }

func newSegment(rank []uint32, edges []int64) *Segment {
	words := (len(rank) + 63) / 64
	return &Segment{
		rank: rank, edges: edges, used: make([]uint64, words), shared: make([]uint64, words),
		marks: make([]uint64, len(rank)),
	}
}

// begin starts a segment of the given number of batches.
func (n *Segment) begin(batches int) {
	clear(n.used)
	clear(n.shared)
	n.width = bits.Len(uint(batches))
	n.places = min((64-countBits)/n.width, 1<<countBits-1)
	n.reversed = 0
	for j := 1; j < n.places; j += 2 {
		n.reversed |= (1<<n.width - 1) << n.shift(j)
	}
}

// shift returns the bit at which the j-th batch lies in a mark.
func (n *Segment) shift(j int) int { return 64 - (j+1)*n.width }

// add counts the uses of the given nodes by the segment's batch i; batches come in
// order.
func (n *Segment) add(i int, nodes []uint32) {
	const none = ^uint64(1<<countBits - 1)
	for _, v := range nodes {
		word, bit := v/64, uint64(1)<<(v%64)
		m := none
		if n.used[word]&bit != 0 {
			n.shared[word] |= bit
			m = n.marks[v]
		}
		n.used[word] |= bit
		if j := int(m & (1<<countBits - 1)); j < n.places {
			// Ones stand for no batch, which is past all.
			n.marks[v] = m - uint64(1<<n.width-1-i)<<n.shift(j) + 1
		}
	}
}

// finish gives the shared nodes their places and returns them by place. They are valid
// until the next segment begins.
func (n *Segment) finish() []uint32 {
	count := 0
	for _, w := range n.shared {
		count += bits.OnesCount64(w)
	}
	n.order, n.tmp = binio.Grow(n.order, count), binio.Grow(n.tmp, count)
	i := 0
	for word, w := range n.shared {
		for ; w != 0; w &= w - 1 {
			n.order[i] = uint32(word*64 + bits.TrailingZeros64(w))
			i++
		}
	}
	for shift := countBits; shift < 64; shift += digitBits { // stable, from the least digit
		n.sortBy(1<<digitBits, func(v uint32) int { return int((n.marks[v]^n.reversed)>>shift) & (1<<digitBits - 1) })
	}
	n.sortBy(len(n.edges)+1, func(v uint32) int { return BandOf(n.edges, n.rank[v]) })
	for place, v := range n.order {
		n.marks[v] = uint64(place)
	}
	return n.order
}

// sortBy orders the shared nodes by a key below keys; equal ones keep their order.
func (n *Segment) sortBy(keys int, key func(v uint32) int) {
	n.at = binio.Grow(n.at, keys)
	clear(n.at)
	for _, v := range n.order {
		n.at[key(v)]++
	}
	if len(n.order) > 0 && n.at[key(n.order[0])] == len(n.order) {
		return
	}
	sum := 0
	for k, c := range n.at {
		n.at[k], sum = sum, sum+c
	}
	for _, v := range n.order {
		p := &n.at[key(v)]
		n.tmp[*p] = v
		*p++
	}
	n.order, n.tmp = n.tmp, n.order
}

// Place returns the place of node v in the segment's part of the SSD level, and false if fewer than two
// batches use it.
func (n *Segment) Place(v uint32) (uint32, bool) {
	if n.shared[v/64]>>(v%64)&1 == 0 {
		return 0, false
	}
	return uint32(n.marks[v]), true
}

// BandOf returns the band of a rank: band i has the ranks from edges[i] on, and below edges[i-1] for i > 0.
// Band 0 is the coldest. len(edges) stands for the ranks below all edges, which are always hot. edges
// descend.
func BandOf(edges []int64, rank uint32) int {
	band := 0
	for band < len(edges) && int64(rank) < edges[band] {
		band++
	}
	return band
}

// Segments finds the rows that the batches of every segment share, ahead of the renumbering. Run works
// through the segments on one goroutine; other goroutines wait for the segment of a batch with Of, and
// release it with Done. A few segments are held at once.
type Segments struct {
	samples *mbfile.Reader
	rank    []uint32
	lo, hi  int     // training batches lo ≤ i < hi, whole segments
	length  int     // of a segment, in batches
	least   []int64 // the lowest band edge alone: ranks below are always hot
	slots   []*batchSlot
	free    chan *Segment

	ready []chan struct{} // of every segment up to the last, closed when nodes has it
	nodes []*Segment
}

// SegmentsOf returns the number of segments of the given length, in batches, for a number of batches.
func SegmentsOf(batches, length int) int { return (batches + length - 1) / length }

// NewSegments returns the Segments of the training batches lo ≤ i < hi, which are whole segments of the
// given length. lanes is the number of segments held at once, slots the number of batches in memory. rank
// is by node, edges are the band edges.
func NewSegments(samples *mbfile.Reader, lo, hi int, rank []uint32, edges []int64, length, lanes, slots int) *Segments {
	p := &Segments{
		samples: samples, rank: rank, lo: lo, hi: hi, length: length,
		least: edges[len(edges)-1:], free: make(chan *Segment, lanes),
	}
	for range lanes {
		p.free <- newSegment(rank, edges)
	}
	for range slots {
		p.slots = append(p.slots, &batchSlot{count: make([]int, 2)})
	}
	n := SegmentsOf(p.hi, p.length)
	p.nodes, p.ready = make([]*Segment, n), make([]chan struct{}, n)
	for i := range p.ready {
		p.ready[i] = make(chan struct{})
	}
	return p
}

// Run counts the uses of the batches' nodes. It calls found for every segment in turn, with the shared
// nodes by place; the list is valid during the call. An error of found ends Run.
func (p *Segments) Run(ctx context.Context, found func(segment int, nodes []uint32) error) error {
	var now *Segment
	return errgroup.Ordered(ctx, p.hi-p.lo, p.slots, func(ctx context.Context, s *batchSlot, i int) (err error) {
		var nodes []uint32
		if nodes, s.raw, err = p.samples.Inputs(ctx, p.lo+i, s.raw); err != nil {
			return err
		}
		s.classify(nodes, p.rank, p.least)
		return nil
	}, func(s *batchSlot, i int) error {
		segment, k := (p.lo+i)/p.length, i%p.length
		batches := min(p.length, p.hi-segment*p.length)
		if k == 0 {
			select {
			case now = <-p.free:
			case <-ctx.Done():
				return ctx.Err()
			}
			now.begin(batches)
		}
		now.add(k, s.nodes[:s.count[0]])
		if k < batches-1 {
			return nil
		}
		if err := found(segment, now.finish()); err != nil {
			return err
		}
		p.nodes[segment] = now
		close(p.ready[segment])
		return nil
	})
}

// Of waits for the segment of training batch i and returns it. The segment is valid until Done of its last
// batch.
func (p *Segments) Of(ctx context.Context, i int) (*Segment, error) {
	segment := i / p.length
	select {
	case <-p.ready[segment]:
		return p.nodes[segment], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done releases the segment of training batch i if i is its last batch. Batches are done in order. The last
// segment, if it is shorter, is not reused.
func (p *Segments) Done(i int) {
	if i%p.length == p.length-1 {
		segment := i / p.length
		p.free <- p.nodes[segment] // has room: it came from there
		p.nodes[segment] = nil
	}
}
