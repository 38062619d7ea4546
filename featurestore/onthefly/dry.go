package onthefly

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

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

// dryPass draws batches and counts their sizes and nodes.
func (s *Source) dryPass(ctx context.Context, rep progress.Reporter) (err error) {
	began := time.Now()
	s.hotness = make([]uint32, s.facts.Nodes)
	if s.options.counts() {
		s.draws = make([]uint32, s.facts.Nodes)
	}
	evals := s.facts.Valid + s.facts.Test
	task := rep.Task("dry pass", int64(s.dry+evals), progress.Batches)
	defer task.Done()
	train := phase{n: s.dry, fanout: s.options.Fanout, id: s.seeds.Nth, hotness: s.hotness, draws: s.draws, task: task}
	eval := phase{n: evals, fanout: s.options.EvalFanout, id: func(i int) sampler.ID { return s.seeds.Nth(s.facts.Train + i) }, task: task}
	if s.train, err = s.drawAll(ctx, &train); err != nil {
		return err
	}
	if s.eval, err = s.drawAll(ctx, &eval); err != nil {
		return err
	}
	s.size()
	seconds := time.Since(began).Seconds()
	rep.Logf("dry pass: drew %s of %s training batches and %s for evaluation in %s, %s edges/s; buffers are sized for these batches",
		units.Count(s.dry), units.Count(s.facts.Train), units.Count(evals), units.Seconds(seconds), units.Count(int64(float64(s.train.edges()+s.eval.edges())/max(seconds, 1e-9))))
	return nil
}

// size derives maxima and means from the drawn batches.
func (s *Source) size() {
	f := &s.facts
	f.TrainSizes, f.TrainMeans, f.EvalSizes = s.train.most, s.train.mean(), s.eval.most
	if s.dry < f.Train {
		f.TrainSizes = s.roomier(f.TrainSizes, f.TrainMeans)
	}
}

// roomier returns sizes for batches that were not drawn: the largest drawn batch plus its distance from the
// mean, but no larger than a batch can be.
func (s *Source) roomier(most, mean graph.Sizes) graph.Sizes {
	edges := s.data.Facts().Edges
	layers := len(most.Src)
	w := graph.Sizes{Src: make([]int, layers), Dst: make([]int, layers), Edges: make([]int, layers)}
	dst := most.Dst[layers-1] // the seed nodes of every batch except an epoch's last
	for l := layers - 1; l >= 0; l-- {
		possible := edges
		if f := s.options.Fanout[l]; f != mbfile.AllNeighbours {
			possible = min(possible, int64(dst)*int64(f))
		}
		w.Dst[l] = dst
		w.Edges[l] = int(min(int64(2*most.Edges[l]-mean.Edges[l]), possible))
		w.Src[l] = int(min(int64(2*most.Src[l]-mean.Src[l]), s.facts.Nodes, int64(dst)+int64(w.Edges[l])))
		dst = w.Src[l]
	}
	return w
}

// countDraws counts the destinations of every block of a batch, which are the first of its input nodes.
func countDraws(draws []uint32, b *graph.Batch) {
	for l := range b.Blocks {
		for _, v := range b.Input[:b.Blocks[l].NumDst] {
			atomic.AddUint32(&draws[v], 1)
		}
	}
}
