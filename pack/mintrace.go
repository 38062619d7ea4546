package pack

import (
	"context"
	"errors"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/ordered"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// Scratch files of the policy min.
const (
	minNodesFile = "min-nodes.tmp"
	minNextFile  = "min-next.tmp"
	minCodesFile = "min-codes.tmp"
)

// minTrace is the training batches' use of nodes, on disk: of every batch the nodes,
// ascending, and how many batches it is from there to each one's next use on the
// circle of batches, which is all of them for a node that one batch alone uses.
type minTrace struct {
	batches     int
	start       []int64 // first access of every batch
	nodes, next *batchLists
}

// minSlot holds what one batch needs on its way through a pass over the trace.
type minSlot struct {
	raw                []byte
	nodes, next, codes []uint32
	order, orderTmp    []uint32
	key, keyTmp        []uint64
}

// minSlotBytes bounds a slot's bytes for batches of the samples.
func minSlotBytes(s mbfile.Facts) int64 {
	if len(s.Train.Max.Src) == 0 {
		return 0
	}
	batch := int64(0) // Inputs reads a batch's bytes whole
	for l := range s.Train.Max.Src {
		batch += 4*int64(s.Train.Max.Edges[l]) + 8*int64(s.Train.Max.Dst[l])
	}
	return batch + 44*int64(s.Train.Max.Src[0])
}

// buildTrace writes the trace of the samples into dir. last has an entry per node,
// which is overwritten.
func buildTrace(ctx context.Context, fsys vfs.FS, dir string, samples *mbfile.Reader, last []uint32, slots []*minSlot) (_ *minTrace, err error) {
	batches := samples.Facts().TrainBatches
	t := &minTrace{batches: batches, start: make([]int64, batches+1)}
	for i := range batches {
		t.start[i+1] = t.start[i] + int64(inputs(samples, i))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.remove())
		}
	}()
	if t.nodes, err = newBatchLists(fsys, filepath.Join(dir, minNodesFile), t.start); err != nil {
		return nil, err
	}
	if t.next, err = newBatchLists(fsys, filepath.Join(dir, minNextFile), t.start); err != nil {
		return nil, err
	}
	// Forwards: the nodes of every batch, and every node's first use.
	fill(last, noSlot)
	err = ordered.Run(ctx, batches, slots, func(ctx context.Context, s *minSlot, i int) (err error) {
		var nodes []uint32
		if nodes, s.raw, err = samples.Inputs(ctx, i, s.raw); err != nil {
			return err
		}
		s.sort(nodes)
		return t.nodes.write(i, s.nodes)
	}, func(s *minSlot, i int) error {
		for _, v := range s.nodes {
			if last[v] == noSlot {
				last[v] = uint32(batches + i)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Backwards: how far every use is from the one after it.
	return t, ordered.Run(ctx, batches, slots, func(ctx context.Context, s *minSlot, i int) (err error) {
		s.nodes, err = t.nodes.read(batches-1-i, s.nodes)
		return err
	}, func(s *minSlot, i int) error {
		i = batches - 1 - i
		s.next = binio.Grow(s.next, len(s.nodes))
		for k, v := range s.nodes {
			s.next[k], last[v] = last[v]-uint32(i), uint32(i)
		}
		return t.next.write(i, s.next)
	})
}

// sort leaves nodes, ascending, in s.nodes.
func (s *minSlot) sort(nodes []uint32) {
	s.grow(len(nodes))
	for i, v := range nodes {
		s.key[i] = uint64(v)
	}
	radixSort(s.key, s.keyTmp, s.order, s.orderTmp)
	s.nodes = binio.Grow(s.nodes, len(nodes))
	for i, k := range s.key {
		s.nodes[i] = uint32(k)
	}
}

func (s *minSlot) grow(n int) {
	s.key, s.keyTmp = binio.Grow(s.key, n), binio.Grow(s.keyTmp, n)
	s.order, s.orderTmp = binio.Grow(s.order, n), binio.Grow(s.orderTmp, n)
}

// each calls do for every batch in order, with its nodes, their next uses, and the
// order of the latter.
func (t *minTrace) each(ctx context.Context, slots []*minSlot, do func(s *minSlot, i int) error) error {
	return ordered.Run(ctx, t.batches, slots, func(ctx context.Context, s *minSlot, i int) (err error) {
		if s.nodes, err = t.nodes.read(i, s.nodes); err != nil {
			return err
		}
		if s.next, err = t.next.read(i, s.next); err != nil {
			return err
		}
		s.grow(len(s.nodes))
		for k, d := range s.next {
			s.key[k], s.order[k] = uint64(d), uint32(k)
		}
		radixSort(s.key, s.keyTmp, s.order, s.orderTmp)
		s.codes = binio.Grow(s.codes, len(s.nodes))
		return nil
	}, do)
}

// remove gives the scratch files up; nil is ignored.
func (t *minTrace) remove() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.nodes.remove(), t.next.remove())
}

// inputs returns the number of input nodes of a batch of the samples.
func inputs(samples *mbfile.Reader, i int) int {
	info := samples.Info(i)
	return info.InputNodes()
}
