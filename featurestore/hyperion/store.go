package hyperion

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device/cuda"
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
	machine.Files
	machine.Stateless
	side side

	policy residency.Policy // static; its Batch changes nothing
	filled bool
}

func (s *store) open(stack iostack.Stack, on *cuda.Device) (err error) {
	if err = s.Files.Open(s.Table, stack, s.own.reads, on); err != nil {
		return err
	}
	if g, ok := s.side.(*gpu); ok {
		g.devices = s.Devices
	}
	return s.side.open()
}

func (s *store) View(int) featurestore.View { return s }

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

// hold chooses the rows and lists to hold, and makes the source hold the lists.
func (s *store) hold(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	set, held, err := s.choose(s.own)
	if err != nil {
		return 0, err
	}
	set = set[:min(len(set), int(s.rows))] // the number of frames
	s.policy = nil                         // for the memory
	s.policy, err = residency.New(residency.Static, residency.Config{Nodes: int(s.Facts.Nodes), Frames: int(s.rows), Set: set})
	if lists := s.lists(); err == nil && lists != nil {
		read, err = lists.HoldLists(ctx, held, rep)
	}
	return read, err
}

// fill reads the held rows into their frames, in the order of the file.
func (s *store) fill(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	n := len(s.policy.Rows())
	if n == 0 {
		return 0, nil
	}
	task := rep.Task("read the cache's rows", int64(n), progress.Rows)
	defer task.Done()
	to, err := s.side.filling()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.end()) }()
	var counts featurestore.Counts
	r, err := newReader(s.levels, &s.Files, fillRequests, joined{}, &counts)
	if err != nil {
		return 0, err
	}
	defer r.staging.Free()
	f := &frames{to, make([]uint32, fillNodes), make([]int32, fillNodes), make([]int32, fillNodes)}
	for v := int64(0); v < s.Facts.Nodes; v += fillNodes {
		nodes := f.of(s.policy, uint32(v), min(fillNodes, s.Facts.Nodes-v))
		err := r.start(nodes, f)
		if err == nil {
			err = r.Finish(ctx)
		}
		if err != nil {
			r.Drop()
			return 0, fmt.Errorf("fill the cache: %w", err)
		}
		task.Add(int64(len(nodes)))
	}
	return counts.BytesRead, nil
}

// frames is a sink that passes rows to the frames of a piece of the nodes.
type frames struct {
	filling
	nodes      []uint32
	held, into []int32
}

// of returns the nodes with held rows among n nodes from first on.
func (f *frames) of(p residency.Policy, first uint32, n int64) []uint32 {
	nodes := f.nodes[:n]
	for i := range nodes {
		nodes[i] = first + uint32(i)
	}
	p.Batch(nodes, f.held, f.into)
	k := 0
	for i, frame := range f.held[:n] {
		if frame != residency.Absent {
			nodes[k], f.held[k] = nodes[i], frame
			k++
		}
	}
	return nodes[:k]
}

func (f *frames) put(k int, row []byte) error { return f.filling.put(f.held[k], row) }

// Close releases files and memory.
func (s *store) Close() error {
	err := s.Files.Close()
	s.side.close()
	return err
}

// Open takes the memory of the cache, and opens the features and the batches.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{levels: v, own: l.Own.(own), side: v.side(&l)}
	if err := s.open(stack, l.GPU); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
