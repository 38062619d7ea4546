package presample

import (
	"context"

	"diskgnn/internal/stage"
	"diskgnn/presample/sampler"
)

// checkFree refuses phases that the disk has no room for, before any batch is
// written. Where the largest batches that there can be would fit, that is all it
// looks at; else it takes every batch for as large as its phase's first.
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
