package sampler

import (
	"context"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/prefetch"
)

// Graph reads a graph in memory, or one that is mapped and guarded by the caller. It reads
// nothing by itself.
func Graph(g *graph.CSC) Reader { return (*inMemory)(g) }

type inMemory graph.CSC

func (g *inMemory) NumNodes() int { return (*graph.CSC)(g).NumNodes() }

func (g *inMemory) Reads() Reads { return Reads{} }

func (g *inMemory) Locate(nodes []uint32, start []int64, degree []uint32) error {
	var most int64
	edges := uint64(len(g.Indices))
	for i, v := range nodes {
		prefetch.Ahead(g.Indptr, nodes, i, requestAhead)
		if int(v)+1 >= len(g.Indptr) {
			return outside(v, (*graph.CSC)(g).NumNodes())
		}
		a, b := g.Indptr[v], g.Indptr[int(v)+1]
		// A mapped graph may change after it was verified. Negative offsets are beyond all edges.
		if uint64(a) > uint64(b) || uint64(b) > edges {
			return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d are edges %d to %d, but the graph has %d edges", v, a, b, edges)
		}
		d := b - a
		if degree[i] = uint32(d); start != nil {
			start[i] = a
		}
		most = max(most, d)
	}
	if most > math.MaxUint32 {
		return fault.New(fault.ErrInput, "a node has %d in-neighbours; the limit is 2³² - 1", most)
	}
	return nil
}

// outside is the error of a node id that the topology should not have.
func outside(v uint32, nodes int) error {
	return fault.New(fault.ErrCorrupt, "the topology has an edge from node %d, but the graph has %d nodes", v, nodes)
}

// Read computes the positions of a chunk of edges in the sampler's memory and then looks all
// of them up, as chunkEdges says.
func (g *inMemory) Read(ctx context.Context, h *Hop) error {
	s, done, fill := h.s, 0, 0
	look := func() error {
		if fill > 0 {
			gather(h.block.Indices[done:done+fill], g.Indices, s.pos)
			done, fill = done+fill, 0
		}
		return ctx.Err()
	}
	for i := range h.Len() {
		take := h.Count(i)
		if fill+take > len(s.pos) || h.examined(i) {
			if err := look(); err != nil {
				return err
			}
		}
		if take > len(s.pos) || h.examined(i) {
			start, degree := h.Edges(i)
			if start+int64(degree) > int64(len(g.Indices)) {
				return fault.New(fault.ErrCorrupt, "the in-neighbours of node %d end at edge %d, but the graph has %d edges", h.Node(i), start+int64(degree), len(g.Indices))
			}
			for piece := range slices.Chunk(g.Indices[start:start+int64(degree)], edgesAtOnce) {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := h.Look(ctx, i, piece); err != nil {
					return err
				}
			}
			done += take
			continue
		}
		pos := s.pos[fill : fill+take]
		fill += take
		if start := s.start[i]; take == int(s.degree[i]) {
			for j := range pos {
				pos[j] = start + int64(j)
			}
		} else {
			h.Draw(i, pos)
		}
	}
	return look()
}

// gatherAhead is the number of edges with sources that are requested from memory together.
const gatherAhead = 128

// gather reads the sources of edges. The loop does nothing else, so that the processor overlaps the
// largest possible number of cache misses.
func gather(out, indices []uint32, pos []int64) {
	pos = pos[:len(out)]
	// Beyond the number of instructions that the processor looks ahead, only requests overlap.
	prefetch.AtLong(indices, pos[:min(gatherAhead, len(pos))])
	for len(pos) > 0 {
		k := min(gatherAhead, len(pos))
		prefetch.AtLong(indices, pos[k:min(2*gatherAhead, len(pos))])
		o := out[:k]
		for i, p := range pos[:k] {
			o[i] = indices[p]
		}
		out, pos = out[k:], pos[k:]
	}
}
