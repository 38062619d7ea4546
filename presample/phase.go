package presample

import (
	"context"

	"diskgnn/internal/stage"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// phase is a range of batches with one fanout.
type phase struct {
	lo, hi int
	fanout []int
	allotment
	first *probed // its first batch, if it had to be looked at
}

// allot fits the training batches, then the evaluation batches, into memory.
func (s *sampling) allot(ctx context.Context) ([]phase, error) {
	phases := []phase{
		{lo: 0, hi: s.layout.Train, fanout: s.params.Fanout},
		{lo: s.layout.Train, hi: s.layout.Batches(), fanout: s.params.EvalFanout},
	}
	for i := range phases {
		p := &phases[i]
		p.lo, p.hi = max(p.lo, s.next()), min(p.hi, s.hi)
	}
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
			s.rep.Logf("--memory allows %d of %d workers at fanout %v", p.workers, s.o.Workers, p.fanout)
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

// fit plans a phase by what no batch exceeds. Where that leaves workers without memory, it plans
// by twice the phase's first batch: bounds by fanout, or by the whole graph, may be much larger
// than any batch.
func (s *sampling) fit(ctx context.Context, p *phase) error {
	f := s.data.Facts()
	most := sampler.Bound(f.Nodes, f.Edges, s.o.BatchSize, p.fanout)
	p.allotment = divide(s.o.Workers, s.room, f.Nodes, most)
	if p.workers == s.o.Workers {
		return nil
	}
	first, err := s.probe(ctx, p)
	if err != nil {
		return err
	}
	p.allotment = divide(s.o.Workers, s.room, f.Nodes, twice(first.Extent, most))
	return nil
}

// probed is the size of one batch.
type probed struct {
	sampler.Extent
	bytes int64 // of its byte form
}

// probe samples a phase's first batch: it predicts the others better than bounds do.
func (s *sampling) probe(ctx context.Context, p *phase) (*probed, error) {
	if p.first != nil {
		return p.first, nil
	}
	one, err := s.newDrawer(allotment{workers: 1, hash: true, share: s.room}, p.fanout)
	if err != nil {
		return nil, err
	}
	defer one.from.Free() // no batch of the samples: what it reads does not count
	b, err := s.draw(ctx, one, p.lo)
	if err != nil {
		return nil, err
	}
	var encoded mbfile.Encoded
	encoded.Encode(b)
	p.first = &probed{sampler.ExtentOf(b), int64(len(encoded.Bytes))}
	return p.first, nil
}

// checkFree refuses phases that the disk has no room for, before any batch is written. If even
// the largest possible batches would fit, it looks no further; else it assumes that every batch
// is as large as its phase's first.
func (s *sampling) checkFree(ctx context.Context, dir *stage.Dir, phases []phase) error {
	f := s.data.Facts()
	tables := s.layout.IndexBytes() + 4*f.Nodes
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
		return slotBytes(sampler.Bound(f.Nodes, f.Edges, s.o.BatchSize, p.fanout)), nil
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
