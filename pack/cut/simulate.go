package cut

import (
	"context"
	"errors"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/presample/mbfile"
)

// mostCycles bounds the search for a content that a cycle of MIN reproduces.
const mostCycles = 5

// Stats count the accesses of a cache under policy min in one cycle of the training batches.
type Stats struct {
	Rows     int64 // entries of the cache
	Accesses int64
	Hits     int64
	Admitted int64 // misses that the cache admits
	// Cycles are the hits of the unconstrained cycles that were simulated, until one ended
	// with the set of nodes that it began with, or mostCycles were. The first begins with
	// the best content for a trace that ends: no cache of this size has more hits.
	Cycles []int64
	// Periodic is whether the last of Cycles ended with the set with which it began. Then no policy that
	// repeats itself has more hits per cycle.
	Periodic bool
}

// A Recorder records one cycle of a simulation. The simulation calls Begin, then Batch for every batch in
// order, then End, on one goroutine.
type Recorder interface {
	// Begin records the nodes in the cache before batch 0, by entry. nodes is valid during the call, and
	// entry is its inverse. The cycle ends with the same nodes, in other entries.
	Begin(nodes []uint32, entry func(node uint32) uint32) error
	// Batch records training batch t: the codes of its nodes, in ascending order of the nodes, and held,
	// the nodes in the cache after it, by entry. Both lists are valid during the call.
	Batch(t int, codes, held []uint32) error
	// End finishes the files and returns their record. It comes after the last Batch.
	End() (Record, error)
}

// Record describes the files that a Recorder leaves.
type Record struct {
	Codes   rowfile.ListSums // the codes of the batches that the part packs
	Files   []stage.File     // files that are part of the pack
	Entries uint32           // the CRC-32C of the list of the nodes of Begin
}

// A Simulator simulates caches of any number of rows over the training batches of one
// sampling. It is for one goroutine.
type Simulator struct {
	trace *trace
	nodes []uint32 // memory for the entry of every node
	slots []*traceSlot
}

// NewSimulator writes the trace of the batches into scratch files in dir, of 8 bytes per input node of the
// training batches. slots is the number of batches in memory at once. Close removes the files.
func NewSimulator(ctx context.Context, fsys vfs.FS, dir string, samples *mbfile.Reader, slots int) (*Simulator, error) {
	s := &Simulator{nodes: make([]uint32, samples.Facts().Nodes), slots: newTraceSlots(slots)}
	var err error
	if s.trace, err = buildTrace(ctx, fsys, dir, samples, s.nodes, s.slots); err != nil {
		return nil, err
	}
	return s, nil
}

// Close removes the scratch files.
func (s *Simulator) Close() error { return s.trace.remove() }

// Run simulates a cache of rows rows, or fewer if training touches fewer nodes, and records one cycle that
// ends with the rows that it began with. rank orders the cache's first content: its nodes take the entries
// 0, 1 and so on by ascending rank, so that the most used rows are in the first entries, which a GPU would
// hold. If rank is nil they go by ascending node. rec may be nil.
func (s *Simulator) Run(ctx context.Context, rows int64, rank []uint32, rec Recorder) (Stats, error) {
	m := newSimulation(s.trace, s.nodes, rows, s.slots)
	set, err := m.circle(ctx)
	if err != nil {
		return Stats{}, err
	}
	place := entries(set, rank)
	m.begin(set, place)
	var do func(t int, codes []uint32) error
	if rec != nil {
		if err := rec.Begin(m.cache.nodeOf, place); err != nil {
			return Stats{}, err
		}
		do = func(t int, codes []uint32) error { return rec.Batch(t, codes, m.cache.nodeOf) }
	}
	err = m.run(ctx, do)
	return m.stats, err
}

// entries numbers the members of a set by ascending rank or, without ranks, by node.
func entries(set *idset.Set, rank []uint32) func(v uint32) uint32 {
	if rank == nil {
		set.Count()
		return set.Place
	}
	ranks := idset.New(int64(len(rank)))
	for v := range set.All() {
		ranks.Add(rank[v])
	}
	ranks.Count()
	return func(v uint32) uint32 { return ranks.Place(rank[v]) }
}

// simulation runs a cache under policy min over a trace.
type simulation struct {
	trace *trace
	cache *belady
	slots []*traceSlot
	stats Stats
}

// newSimulation makes an empty cache. nodes is memory for the entry of every node.
func newSimulation(t *trace, nodes []uint32, rows int64, slots []*traceSlot) *simulation {
	return &simulation{trace: t, cache: newBelady(nodes, t.batches, int(rows)), slots: slots, stats: Stats{Rows: rows}}
}

// circle finds the set of nodes that the cache should hold before batch 0 and after the
// last batch.
//
// MIN is optimal for a trace with a given initial content. If a cycle of MIN ends with
// the set that it began with, the next cycle is equal, and no policy that repeats itself
// has more hits per cycle, whatever it begins with. That is mostly so after two or three
// cycles. On some traces MIN alternates between sets. Then the set after mostCycles is
// taken, and run restores it.
func (s *simulation) circle(ctx context.Context) (*idset.Set, error) {
	if err := s.soonest(ctx); err != nil {
		return nil, err
	}
	set := idset.New(int64(len(s.cache.entryOf)))
	set.AddAll(s.cache.nodeOf)
	for len(s.stats.Cycles) < mostCycles && !s.stats.Periodic {
		hits := int64(0)
		err := s.trace.each(ctx, s.slots, func(b *traceSlot, i int) error {
			hits += int64(s.cache.step(i, b.nodes, b.next, b.order, b.codes))
			return nil
		})
		if err != nil {
			return nil, err
		}
		s.cache.far -= s.trace.batches // a new cycle begins
		s.stats.Cycles = append(s.stats.Cycles, hits)
		if s.stats.Periodic = set.HasAll(s.cache.nodeOf); !s.stats.Periodic {
			set.Clear()
			set.AddAll(s.cache.nodeOf)
		}
	}
	return set, nil
}

// errFull ends a walk over the trace.
var errFull = errors.New("full")

// soonest fills the cache with the nodes that are used first.
func (s *simulation) soonest(ctx context.Context) error {
	c := s.cache
	err := s.trace.each(ctx, s.slots, func(b *traceSlot, i int) error {
		for _, v := range b.nodes {
			if len(c.free) == 0 {
				return errFull
			}
			if c.entryOf[v] == NoEntry {
				entry := c.take()
				c.put(v, entry)
				c.queue(entry, i)
			}
		}
		return nil
	})
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// begin puts every member v of the set of circle into the entry place(v).
func (s *simulation) begin(set *idset.Set, place func(v uint32) uint32) {
	s.cache.move(place)
	if !s.stats.Periodic {
		s.cache.hold(set)
	}
}

// run serves the cycle that begin prepared, which ends with the set that it began with.
// do, if not nil, takes every batch's codes.
func (s *simulation) run(ctx context.Context, do func(t int, codes []uint32) error) error {
	return s.trace.each(ctx, s.slots, func(b *traceSlot, i int) error {
		hits := s.cache.step(i, b.nodes, b.next, b.order, b.codes)
		s.stats.Accesses += int64(len(b.nodes))
		s.stats.Hits += int64(hits)
		for _, code := range b.codes {
			s.stats.Admitted += int64(code & Admit / Admit)
		}
		if do == nil {
			return nil
		}
		return do(i, b.codes)
	})
}

// simulationMemory returns the bytes that a simulation holds beside its slots: of nodes,
// their entries and two sets; of entries, their content and lists; of batches, the lists'
// heads, the offsets and the checksums.
func simulationMemory(nodes, rows int64, batches int) int64 {
	return 4*nodes + nodes/2 + 20*rows + 32*int64(batches)
}

// simulationSlots returns the number of batches that a simulation may hold at once, at
// most one more than there are workers, beside the given bytes.
func simulationSlots(s mbfile.Facts, rows, beside int64, workers int, memory int64) (int, error) {
	held := beside + simulationMemory(s.Nodes, rows, s.TrainBatches)
	slot := traceSlotBytes(s) + 1<<16
	if err := budget.Check("simulating the cache", held+slot, memory); err != nil {
		return 0, err
	}
	if rows > mostEntries {
		return 0, fault.New(fault.ErrUsage, "--cache: %d rows are too many for policy min, which allows %d", rows, mostEntries)
	}
	return min(workers+1, int((memory-held)/slot)), nil
}
