package presample

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// phase is a range of batches with one fanout.
type phase struct {
	from      int // where it began
	lo, hi    int // range of the batches that are left
	fanout    []int
	relations [][]int // fanouts by relation; nil: all have fanout
	allotment
	probed *probed // some of its batches, if they had to be looked at
}

// allot fits the training batches, then the evaluation batches, into memory.
func (s *sampling) allot(ctx context.Context) ([]phase, error) {
	phases := []phase{
		{lo: 0, hi: s.layout.Train, fanout: s.params.Fanout, relations: s.params.ByRelation(s.layout.Types, false)},
		{lo: s.layout.Train, hi: s.layout.Batches(), fanout: s.params.EvalFanout, relations: s.params.ByRelation(s.layout.Types, true)},
	}
	for i := range phases {
		p := &phases[i]
		p.from, p.lo, p.hi = max(p.lo, s.lo), max(p.lo, s.next()), min(p.hi, s.hi)
	}
	s.beforeDrawing = s.o.Memory - s.room
	if err := s.hold(ctx, phases); err != nil {
		return nil, err
	}
	for i := range phases {
		p := &phases[i]
		if p.lo >= p.hi {
			continue
		}
		if err := s.fit(ctx, p); err != nil {
			return nil, err
		}
		if p.workers < s.o.Workers && !(i == 1 && p.workers == phases[0].workers) {
			s.rep.Logf("--memory allows only %d of %d workers for fanout %v", p.workers, s.o.Workers, p.fanout)
		}
		if s.res.Workers == 0 {
			s.res.Workers, s.res.Table = p.workers, p.table()
		}
	}
	return phases, nil
}

// next returns the first batch that is not there yet.
func (s *sampling) next() int {
	if s.writer == nil { // of a plan
		return s.lo
	}
	return s.writer.Next()
}

// fit plans the memory of a phase. It first reckons with the largest possible batches. If that leaves
// workers without memory, it reckons with the expected batches: upper bounds by the fanout or the
// whole graph may be much larger than any batch. Too little memory for these is an error.
func (s *sampling) fit(ctx context.Context, p *phase) error {
	nodes, most := s.data.Facts().Nodes, s.most(p.fanout)
	p.allotment = divide(s.o.Workers, s.room, nodes, most)
	if p.workers == s.o.Workers && p.fits(nodes, most) {
		return nil
	}
	x, err := s.expected(ctx, p)
	if err != nil {
		return err
	}
	p.allotment = divide(s.o.Workers, s.room, nodes, x)
	return s.check("sampling", s.beforeDrawing+s.drawingAlone(p, x))
}

// drawingAlone returns the least memory with which one worker samples a phase: enough for any batch,
// or for the probed batches and batches of the expected size x.
func (s *sampling) drawingAlone(p *phase, x sampler.Extent) int64 {
	nodes := s.data.Facts().Nodes
	most := alone(nodes, s.most(p.fanout))
	if p.probed == nil {
		return most
	}
	looking := allotment{workers: 1, hash: true}.all(nodes, p.probed.extent(s.most(p.fanout)))
	return min(most, max(looking, alone(nodes, x)))
}

// probes is how many batches of a phase are looked at.
const probes = 8

// probed is the size of some batches of a phase.
type probed struct {
	sampler.Extent       // that covers them
	bytes          int64 // of the first one's byte form
	all            bool  // there are no others
}

// extent returns the size of the probed batches, with the fanout of most.
func (p *probed) extent(most sampler.Extent) sampler.Extent {
	x := p.Extent
	x.Widest = most.Widest
	return x
}

// expected returns the expected upper bound of the sizes of a phase's batches: twice the size of some
// batches at equal distances, which predict the others better than bounds do. If memory does not
// suffice to sample these, but does for any batch, it returns the upper bound of all batches.
func (s *sampling) expected(ctx context.Context, p *phase) (sampler.Extent, error) {
	most := s.most(p.fanout)
	some, err := s.probe(ctx, p)
	switch {
	case errors.Is(err, fault.ErrBudget) && alone(s.data.Facts().Nodes, most) <= s.room:
		return most, nil
	case err != nil:
		return sampler.Extent{}, err
	case some.all:
		return some.extent(most), nil
	}
	return twice(some.Extent, most), nil
}

// probe samples some batches of a phase, also ones that are written already, so that a resumed run
// expects the same sizes as the first run.
func (s *sampling) probe(ctx context.Context, p *phase) (*probed, error) {
	if p.probed != nil {
		return p.probed, nil
	}
	one, err := s.newDrawer(allotment{workers: 1, hash: true, share: s.room}, p)
	if err != nil {
		return nil, err
	}
	defer one.release() // its reads do not count as reads of the sampling
	n := p.hi - p.from
	some := &probed{all: n <= probes}
	for k := range min(n, probes) {
		i := p.from + k*n/min(n, probes)
		b, err := s.draw(ctx, one, i)
		if err != nil {
			return nil, err
		}
		s.seeds.Forget(i / s.seeds.Batches(sampler.Train))
		some.Extent = larger(some.Extent, sampler.ExtentOf(b))
		if k == 0 {
			var encoded mbfile.Encoded
			encoded.Encode(b)
			some.bytes = int64(len(encoded.Bytes))
		}
	}
	p.probed = some
	return some, nil
}

// checkFree refuses phases that the disk has no room for, before any batch is written. If even
// the largest possible batches would fit, it looks no further; else it assumes that every batch
// is as large as its phase's first.
func (s *sampling) checkFree(ctx context.Context, dir *stage.Dir, phases []phase) error {
	tables := s.layout.IndexBytes() + 4*s.layout.Nodes
	check := func(batch func(*phase) (int64, error)) error {
		need := float64(tables) // beyond 64 bits where bounds are far off
		for i := range phases {
			p := &phases[i]
			if p.lo >= p.hi {
				continue
			}
			bytes, err := batch(p)
			if err != nil {
				return err
			}
			need += float64(p.hi-p.lo) * float64(bytes)
		}
		return dir.CheckFree(int64(min(need, 1<<62)))
	}
	most := func(p *phase) (int64, error) {
		return slotBytes(s.most(p.fanout)), nil
	}
	if check(most) == nil {
		return nil
	}
	return check(func(p *phase) (int64, error) {
		first, err := s.probe(ctx, p)
		if err != nil {
			return 0, err
		}
		return first.bytes, nil
	})
}
