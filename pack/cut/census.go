package cut

import (
	"context"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
)

// Census counts the rows that packs of the samples would store beside the hot rows, for many lengths of
// segments and many caches. The counts are exact, over all segments. (DiskGNN extrapolates from the first
// segment.)
type Census struct {
	Segments []int   // batches per segment, ascending; the last is all of them
	Edges    []int64 // caches, in ranks, descending
	// Accesses counts, by edge, the uses of nodes ranked at the edge or above: the rows that are stored
	// when batches share none.
	Accesses []int64
	// Stored counts, by edge and segment length, the distinct nodes of every segment: the rows that are
	// stored. Shared counts the nodes among them that more than one batch of their segment uses: the
	// rows of the SSD level.
	Stored, Shared [][]int64
}

// segmentLadder returns the lengths of segments that are tried for a number of batches: all
// up to 16, then each at most a quarter longer than the one before.
func segmentLadder(batches int) []int {
	var l []int
	for s := 1; s < batches; {
		l = append(l, s)
		if s < 16 {
			s++
		} else {
			s += s / 4
		}
	}
	return append(l, max(batches, 1))
}

// censusMemory returns the bytes that a census holds beside its slots: two uses of every
// node. Counts by the lengths of segments, a few hundred, are in the reserve.
func censusMemory(nodes int64) int64 { return 8 * nodes }

// batchSlot holds one batch's input nodes while they are counted.
type batchSlot struct {
	raw   []byte
	class []uint8
	nodes []uint32 // by class
	count []int    // of each class
	at    []int
}

// takeCensus reads the input nodes of every training batch once. edges descend. It holds censusMemory and
// the slots. task counts the batches.
func takeCensus(ctx context.Context, samples *mbfile.Reader, rank []uint32, edges []int64, slots int, task progress.Task) (*Census, error) {
	batches := samples.Facts().TrainBatches
	t := newCensusTaker(int64(len(rank)), batches, edges)
	list := make([]*batchSlot, slots)
	for i := range list {
		list[i] = &batchSlot{count: make([]int, len(edges)+1)}
	}
	err := errgroup.Ordered(ctx, batches, list, func(ctx context.Context, s *batchSlot, i int) (err error) {
		var nodes []uint32
		if nodes, s.raw, err = samples.Inputs(ctx, i, s.raw); err != nil {
			return err
		}
		s.classify(nodes, rank, edges)
		return nil
	}, func(s *batchSlot, i int) error {
		nodes := s.nodes
		for class := range edges {
			n := s.count[class]
			t.add(i, class, nodes[:n])
			nodes = nodes[n:]
		}
		task.Add(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t.census(), nil
}

// classify groups nodes by the first, highest edge that their rank reaches. Nodes that reach no edge come
// last.
func (s *batchSlot) classify(nodes, rank []uint32, edges []int64) {
	s.class, s.nodes = binio.Grow(s.class, len(nodes)), binio.Grow(s.nodes, len(nodes))
	clear(s.count)
	for i, v := range nodes {
		class := 0
		for class < len(edges) && int64(rank[v]) < edges[class] {
			class++
		}
		s.class[i] = uint8(class)
		s.count[class]++
	}
	s.at = binio.Grow(s.at, len(s.count))
	sum := 0
	for class, n := range s.count {
		s.at[class], sum = sum, sum+n
	}
	for i, v := range nodes {
		p := &s.at[s.class[i]]
		s.nodes[*p] = v
		*p++
	}
}

// censusTaker counts batch after batch. A use of a node in batch b is the first in its segment of length s
// exactly if the use before it lies before batch b - b mod s; it is the second if the one before does not,
// and the one before that does. So a use is sorted among the few batches at which the segments around b
// begin, and the time for a batch does not grow with the number of batches before it.
type censusTaker struct {
	segments []int
	edges    []int64
	last     [][2]uint32 // by node: 1 + the batch of its last use, and of the one before; 0: none

	batch int      // that the following are of; -1: none
	order []int    // the segments' lengths, by their place in segments, by ascending begin
	ended []int    // scratch
	begin []uint32 // in that order: 1 + the first batch of the segment that batch lies in
	// uses[k] and earlier[k] count the nodes being added by their last use, and by the use before it: at
	// begin[k-1] or later, and before begin[k].
	uses, earlier []int64

	accesses       []int64   // by class
	stored, shared [][]int64 // by class and segment length
}

func newCensusTaker(nodes int64, batches int, edges []int64) *censusTaker {
	t := &censusTaker{
		segments: segmentLadder(batches), edges: edges, last: make([][2]uint32, nodes), batch: -1,
		accesses: make([]int64, len(edges)),
	}
	n := len(t.segments)
	t.begin, t.uses, t.earlier = make([]uint32, n), make([]int64, n+1), make([]int64, n+1)
	for i := range n {
		t.order = append(t.order, i)
	}
	for range edges {
		t.stored = append(t.stored, make([]int64, n))
		t.shared = append(t.shared, make([]int64, n))
	}
	return t
}

// turnTo makes b the batch of the nodes to add. b is not before the present batch.
func (t *censusTaker) turnTo(b int) {
	for ; t.batch < b; t.batch++ {
		// Of the segments around this batch, one that begins here begins last of all.
		next, kept := t.batch+1, 0
		t.ended = t.ended[:0]
		for k, i := range t.order {
			if next%t.segments[i] == 0 {
				t.ended = append(t.ended, i)
				continue
			}
			t.order[kept], t.begin[kept] = i, t.begin[k]
			kept++
		}
		for k, i := range t.ended {
			t.order[kept+k], t.begin[kept+k] = i, uint32(next)+1
		}
	}
}

// place returns the number of segments around the batch that begin at the use or before.
func (t *censusTaker) place(use uint32) int {
	lo, n := 0, len(t.begin)
	for n > 0 {
		half := (n + 1) / 2
		if t.begin[lo+half-1] <= use {
			lo += half
			n -= half
		} else {
			n = half - 1
		}
	}
	return lo
}

// add counts batch b's nodes of one class. Batches come in order, each node at most
// once in each.
func (t *censusTaker) add(b, class int, nodes []uint32) {
	if len(nodes) == 0 {
		return
	}
	t.turnTo(b)
	clear(t.uses)
	clear(t.earlier)
	for _, v := range nodes {
		l := &t.last[v]
		t.uses[t.place(l[0])]++
		t.earlier[t.place(l[1])]++
		l[0], l[1] = uint32(b)+1, l[0]
	}
	t.accesses[class] += int64(len(nodes))
	uses, earlier := int64(0), int64(0) // at the segment's begin or later
	for k := len(t.order) - 1; k >= 0; k-- {
		uses += t.uses[k+1]
		earlier += t.earlier[k+1]
		i := t.order[k]
		t.stored[class][i] += int64(len(nodes)) - uses
		t.shared[class][i] += uses - earlier
	}
}

// census adds up the classes.
func (t *censusTaker) census() *Census {
	c := &Census{Segments: t.segments, Edges: slices.Clone(t.edges), Accesses: t.accesses, Stored: t.stored, Shared: t.shared}
	for e := 1; e < len(c.Edges); e++ {
		c.Accesses[e] += c.Accesses[e-1]
		for i := range c.Segments {
			c.Stored[e][i] += c.Stored[e-1][i]
			c.Shared[e][i] += c.Shared[e-1][i]
		}
	}
	return c
}
