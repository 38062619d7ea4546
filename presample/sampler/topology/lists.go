package topology

import (
	"diskgnn/device"
	"diskgnn/internal/binio"
)

// Lists says what holding single nodes' in-neighbours takes, and what it saves, of a topology
// that can hold a choice of them.
type Lists struct {
	of     *cached
	fanout int
}

// ListsOf returns that of a topology whose samplers draw at most so many in-neighbours of a
// node; 0: they look at all of them. It is false for one that holds no choice.
func ListsOf(t Topology, fanout int) (Lists, bool) {
	c, ok := t.(*cached)
	return Lists{c, fanout}, ok
}

// Bytes returns the memory that a node's takes: its in-neighbours and their place.
func (l Lists) Bytes(v uint32) int64 { return 4*int64(l.of.offsets.Degree(v)) + 4 }

// Held returns what Fill needs to hold lists of so many bytes in all: with what finds them.
func (l Lists) Held(bytes int64) int64 {
	return heldBytes(int64(l.of.offsets.NumNodes()), 0, 0) + bytes + device.PageSize
}

// Read returns the bytes that a draw from a node's list reads where it is not held, if no other
// of the hop reads the same pages: all pages that it lies on, or as many as draws.
func (l Lists) Read(v uint32) int64 {
	first, n := l.of.offsets.Start(int64(v)), int64(l.of.offsets.Degree(v))
	if n == 0 {
		return 0
	}
	pages := (first+n-1)/pageEdges - first/pageEdges + 1
	if l.fanout > 0 {
		pages = min(pages, int64(l.fanout))
	}
	return pages * binio.Page
}
