package hyperion

import (
	"context"
	"errors"
	"iter"
	"slices"

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
	machine.Stateless

	policy residency.Policy // static; its Batch changes nothing
	filled bool
}

// Open takes the memory of the cache, and opens the features and the batches.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{levels: v, own: l.Own.(own)}
	s.Reads = v.reads(s.own)
	s.Decider = func(bool) machine.Decider { return s }
	if err := s.OpenFrames(v.Table, stack, s.frames); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close releases files and memory.
func (s *store) Close() error { return s.CloseFrames() }

// Decide implements machine.Decider, for training and evaluation.
func (s *store) Decide(_ context.Context, _ featurestore.Ref, nodes []uint32, held, into []int32) (featurestore.Counts, error) {
	s.policy.Batch(nodes, held, into)
	return featurestore.Counts{}, nil
}

// Fill reads the ranks, the checksums of the features' pages (which it makes if the file is missing), and
// the rows and lists to hold. They are the same for every batch, so later calls read nothing.
func (s *store) Fill(ctx context.Context, _ int, rep progress.Reporter) (read int64, err error) {
	if s.filled {
		return 0, nil
	}
	if err := s.ReadRanks(); err != nil {
		return 0, err
	}
	if read, err = s.hold(ctx, rep); err != nil {
		return 0, err
	}
	sums, err := s.ReadSums(ctx, rep)
	if err != nil {
		return 0, err
	}
	rows, err := s.fill(ctx, rep)
	s.filled = err == nil
	return read + sums + rows, err
}

// hold chooses the rows and lists to hold, and makes the source hold the lists. On each level, rows are in
// frames by ascending node.
func (s *store) hold(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	set, held, err := s.choose(s.own)
	if err != nil {
		return 0, err
	}
	set = set[:min(len(set), int(s.frames.All))]
	near, far := s.onLevels(set)
	slices.Sort(near)
	slices.Sort(far)
	s.policy = nil // for the memory
	s.policy, err = residency.New(residency.Static, residency.Config{Nodes: int(s.Facts.Nodes), Frames: int(s.frames.All), Set: set})
	if lists := s.lists(); err == nil && lists != nil {
		read, err = lists.HoldLists(ctx, held, rep)
	}
	return read, err
}

// onLevels cuts the nodes of all frames, by frame, into the nodes on the GPU and those in RAM.
func (s *store) onLevels(nodes []uint32) (near, far []uint32) {
	n := min(len(nodes), int(s.frames.Near))
	return nodes[:n], nodes[n:]
}

// fill reads the held rows into their frames, in the order of the file.
func (s *store) fill(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	nodes := s.policy.Rows()
	if len(nodes) == 0 {
		return 0, nil
	}
	task := rep.Task("read the cache's rows", int64(len(nodes)), progress.Rows)
	defer task.Done()
	near, far := s.onLevels(nodes)
	return s.Refill(ctx, s.fills(), pieces(near, far, task))
}

// pieces merges two ascending lists of nodes, with frames in their order, one list after the other. It yields
// pieces with up to fillNodes nodes, and adds them to a task once they are filled.
func pieces(near, far []uint32, task progress.Task) iter.Seq2[[]uint32, []int32] {
	return func(yield func([]uint32, []int32) bool) {
		nodes, frames := make([]uint32, 0, fillNodes), make([]int32, 0, fillNodes)
		i, j := 0, 0
		for i < len(near) || j < len(far) {
			nodes, frames = nodes[:0], frames[:0]
			for len(nodes) < fillNodes && (i < len(near) || j < len(far)) {
				if j == len(far) || i < len(near) && near[i] < far[j] {
					nodes, frames = append(nodes, near[i]), append(frames, int32(i))
					i++
				} else {
					nodes, frames = append(nodes, far[j]), append(frames, int32(len(near)+j))
					j++
				}
			}
			if !yield(nodes, frames) {
				return
			}
			task.Add(int64(len(nodes)))
		}
	}
}
