package sampler

import (
	"context"

	"diskgnn/graph"
	"diskgnn/internal/rng"
)

// Reader reads a graph's topology for one sampler, hop by hop: all destinations of a hop of a batch at
// once, so that many requests read from disk together. It is for one goroutine. Its results depend on
// the graph alone: samplers draw the same batches on any reader.
//
// Every reader holds the position of each node's in-neighbours, which the draws need: 8 bytes a node or
// fewer. Graph reads a graph in memory.
type Reader interface {
	// NumNodes returns the number of nodes of the graph.
	NumNodes() int
	// Locate sets start[i] to the number of the first in-edge of nodes[i], unless start is nil, and
	// degree[i] to its in-degree. A node with 2³² or more in-neighbours is an error of kind fault.ErrInput.
	Locate(nodes []uint32, start []int64, degree []uint32) error
	// Read reads the topology for all destinations of a hop, in any order, and calls h's methods as
	// the comment of Hop says. After an error the sources of the hop are undefined, and no read is in
	// progress.
	Read(ctx context.Context, h *Hop) error
	// Reads returns the counts of all reads since the reader was made.
	Reads() Reads
}

// Reads counts the reads of the topology by a reader.
type Reads struct {
	Bytes    int64 // from disk
	Requests int64 // number of read requests
	Useful   int64 // the part of Bytes that is neighbours that a batch needed
	Held     int64 // destinations with neighbours in memory
	Missed   int64 // destinations with neighbours that were read from disk
}

// Add adds the reads of another reader.
func (r *Reads) Add(q Reads) {
	r.Bytes, r.Requests, r.Useful = r.Bytes+q.Bytes, r.Requests+q.Requests, r.Useful+q.Useful
	r.Held, r.Missed = r.Held+q.Held, r.Missed+q.Missed
}

// Sub returns the difference r − q, where q is an earlier count of the same reader.
func (r Reads) Sub(q Reads) Reads {
	return Reads{r.Bytes - q.Bytes, r.Requests - q.Requests, r.Useful - q.Useful, r.Held - q.Held, r.Missed - q.Missed}
}

// Hop is a sampler's request to the topology: in-neighbours of some nodes, its destinations, numbered
// from 0. No node is there twice. A reader serves each destination once:
//
//   - one that is Whole by calling Look with all its in-neighbours, in the order of the
//     graph, in one piece or several;
//   - any other, of which there is a Count, by writing the sources of the edges that Draw
//     names to Out. They are drawn without a look at any neighbour, so that no other need be
//     read.
type Hop struct {
	s     *Sampler
	first int          // destination 0 is this one of the sampler's nodes
	lists []uint32     // of the topology, for each destination: a node, or a row of a typed graph
	block *graph.Block // the block to draw; nil: neighbours within the buffer are counted
	key   uint64       // of the draws
	labor labor

	seen, put int // neighbours of the current destination that Look got, and that it took
}

// Len returns the number of destinations.
func (h *Hop) Len() int { return len(h.lists) }

// Node returns the node of destination i, or its row in a typed graph: the number of its list in the topology.
func (h *Hop) Node(i int) uint32 { return h.lists[i] }

// Edges returns the number of the first in-edge of destination i in the graph, and its in-degree.
func (h *Hop) Edges(i int) (start int64, degree int) {
	i += h.first
	if h.s.within.on { // s.degree counts only neighbours in the buffer
		degree, err := h.s.wholeDegree(i)
		if err != nil {
			return 0, 0 // which locate has refused already
		}
		return h.s.start[i], int(degree)
	}
	return h.s.start[i], int(h.s.degree[i])
}

// Count returns the number of edges that destination i draws.
func (h *Hop) Count(i int) int {
	if h.block == nil {
		return 0
	}
	return int(h.block.Indptr[i+1] - h.block.Indptr[i])
}

// Whole reports whether the sampler needs all in-neighbours of destination i, by Look, instead of the
// edges of Draw.
func (h *Hop) Whole(i int) bool {
	take := h.Count(i)
	return h.examined(i) || take > 0 && take == int(h.s.degree[i])
}

// examined reports whether the choice among a destination's neighbours depends on their node ids.
func (h *Hop) examined(i int) bool {
	if !h.labor.on && !h.s.within.on {
		return false
	}
	if h.block == nil {
		_, degree := h.Edges(i)
		return degree > 0
	}
	return h.Count(i) > 0 && (h.chosen(i) || h.filtered(i))
}

// chosen reports whether LABOR chooses among a destination's neighbours.
func (h *Hop) chosen(i int) bool { return h.labor.on && h.Count(i) < int(h.s.degree[i]) }

// filtered reports whether some of a destination's neighbours may not be drawn.
func (h *Hop) filtered(i int) bool {
	if !h.s.within.on {
		return false
	}
	_, degree := h.Edges(i)
	return int(h.s.degree[i]) < degree
}

// Out returns the memory for the sources of the edges of destination i, Count(i) long.
func (h *Hop) Out(i int) []uint32 { return h.block.Indices[h.block.Indptr[i]:h.block.Indptr[i+1]] }

// Draw sets pos to the numbers of the graph's edges that destination i draws, in the order of Out.
// len(pos) must be Count(i), and Whole(i) false.
func (h *Hop) Draw(i int, pos []int64) {
	h.s.draw(pos, h.s.start[i], h.s.degree[i], h.drawKey(i))
}

func (h *Hop) drawKey(i int) uint64 { return rng.Join(h.key, uint64(h.lists[i])) }

// Look passes the next piece of the in-neighbours of destination i, for which Whole is true, to the
// sampler. The sources of the destination are complete after the last piece; until then no other
// destination may be passed.
func (h *Hop) Look(ctx context.Context, i int, neighbours []uint32) (err error) {
	if err := h.take(ctx, i, neighbours); err != nil {
		return err
	}
	h.seen += len(neighbours)
	if _, degree := h.Edges(i); h.seen < degree {
		return nil
	}
	if h.block != nil && h.chosen(i) {
		h.s.chooser.end(h.Out(i))
	}
	h.seen, h.put = 0, 0
	return nil
}

// take takes a piece of a destination's neighbours.
func (h *Hop) take(ctx context.Context, i int, piece []uint32) error {
	s := h.s
	switch {
	case h.block == nil:
		n, err := s.within.count(ctx, piece)
		if h.seen == 0 {
			s.degree[h.first+i] = 0
		}
		s.degree[h.first+i] += n
		return err
	case h.chosen(i):
		if h.seen == 0 {
			s.chooser.begin(h.Count(i))
			if len(piece) == int(s.degree[h.first+i]) {
				return s.chooser.addAll(ctx, piece, &h.labor)
			}
		}
		return s.chooser.add(ctx, piece, &h.labor)
	case h.filtered(i):
		if h.seen == 0 {
			s.within.begin(h.ranks(i))
		}
		n, err := s.within.take(ctx, h.Out(i)[h.put:], piece)
		h.put += n
		return err
	}
	copy(h.Out(i)[h.seen:], piece)
	return nil
}

// ranks draws which of the neighbours that may be drawn a destination takes. Nil: all.
func (h *Hop) ranks(i int) []int64 {
	s, take := h.s, h.Count(i)
	if take == int(s.degree[i]) {
		return nil
	}
	s.draw(s.pos[:take], 0, s.degree[i], h.drawKey(i))
	return s.pos[:take]
}
