package collective

import (
	"encoding/binary"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Reduction makes a step of the ranks' gradients. Its methods belong to the goroutine that
// computes.
//
//	Engine.Backward ─► Add, of every batch of the rank, in order ─► Step, of every rank
type Reduction interface {
	// Add adds the contribution of the engine's latest batch to the step. labelled is its number of
	// labelled seed nodes.
	Add(e engine.Engine, labelled int) error
	// Step takes the step along the gradients of all ranks' batches, by ascending rank, and returns
	// the union of all ranks' signals. A rank may have no batch in it. The engine is nil where
	// nothing is computed.
	Step(e engine.Engine, ask Signals) (Signals, error)
}

// Alone is the reduction of a run with one replica, with all batches in its engine.
type Alone struct{}

// Add does nothing.
func (Alone) Add(engine.Engine, int) error { return nil }

// Step takes the engine's step.
func (Alone) Step(e engine.Engine, ask Signals) (Signals, error) {
	if e == nil {
		return ask, nil
	}
	return ask, e.Apply()
}

// Ordered sums on the host of rank 0, batch after batch, in the order of the run: the bits of a
// step do not depend on the number of ranks that share its batches. It needs engines with
// engine.Config.Apart.
type Ordered struct {
	group *Group
	mine  []float32              // this rank's contribution
	head  [contributionHead]byte // of a frame: number, labelled seed nodes, four bytes that stay 0
}

// NewOrdered prepares the group for steps of at most batches batches of the model with the layout l;
// a rank other than 0 computes at most each of them. It allocates all memory of the reduction. Rank
// 0 must call it before another rank calls Add.
func NewOrdered(g *Group, l *model.Layout, batches, each int) *Ordered {
	o := &Ordered{group: g, mine: make([]float32, l.Count())}
	g.prepare(&step{elements: l.Count(), trained: l.Trained, batches: batches, sum: engine.NewSum(device.NewArena(), l, batches)}, each)
	return o
}

// OrderedBytes returns the memory of an Ordered reduction in bytes; rank 0 has the largest.
func OrderedBytes(l *model.Layout, batches, each, rank, world int) int64 {
	n := int64(l.Count()) + int64(l.Trained) + int64(batches)*int64(l.Count()-l.Trained)
	if rank == 0 {
		n += int64(world-1) * int64(each) * int64(l.Count())
	}
	return 4 * n
}

// Add implements Reduction. Rank 0 sums, the others send.
func (o *Ordered) Add(e engine.Engine, labelled int) error {
	if e == nil {
		return nil
	}
	if err := e.Contribution(o.mine); err != nil {
		return err
	}
	g := o.group
	s := g.step.Load()
	if g.rank == 0 {
		s.add(o.mine, labelled)
		return nil
	}
	binary.LittleEndian.PutUint64(o.head[:], g.number)
	binary.LittleEndian.PutUint32(o.head[8:], uint32(labelled))
	return g.send(g.peers[0], contribution, o.head[:], binio.Bytes(o.mine))
}

// Step implements Reduction.
func (o *Ordered) Step(e engine.Engine, asked Signals) (Signals, error) {
	g := o.group
	s := g.step.Load()
	if g.rank != 0 {
		all, err := g.agree(agreement{Signals: asked})
		if err != nil {
			return 0, err
		}
		return all.Signals, o.apply(e, s)
	}
	defer g.stepped()
	for _, p := range g.peers {
		for ended := false; !ended; {
			m, err := g.receive(p, ask, true)
			if err != nil {
				return 0, err
			}
			if ended = m.kind == ask; ended {
				asked |= m.signals
				continue
			}
			if s.sum.Batches == s.batches {
				return 0, g.lose(g.lost(p, "it sent more batches than the step has"))
			}
			s.add(m.floats, int(m.labelled))
			p.free <- m.floats
		}
	}
	all := agreement{asked, s.sum.Labelled, s.sum.Batches}
	if err := g.toAll(sum, all.encode(g.number), binio.Bytes(s.sum.Gradients), binio.Bytes(s.sum.Statistics)); err != nil {
		return 0, err
	}
	g.number++
	return asked, o.apply(e, s)
}

// apply takes the step, and begins the next.
func (o *Ordered) apply(e engine.Engine, s *step) error {
	defer s.sum.Reset()
	if e == nil {
		return nil
	}
	return e.ApplySum(s.sum)
}

// agree combines the ranks' numbers and signals of a step with gradients that travel another way.
// Call prepareAgreement before.
func (g *Group) agree(mine agreement) (all agreement, err error) {
	defer g.stepped()
	if g.rank != 0 {
		if err := g.send(g.peers[0], ask, mine.encode(g.number)); err != nil {
			return all, err
		}
		m, err := g.receive(g.peers[0], sum, true)
		g.number++
		return agreement{m.signals, m.labelled, m.batches}, err
	}
	all = mine
	for _, p := range g.peers {
		m, err := g.receive(p, ask, true)
		if err != nil {
			return all, err
		}
		all.Signals, all.Labelled, all.Batches = all.Signals|m.signals, all.Labelled+m.labelled, all.Batches+m.batches
	}
	err = g.toAll(sum, all.encode(g.number))
	g.number++
	return all, err
}

// prepareAgreement prepares the group for agree, for steps of at most batches batches.
func (g *Group) prepareAgreement(batches int) {
	g.prepare(&step{batches: batches, sum: new(engine.Sum)}, 0)
}
