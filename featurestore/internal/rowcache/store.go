package rowcache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// store is the store and its one view.
type store struct {
	*levels
	own
	machine.FrameStore

	course course
	empty  []byte // the policy's state of an empty cache
	order  machine.Order
}

func (s *store) open(o own, stack iostack.Stack) (err error) {
	s.own = o
	s.order = machine.Order{Train: s.Facts.Train, What: "the cache is"}
	s.In, s.Reads, s.Decider = &s.order, s.reads(), s.decider
	if err = s.OpenFrames(s.Table, stack, o.frames); err != nil {
		return err
	}
	return s.decideBy(o)
}

// decider returns the decider of a slot: for evaluation, all rows are read.
func (s *store) decider(eval bool) machine.Decider {
	if eval {
		return machine.NoFrames{}
	}
	s.course.add(1)
	return newTurn(&s.course)
}

func (s *store) decideBy(o own) (err error) {
	s.course.states = newStates(s.Facts.Train)
	if o.grid.parts > 0 {
		r, err := newRecorder(o.grid, s.Facts.Nodes, o.frames.All, s.Facts.Inputs(false), s.Loaders)
		if err != nil {
			return err
		}
		s.course.records, s.course.policy = r, r.policy
		return nil
	}
	if s.course.policy, err = residency.New(o.policy, residency.Config{Nodes: int(s.Facts.Nodes), Frames: int(o.frames.All)}); err != nil {
		return err
	}
	s.course.begin(0, 0)
	s.empty = s.course.policy.State()
	return nil
}

// State returns the result of course.save, valid until the next call, or nil if the cache follows from the
// position alone.
func (s *store) State() ([]byte, error) {
	if s.course.records != nil {
		return nil, nil
	}
	return s.course.save(s.kind()), nil
}

// LoadState restores a result of State for the same policy and a cache of the same size. For another
// policy or size it returns nil, and the cache begins empty.
func (s *store) LoadState(b []byte) error {
	if s.course.records != nil {
		return nil
	}
	s.course.states.Forget()
	kind := s.kind()
	rest, ok := bytes.CutPrefix(b, kind[:])
	if !ok {
		return nil
	}
	if err := s.course.load(rest); err != nil {
		return fmt.Errorf("state of the store %s: %w", s.design.Name, err)
	}
	return nil
}

func (s *store) kind() (b [kindBytes]byte) {
	binary.LittleEndian.PutUint64(b[:], uint64(s.own.frames.All))
	copy(b[8:], s.policy)
	return b
}

// Fill reads the ranks, the checksums of the features' pages (which it makes if the file is missing), the
// input nodes for a recorder, and the rows that the cache holds before the given batch: none at the
// beginning of a run. It returns the bytes read, without the input nodes for decisions that are repeated
// from a state.
func (s *store) Fill(ctx context.Context, next int, rep progress.Reporter) (read int64, err error) {
	if err := s.Cache.Settle(); err != nil {
		return 0, err
	}
	if err := s.ReadRanks(); err != nil {
		return 0, err
	}
	if read, err = s.ReadSums(ctx, rep); err != nil {
		return 0, err
	}
	n, err := s.repeat(ctx, next, rep)
	if err != nil {
		return 0, err
	}
	rows, err := s.refill(ctx, rep)
	s.order.Next = next
	return read + n + rows, err
}

// repeat restores the policy to its state before the given batch: it starts from a saved state, and decides
// again for the batches since. It returns the bytes that a recorder read.
func (s *store) repeat(ctx context.Context, next int, rep progress.Reporter) (read int64, err error) {
	c := &s.course
	if c.records != nil {
		if read, err = c.records.seek(ctx, next, rep); err != nil {
			return 0, err
		}
		c.begin(next, 0)
		return read, nil
	}
	n := c.states.Behind(next)
	if n < 0 {
		rep.Logf("the cache begins empty: no saved state fits a cache of %d rows with policy %s at this batch", s.own.frames.All, s.policy)
		c.states.Begin(append(c.states.New(0), s.empty...), next, 0)
		n = 0
	}
	base, at := c.states.Base()
	if err := c.policy.LoadState(base); err != nil {
		return 0, err
	}
	c.next = at
	if n > 0 {
		task := rep.Task("repeat the decisions of the cache", int64(n), progress.Batches)
		defer task.Done()
		most := s.Facts.Inputs(false)
		held, into := make([]int32, most), make([]int32, most)
		var buf []byte
		for range n {
			nodes, again, err := s.Source.Inputs(ctx, featurestore.Ref{Index: c.next}, buf)
			if buf = again; err != nil {
				return 0, fmt.Errorf("repeat the decisions of the cache: %w", err)
			}
			c.step(nodes, held, into)
			task.Add(1)
		}
	}
	c.begin(next, 0)
	return 0, nil
}

// refill reads the rows that the policy holds into their frames.
func (s *store) refill(ctx context.Context, rep progress.Reporter) (int64, error) {
	nodes := s.course.policy.Rows()
	if len(nodes) == 0 {
		return 0, nil
	}
	task := rep.Task("read the cache's rows", int64(len(nodes)), progress.Rows)
	defer task.Done()
	read, err := s.Refill(ctx, s.Reads, func(yield func([]uint32, []int32) bool) { yield(nodes, nil) })
	task.Add(int64(len(nodes)))
	return read, err
}

// Close releases files and memory.
func (s *store) Close() error {
	if s.course.records != nil {
		s.course.records.free()
	}
	return s.CloseFrames()
}

// Open takes the memory of the cache, and opens the features and the batches.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{levels: v}
	if err := s.open(l.Own.(own), stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
