package graph

import (
	"fmt"
	"math"
	"sort"
)

// Offsets is the index pointer of a graph in 4 bytes for each node: entries modulo 2³², and the nodes
// at which they exceed a multiple of 2³². It is filled by Append; reading it is safe for concurrent
// use.
type Offsets struct {
	low  []uint32 // of every node, and the end of the last
	over []int64  // the entries from which on the higher half is one more
	last int64    // the entry appended last
}

// OffsetsBytes returns the bytes of memory of the Offsets of the given number of nodes.
func OffsetsBytes(nodes int64) int64 { return 4 * (nodes + 1) }

// NewOffsets returns empty Offsets with room for the given number of nodes.
func NewOffsets(nodes int64) *Offsets { return &Offsets{low: make([]uint32, 0, nodes+1)} }

// Append appends entries of the index pointer, which must ascend from 0. A node with 2³² or more
// in-neighbours is an error.
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

// Start returns the number of the first in-edge of node v; for v = NumNodes, the number of all edges.
func (o *Offsets) Start(v int64) int64 {
	high := 0
	if len(o.over) > 0 {
		high = sort.Search(len(o.over), func(i int) bool { return o.over[i] > v })
	}
	return int64(high)<<32 + int64(o.low[v])
}

// Degree returns the in-degree of a node.
func (o *Offsets) Degree(v uint32) uint32 { return o.low[int64(v)+1] - o.low[v] }
