package graph

import (
	"fmt"
	"math"
	"sort"
)

// Offsets says at which edge each node's in-neighbours begin, in 4 bytes a node: an index
// pointer modulo 2³², and where these run over, which is once in 2³² edges. Reading it is
// safe for concurrent use.
type Offsets struct {
	low  []uint32 // of every node, and the end of the last
	over []int64  // the entries from which on the higher half is one more
	last int64    // the entry appended last
}

// OffsetsBytes returns the memory of the offsets of the given number of nodes, in bytes.
func OffsetsBytes(nodes int64) int64 { return 4 * (nodes + 1) }

// NewOffsets returns empty offsets with room for the given number of nodes, to append to.
func NewOffsets(nodes int64) *Offsets { return &Offsets{low: make([]uint32, 0, nodes+1)} }

// Append appends entries of an index pointer, which ascends from 0. A node of more
// in-neighbours than 32 bits count is an error.
func (o *Offsets) Append(indptr []int64) error {
	for _, p := range indptr {
		if p-o.last > math.MaxUint32 {
			return fmt.Errorf("node %d has %d in-neighbours; the limit is 2³² - 1", len(o.low)-1, p-o.last)
		}
		if p>>32 > o.last>>32 {
			o.over = append(o.over, int64(len(o.low)))
		}
		o.low, o.last = append(o.low, uint32(p)), p
	}
	return nil
}

// NumNodes returns the number of nodes.
func (o *Offsets) NumNodes() int { return len(o.low) - 1 }

// NumEdges returns the number of edges.
func (o *Offsets) NumEdges() int64 { return o.last }

// Start returns the edge at which the in-edges of node v begin, or for v = the number of nodes, where
// all edges end.
func (o *Offsets) Start(v int64) int64 {
	high := 0
	if len(o.over) > 0 {
		high = sort.Search(len(o.over), func(i int) bool { return o.over[i] > v })
	}
	return int64(high)<<32 + int64(o.low[v])
}

// Degree returns the in-degree of a node.
func (o *Offsets) Degree(v uint32) uint32 { return o.low[int64(v)+1] - o.low[v] }
