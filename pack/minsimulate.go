package pack

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// mostCycles bounds the search for a content that a cycle of MIN reproduces.
const mostCycles = 5

// MinStats is what a cache under policy min does in a cycle of the training batches.
type MinStats struct {
	Rows     int64 `json:"rows"` // slots of the cache
	Accesses int64 `json:"accesses"`
	Hits     int64 `json:"hits"`
	Admitted int64 `json:"admitted"` // misses that the cache takes
	// Cycles are the hits of the cycles in which MIN ran freely until it reproduced
	// what it began with, or was given up. The first begins with the best content for a trace
	// that is no circle: no cache has more hits.
	Cycles []int64 `json:"cycles"`
	// Periodic says that it did, and so that no cyclic policy has more hits.
	Periodic bool `json:"periodic"`
}

// simulation runs caches under policy min over one trace.
type simulation struct {
	trace *minTrace
	cache *minCache
	slots []*minSlot
	stats MinStats
}

// circle finds what the cache should hold before batch 0 and after the last one, and
// returns the set.
//
// MIN is optimal for a trace with a given initial content. Over many cycles it so has
// no fewer hits than any policy that repeats itself, but for the first content's sake.
// If a cycle of MIN ends with the set that it began with, it repeats itself: then no
// cyclic policy has more hits per cycle, whatever it begins with. It mostly does after
// two or three cycles. Some traces make MIN alternate between sets; then the present
// one is taken, and run sees to it that it comes back.
func (s *simulation) circle(ctx context.Context) (*bitset, error) {
	if err := s.soonest(ctx); err != nil {
		return nil, err
	}
	set := newBitset(int64(len(s.cache.slotOf)))
	set.addAll(s.cache.nodeOf)
	for len(s.stats.Cycles) < mostCycles && !s.stats.Periodic {
		hits := int64(0)
		err := s.trace.each(ctx, s.slots, func(b *minSlot, i int) error {
			hits += int64(s.cache.step(i, b.nodes, b.next, b.order, b.codes))
			return nil
		})
		if err != nil {
			return nil, err
		}
		s.cache.far -= s.trace.batches // a new cycle begins
		s.stats.Cycles = append(s.stats.Cycles, hits)
		if s.stats.Periodic = set.hasAll(s.cache.nodeOf); !s.stats.Periodic {
			clear(set.words)
			set.addAll(s.cache.nodeOf)
		}
	}
	return set, nil
}

// errFull ends a walk over the trace.
var errFull = errors.New("full")

// soonest fills the cache with the nodes that are used first.
func (s *simulation) soonest(ctx context.Context) error {
	c := s.cache
	err := s.trace.each(ctx, s.slots, func(b *minSlot, i int) error {
		for _, v := range b.nodes {
			if len(c.free) == 0 {
				return errFull
			}
			if c.slotOf[v] == noSlot {
				slot := c.take()
				c.put(v, slot)
				c.queue(slot, i)
			}
		}
		return nil
	})
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// run serves one cycle that begins and ends with the set that circle returned, whose
// member v begins in slot(v). do, if not nil, sees every batch's nodes and codes.
func (s *simulation) run(ctx context.Context, set *bitset, slot func(v uint32) uint32, do func(t int, nodes, codes []uint32) error) error {
	c := s.cache
	c.move(slot)
	if !s.stats.Periodic {
		c.hold(set)
	}
	return s.trace.each(ctx, s.slots, func(b *minSlot, i int) error {
		hits := c.step(i, b.nodes, b.next, b.order, b.codes)
		s.stats.Accesses += int64(len(b.nodes))
		s.stats.Hits += int64(hits)
		for _, code := range b.codes {
			s.stats.Admitted += int64(code & codeAdmit / codeAdmit)
		}
		if do == nil {
			return nil
		}
		return do(i, b.nodes, b.codes)
	})
}

// SimulateOptions say what to simulate a cache with.
type SimulateOptions struct {
	Scratch string // a directory for 8 bytes per access of a batch's input node
	Workers int
}

// SimulateMin counts what caches of the given numbers of rows, each at most the nodes
// that any training batch touches, do under policy min, without packing anything.
func SimulateMin(ctx context.Context, fsys vfs.FS, samples *mbfile.Reader, rows []int64, o SimulateOptions) (_ []MinStats, err error) {
	nodes := make([]uint32, samples.Facts().Nodes)
	slots := newMinSlots(max(o.Workers, 1) + 1)
	trace, err := buildTrace(ctx, fsys, o.Scratch, samples, nodes, slots)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, trace.remove()) }()
	touched := int64(0)
	for _, last := range nodes {
		if last != noSlot {
			touched++
		}
	}
	var all []MinStats
	for _, n := range rows {
		if n < 0 || n > touched {
			return nil, fault.New(fault.ErrUsage, "a cache of %d rows, where batches touch %d nodes", n, touched)
		}
		s := newSimulation(trace, nodes, n, slots)
		set, err := s.circle(ctx)
		if err != nil {
			return nil, err
		}
		set.count()
		if err := s.run(ctx, set, set.place, nil); err != nil {
			return nil, err
		}
		all = append(all, s.stats)
	}
	return all, nil
}

func newMinSlots(n int) []*minSlot {
	slots := make([]*minSlot, n)
	for i := range slots {
		slots[i] = new(minSlot)
	}
	return slots
}

// newSimulation makes a cache whose places of nodes are held in the given memory.
func newSimulation(trace *minTrace, nodes []uint32, rows int64, slots []*minSlot) *simulation {
	return &simulation{trace: trace, cache: newMinCache(nodes, trace.batches, int(rows)), slots: slots, stats: MinStats{Rows: rows}}
}

// minMemory returns the bytes that finding a cache's content takes beside the slots: of
// nodes, of their places and two sets; of slots, their content and lists; of batches, the
// lists' heads, the offsets and the checksums.
func minMemory(nodes, rows int64, batches int) int64 {
	return 4*nodes + nodes/2 + 20*rows + 32*int64(batches)
}
