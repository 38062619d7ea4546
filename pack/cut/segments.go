package cut

import (
	"context"

	"diskgnn/internal/errgroup"
	"diskgnn/presample/mbfile"
)

// Segments finds what the batches of every segment share, ahead of the
// renumbering, which waits for the segment that a batch belongs to. The nodes of a few
// segments, free's at the beginning, are held at once.
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

// SegmentsOf returns the number of segments of the given length.
func SegmentsOf(batches, length int) int { return (batches + length - 1) / length }

// NewSegments makes room for some segments of the batches lo ≤ i < hi at once, the
// lanes, and for some batches.
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

// Run counts the uses of the batches' nodes. found takes the shared nodes of every segment
// in turn, by place; the list is valid during the call.
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

// Of waits for the segment of training batch i. Its nodes are valid until done.
func (p *Segments) Of(ctx context.Context, i int) (*Segment, error) {
	segment := i / p.length
	select {
	case <-p.ready[segment]:
		return p.nodes[segment], nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done says that training batch i, and every batch before it, needs its segment no longer. No
// segment waits for the room of the last one, which may be shorter.
func (p *Segments) Done(i int) {
	if i%p.length == p.length-1 {
		segment := i / p.length
		p.free <- p.nodes[segment] // has room: it came from there
		p.nodes[segment] = nil
	}
}
