package pack

import (
	"math/bits"

	"diskgnn/internal/binio"
	"diskgnn/internal/rng"
)

// segmentNodes finds the nodes that several batches of one segment use, and orders
// them: band by band, coldest first, each in MinHash order. Two random orders of the
// batches give a node the places of its first batch in each; sorted by these, and by
// id, nodes that the same batches use lie next to each other. O(nodes) memory serves
// one segment after another.
type segmentNodes struct {
	rank  []uint32
	edges []int64 // band edges, descending

	used, shared []uint64 // sets of nodes: used by a batch, by more than one
	// marks are, of used nodes, the places of their first batch in the two orders;
	// once ordered, the first of a shared node is its slot.
	marks      [][2]uint32
	place      [2][]uint32 // of every batch of the segment in the two orders
	order, tmp []uint32    // the shared nodes, by slot
	at         []int
}

// segmentMemory returns the bytes that segmentNodes holds when no segment shares more
// than the given number of nodes.
func segmentMemory(nodes, shared int64) int64 { return 8*nodes + nodes/4 + 8*shared }

func newSegmentNodes(rank []uint32, edges []int64) *segmentNodes {
	words := (len(rank) + 63) / 64
	return &segmentNodes{
		rank: rank, edges: edges, used: make([]uint64, words), shared: make([]uint64, words),
		marks: make([][2]uint32, len(rank)),
	}
}

// begin starts the segment of the given number, with its number of batches.
func (n *segmentNodes) begin(segment, batches int) {
	clear(n.used)
	clear(n.shared)
	for k := range n.place {
		n.place[k] = binio.Grow(n.place[k], batches)
		for i := range n.place[k] {
			n.place[k][i] = uint32(i)
		}
		source := rng.New(rng.Key(0x5E61, uint64(segment), uint64(k)))
		rng.Shuffle(&source, n.place[k])
	}
}

// add counts the uses of the given nodes by the segment's batch i.
func (n *segmentNodes) add(i int, nodes []uint32) {
	h := [2]uint32{n.place[0][i], n.place[1][i]}
	for _, v := range nodes {
		word, bit := v/64, uint64(1)<<(v%64)
		if n.used[word]&bit == 0 {
			n.used[word] |= bit
			n.marks[v] = h
			continue
		}
		n.shared[word] |= bit
		m := &n.marks[v]
		m[0], m[1] = min(m[0], h[0]), min(m[1], h[1])
	}
}

// finish gives the shared nodes their slots and returns them by slot. They are valid
// until the next segment begins.
func (n *segmentNodes) finish() []uint32 {
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
	// Stable, from the least key to the greatest.
	batches := len(n.place[0])
	n.sortBy(batches, func(v uint32) int { return int(n.marks[v][1]) })
	n.sortBy(batches, func(v uint32) int { return int(n.marks[v][0]) })
	n.sortBy(len(n.edges)+1, func(v uint32) int { return bandOf(n.edges, n.rank[v]) })
	for slot, v := range n.order {
		n.marks[v][0] = uint32(slot)
	}
	return n.order
}

// sortBy orders the shared nodes by a key below keys; equal ones keep their order.
func (n *segmentNodes) sortBy(keys int, key func(v uint32) int) {
	n.at = binio.Grow(n.at, keys)
	clear(n.at)
	for _, v := range n.order {
		n.at[key(v)]++
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

// slot returns the slot of a node, if several batches use it.
func (n *segmentNodes) slot(v uint32) (uint32, bool) {
	if n.shared[v/64]>>(v%64)&1 == 0 {
		return 0, false
	}
	return n.marks[v][0], true
}

// bandOf returns the band of a rank, coldest first; len(edges) is below them all.
func bandOf(edges []int64, rank uint32) int {
	band := 0
	for band < len(edges) && int64(rank) < edges[band] {
		band++
	}
	return band
}
