package topology

import (
	"math/bits"

	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
)

// held has the nodes with in-neighbours in memory, and these in-neighbours, in ascending order of the
// nodes. The zero value holds none.
type held struct {
	bits  []uint64 // of every node: whether it is held
	ranks []uint32 // of every rankNodes: how many are held before
	place *graph.Offsets
	ids   *device.Host
}

// rankNodes are counted at a time to find a node's place.
const rankNodes = 512

// tableBytes returns the memory of the table that finds the nodes of a graph, but for their
// places.
func tableBytes(nodes int64) int64 {
	words, ranks := (nodes+63)/64, (nodes+rankNodes-1)/rankNodes
	return 8*words + 4*ranks
}

// heldBytes returns the memory of the given number of held nodes with edges in-neighbours in all.
func heldBytes(nodes, held, edges int64) int64 {
	return tableBytes(nodes) + graph.OffsetsBytes(held) + binio.AlignUp(4*edges, device.PageSize)
}

// choose marks the nodes that come first in a list, up to the first that does not fit in the given
// bytes, and returns the numbers of these nodes and of their edges. A node that is there twice counts
// once.
func (h *held) choose(list []uint32, o *graph.Offsets, bytes int64) (nodes, edges int64) {
	n := int64(o.NumNodes())
	h.bits = make([]uint64, (n+63)/64)
	for _, v := range list {
		w, bit := v>>6, uint64(1)<<(v&63)
		if h.bits[w]&bit != 0 {
			continue
		}
		d := int64(o.Degree(v))
		if heldBytes(n, nodes+1, edges+d) > bytes {
			break
		}
		h.bits[w] |= bit
		nodes, edges = nodes+1, edges+d
	}
	return nodes, edges
}

func (h *held) lay(o *graph.Offsets, nodes, edges int64) (err error) {
	h.ranks = make([]uint32, (int64(o.NumNodes())+rankNodes-1)/rankNodes)
	h.place = graph.NewOffsets(nodes)
	var end int64
	count := uint32(0)
	_ = h.place.Append([]int64{0})
	for i, w := range h.bits {
		if i%(rankNodes/64) == 0 {
			h.ranks[i/(rankNodes/64)] = count
		}
		count += uint32(bits.OnesCount64(w))
		for ; w != 0; w &= w - 1 {
			end += int64(o.Degree(uint32(i*64 + bits.TrailingZeros64(w))))
			if err := h.place.Append([]int64{end}); err != nil {
				return err // which the graph's offsets would have been, too
			}
		}
	}
	h.ids, err = device.NewHost(int(4 * edges))
	return err
}

// neighbours returns the in-neighbours of a node, if it is held.
func (h *held) neighbours(v uint32) (ids []uint32, ok bool) {
	if h.ids == nil || h.bits[v>>6]>>(v&63)&1 == 0 {
		return nil, false
	}
	rank := int64(h.ranks[v/rankNodes])
	first := v / rankNodes * (rankNodes / 64)
	for _, w := range h.bits[first : v>>6] {
		rank += int64(bits.OnesCount64(w))
	}
	rank += int64(bits.OnesCount64(h.bits[v>>6] & (1<<(v&63) - 1)))
	return h.ids.Uint32s()[h.place.Start(rank):h.place.Start(rank+1)], true
}

func (h *held) bytes() int64 {
	if h.ids == nil {
		return 0
	}
	return heldBytes(int64(len(h.bits))*64, int64(h.place.NumNodes()), h.place.NumEdges())
}

func (h *held) free() {
	if h.ids != nil {
		h.ids.Free()
	}
	*h = held{}
}
