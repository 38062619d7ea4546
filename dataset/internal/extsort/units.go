package extsort

import (
	"context"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
)

// edgeUnit is a range of destinations; their edges are sorted at once.
type edgeUnit struct {
	bucket int
	lo, hi int64 // destinations
	edges  int64
}

func (u *edgeUnit) bytes() int64 { return 4*u.edges + nodeBytes*(u.hi-u.lo) }

// edgeSlot is the memory of one unit in work.
type edgeSlot struct {
	degrees []uint32 // of the unit's destinations
	next    []int64  // where each destination's next source goes
	sources []uint32 // destination after destination
	block   []uint32 // a block of the scratch file
}

// Rows ends the adding and calls emit for all destinations in order, some at a
// time: their degrees, and their sources, ascending for each. The slices are
// valid during the call.
func (s *Edges) Rows(ctx context.Context, emit func(degrees, sources []uint32) error) error {
	for i := range s.buckets {
		if err := s.flush(&s.buckets[i]); err != nil {
			return err
		}
		s.buckets[i].buf = nil
	}
	units, slots, err := s.plan()
	if err != nil {
		return err
	}
	work := make([]*edgeSlot, slots)
	for i := range work {
		work[i] = &edgeSlot{block: make([]uint32, 2*blockEdges)}
	}
	return errgroup.Ordered(ctx, len(units), work,
		func(ctx context.Context, k *edgeSlot, i int) error { return s.sort(ctx, k, units[i]) },
		func(k *edgeSlot, _ int) error { return emit(k.degrees, k.sources) })
}

// plan cuts every bucket into units that fit in the memory, and returns the number of units that may
// be in work at the same time.
func (s *Edges) plan() ([]edgeUnit, int, error) {
	slots := s.o.Workers + 1
	held := int64(len(s.cells)) * 8
	for _, b := range s.buckets {
		held += int64(len(b.blocks)) * blockEntry
	}
	free := s.o.Memory - held
	most := int64(1)
	for c := range s.cells {
		u := s.cell(c)
		if most = max(most, u.bytes()); most+blockBytes > free {
			return nil, 0, fault.New(fault.ErrBudget, "sorting the %d edges into nodes %d to %d needs %s of memory, but only %s are allowed",
				u.edges, u.lo, u.hi-1, budget.FormatBytes(most+blockBytes), budget.FormatBytes(max(free, 0)))
		}
	}
	limit := max(min(free/int64(slots)-blockBytes, 2*unitBytes), most)
	slots = int(min(int64(slots), free/(limit+blockBytes))) // 1 at least: the largest cell fits
	var units []edgeUnit
	for c := range s.cells {
		u := s.cell(c)
		if n := len(units); n > 0 && units[n-1].bucket == u.bucket && units[n-1].bytes()+u.bytes() <= limit {
			units[n-1].hi, units[n-1].edges = u.hi, units[n-1].edges+u.edges
			continue
		}
		units = append(units, u)
	}
	return units, slots, nil
}

func (s *Edges) cell(c int) edgeUnit {
	lo := int64(c) * s.cellNodes
	return edgeUnit{bucket: c / int(s.bucketCells), lo: lo, hi: min(lo+s.cellNodes, s.o.Nodes), edges: s.cells[c]}
}

func (s *Edges) sort(ctx context.Context, k *edgeSlot, u edgeUnit) error {
	k.degrees = binio.Grow(k.degrees, int(u.hi-u.lo))
	clear(k.degrees)
	err := s.each(ctx, k, u, func(pairs []uint32) {
		for i := 0; i < len(pairs); i += 2 {
			if v := int64(pairs[i]); v >= u.lo && v < u.hi {
				k.degrees[v-u.lo]++
			}
		}
	})
	if err != nil {
		return err
	}
	k.next = binio.Grow(k.next, len(k.degrees))
	var total int64
	for i, n := range k.degrees {
		k.next[i] = total
		total += int64(n)
	}
	k.sources = binio.Grow(k.sources, int(total))
	err = s.each(ctx, k, u, func(pairs []uint32) {
		for i := 0; i < len(pairs); i += 2 {
			if v := int64(pairs[i]); v >= u.lo && v < u.hi {
				k.sources[k.next[v-u.lo]] = pairs[i+1]
				k.next[v-u.lo]++
			}
		}
	})
	if err != nil {
		return err
	}
	k.order(s.o.Unique)
	return nil
}

func (s *Edges) each(ctx context.Context, k *edgeSlot, u edgeUnit, do func(pairs []uint32)) error {
	for _, b := range s.buckets[u.bucket].blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		pairs := k.block[:2*b.Bytes()/bytesOfEdge]
		if err := s.file.Read(b, binio.Bytes(pairs)); err != nil {
			return err
		}
		do(pairs)
	}
	return nil
}

// order sorts every row and, if the options say so, removes duplicates.
func (k *edgeSlot) order(unique bool) {
	var from, to int64
	for i, n := range k.degrees {
		row := k.sources[from : from+int64(n)]
		slices.Sort(row)
		from += int64(n)
		if unique {
			row = slices.Compact(row)
		}
		to += int64(copy(k.sources[to:], row))
		k.degrees[i] = uint32(len(row))
	}
	k.sources = k.sources[:to]
}
