package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// errTooLarge is the error of a batch that needs more than its worker's share of memory.
var errTooLarge = errors.New("a batch is too large")

// phase is the batches of one fanout that the dry pass draws.
type phase struct {
	n       int
	fanout  []int
	id      func(i int) sampler.ID
	hotness []uint32 // counts of input nodes, or nil
	draws   []uint32 // counts of draws, or nil
	task    progress.Task
}

// drawAll draws the batches of a phase. Batches that need more than a worker's share of memory are drawn
// again by half the workers, with twice the share.
func (s *Source) drawAll(ctx context.Context, p *phase) (sum tally, err error) {
	if p.n == 0 {
		return sum, nil
	}
	workers, free := min(s.options.Workers, p.n), s.free()
	left, err := s.drawOn(ctx, p, nil, workers, free/int64(workers), &sum)
	for err == nil && len(left) > 0 {
		if workers == 1 {
			return sum, s.overBudget(left[0], p)
		}
		workers = min(workers/2, len(left))
		left, err = s.drawOn(ctx, p, left, workers, free/int64(workers), &sum)
	}
	return sum, err
}

// free returns the memory left for drawing, in bytes.
func (s *Source) free() int64 {
	return s.options.Memory - budget.Reserve - s.TableBytes() - s.chosen
}

// overBudget returns the error of a batch that needs more than all memory left.
func (s *Source) overBudget(i int, p *phase) error {
	return s.Refused(fault.New(fault.ErrBudget, "%s needs more memory than the %s that --memory %s leaves for it: give more, sample fewer neighbours (--fanout %s), or make batches smaller (--batch-size)",
		label(p.id(i)), budget.FormatBytes(max(s.free(), 0)), budget.FormatBytes(s.options.Memory), sampler.FormatFanout(p.fanout)))
}

// drawOn draws the listed batches of a phase, or all if list is nil, on the given number of workers. It adds
// the batches that need at most share bytes to sum, and returns the others.
func (s *Source) drawOn(ctx context.Context, p *phase, list []int, workers int, share int64, sum *tally) (left []int, err error) {
	n := len(list)
	if list == nil {
		n = p.n
	}
	var next atomic.Int64
	var mu sync.Mutex // of sum and left
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error {
			hash := s.facts.Nodes > sampler.MaxArrayNodes || sampler.ArrayMemory(s.facts.Nodes) > share/2
			by, err := s.newDrawer(p.fanout, hash, share)
			if err != nil {
				return err
			}
			defer by.from.Free()
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if list != nil {
					i = list[i]
				}
				id := p.id(i)
				if id.Split == sampler.Train {
					s.forget(id.Epoch, s.options.Workers)
				}
				b, err := s.draw(ctx, by, id)
				large := errors.Is(err, errTooLarge)
				if err != nil && !large {
					return err
				}
				mu.Lock()
				if large {
					left = append(left, i)
				} else {
					sum.add(b)
				}
				mu.Unlock()
				if !large {
					p.count(b)
				}
			}
		})
	}
	err = g.Wait()
	slices.Sort(left)
	return left, err
}

// forget releases the visiting orders of epochs that no batch needs any more when a batch of the given epoch
// begins, with underWay batches in flight.
func (s *Source) forget(epoch, underWay int) {
	per := s.facts.BatchesPerEpoch
	s.seeds.Forget(epoch - (underWay+per-2)/per)
}

// count adds the input nodes and the draws of a batch to the phase's counts.
func (p *phase) count(b *graph.Batch) {
	if p.hotness != nil {
		for _, v := range b.Input {
			atomic.AddUint32(&p.hotness[v], 1)
		}
	}
	if p.draws != nil {
		countDraws(p.draws, b)
	}
	p.task.Add(1)
}

// drawer is a sampler with its reader. Free it after use.
type drawer struct {
	*sampler.Sampler
	from topology.Reader
}

// newDrawer returns a drawer with errTooLarge for batches that need more than limit bytes.
func (s *Source) newDrawer(fanout []int, hash bool, limit int64) (drawer, error) {
	from, err := s.topology.NewReader()
	if err != nil {
		return drawer{}, err
	}
	return drawer{sampler.NewFrom(from, fanout, sampler.Options{Hash: hash, Check: func(x sampler.Extent, table int64) error {
		if s.drawBytes(x, fanout)+table > limit {
			return errTooLarge
		}
		return nil
	}}), from}, nil
}

// drawBytes returns the memory of a drawer for a batch, without its table, in bytes.
func (s *Source) drawBytes(x sampler.Extent, fanout []int) int64 {
	n := x.Memory() + s.topology.ReaderBytes()
	if s.options.Method == mbfile.Labor {
		n += sampler.LaborMemory(fanout)
	}
	return n
}

// draw draws a batch, into the drawer's memory.
func (s *Source) draw(ctx context.Context, by drawer, id sampler.ID) (b *graph.Batch, err error) {
	err = s.topology.Guard(func() error {
		b, err = by.Draw(ctx, s.seeds, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", label(id), err)
	}
	return b, nil
}

// label returns the name of a batch for errors.
func label(id sampler.ID) string {
	switch id.Split {
	case sampler.Valid:
		return fmt.Sprintf("validation batch %d", id.Index)
	case sampler.Test:
		return fmt.Sprintf("test batch %d", id.Index)
	}
	return fmt.Sprintf("batch %d of epoch %d", id.Index, id.Epoch)
}

// Grow draws a training batch that exceeds the maxima, and raises them. Close everything that was opened with
// the earlier maxima first.
func (s *Source) Grow(ctx context.Context, r featurestore.Ref) error {
	one := phase{n: 1, fanout: s.options.Fanout, id: func(int) sampler.ID { return s.id(r) }, task: progress.Discard.Task("", 0, "")}
	sum, err := s.drawAll(ctx, &one)
	if err != nil {
		return err
	}
	s.train.most.Merge(sum.most) // the means stay: the order of layers follows from them
	s.size()
	return nil
}
