package cut

import (
	"context"
	"errors"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/presample/mbfile"
)

// Scratch files of the trace.
const (
	traceNodesFile = "min-nodes.tmp"
	traceNextFile  = "min-next.tmp"
)

// trace is the training batches' use of nodes, on disk: of every batch its input nodes,
// ascending, and for each of them the number of batches until its next use, where the first
// batch follows the last. For a node that one batch alone uses that is the number of all
// batches.
type trace struct {
	batches     int
	start       []int64 // first access of every batch
	nodes, next *rowfile.Lists
}

// traceSlot is the memory that one batch travels in through a pass over the trace.
type traceSlot struct {
	raw                []byte
	nodes, next, codes []uint32
	order, orderTmp    []uint32
	key, keyTmp        []uint64
}

// traceSlotBytes bounds a slot's bytes for batches of the samples.
func traceSlotBytes(s mbfile.Facts) int64 {
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
func buildTrace(ctx context.Context, fsys vfs.FS, dir string, samples *mbfile.Reader, last []uint32, slots []*traceSlot) (_ *trace, err error) {
	batches := samples.Facts().TrainBatches
	t := &trace{batches: batches, start: Starts(samples)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.remove())
		}
	}()
	if t.nodes, err = rowfile.NewLists(fsys, filepath.Join(dir, traceNodesFile), t.start); err != nil {
		return nil, err
	}
	if t.next, err = rowfile.NewLists(fsys, filepath.Join(dir, traceNextFile), t.start); err != nil {
		return nil, err
	}
	// Forwards: the nodes of every batch, and every node's first use.
	empty(last)
	err = errgroup.Ordered(ctx, batches, slots, func(ctx context.Context, s *traceSlot, i int) (err error) {
		var nodes []uint32
		if nodes, s.raw, err = samples.Inputs(ctx, i, s.raw); err != nil {
			return err
		}
		s.sort(nodes)
		for k := 1; k < len(s.nodes); k++ {
			if s.nodes[k] == s.nodes[k-1] {
				return fault.New(fault.ErrCorrupt, "training batch %d of the samples has the input node %d twice", i, s.nodes[k])
			}
		}
		return t.nodes.Write(i, s.nodes)
	}, func(s *traceSlot, i int) error {
		for _, v := range s.nodes {
			if last[v] == NoEntry {
				last[v] = uint32(batches + i)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Backwards: the distance of every use to the next use.
	return t, errgroup.Ordered(ctx, batches, slots, func(ctx context.Context, s *traceSlot, i int) (err error) {
		s.nodes, err = t.nodes.Read(batches-1-i, s.nodes)
		return err
	}, func(s *traceSlot, i int) error {
		i = batches - 1 - i
		s.next = binio.Grow(s.next, len(s.nodes))
		for k, v := range s.nodes {
			s.next[k], last[v] = last[v]-uint32(i), uint32(i)
		}
		return t.next.Write(i, s.next)
	})
}

// sort leaves nodes, ascending, in s.nodes.
func (s *traceSlot) sort(nodes []uint32) {
	s.grow(len(nodes))
	for i, v := range nodes {
		s.key[i] = uint64(v)
	}
	SortPairs(s.key, s.keyTmp, s.order, s.orderTmp)
	s.nodes = binio.Grow(s.nodes, len(nodes))
	for i, k := range s.key {
		s.nodes[i] = uint32(k)
	}
}

func (s *traceSlot) grow(n int) {
	s.key, s.keyTmp = binio.Grow(s.key, n), binio.Grow(s.keyTmp, n)
	s.order, s.orderTmp = binio.Grow(s.order, n), binio.Grow(s.orderTmp, n)
}

// each calls do for every batch in order, with its nodes, their next uses, and the
// order of the latter.
func (t *trace) each(ctx context.Context, slots []*traceSlot, do func(s *traceSlot, i int) error) error {
	return errgroup.Ordered(ctx, t.batches, slots, func(ctx context.Context, s *traceSlot, i int) (err error) {
		if s.nodes, err = t.nodes.Read(i, s.nodes); err != nil {
			return err
		}
		if s.next, err = t.next.Read(i, s.next); err != nil {
			return err
		}
		s.grow(len(s.nodes))
		for k, d := range s.next {
			s.key[k], s.order[k] = uint64(d), uint32(k)
		}
		SortPairs(s.key, s.keyTmp, s.order, s.orderTmp)
		s.codes = binio.Grow(s.codes, len(s.nodes))
		return nil
	}, do)
}

// remove removes the scratch files. On a nil trace it does nothing.
func (t *trace) remove() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.nodes.Remove(), t.next.Remove())
}

// Starts returns, for every training batch and for the end, the number of input nodes of all training
// batches before it: one more element than there are batches.
func Starts(samples *mbfile.Reader) []int64 {
	start := make([]int64, samples.Facts().TrainBatches+1)
	for i := range start[1:] {
		info := samples.Info(i)
		start[i+1] = start[i] + int64(info.InputNodes())
	}
	return start
}

func newTraceSlots(n int) []*traceSlot {
	slots := make([]*traceSlot, n)
	for i := range slots {
		slots[i] = new(traceSlot)
	}
	return slots
}

// SortPairs sorts key ascending, and moves val[i] with key[i]. Equal keys keep their order. keyTmp and
// valTmp are scratch of the same length. Keys are below 2⁴⁰. It is a radix sort, which skips the bytes that
// all keys share.
func SortPairs(key, keyTmp []uint64, val, valTmp []uint32) {
	n := len(key)
	src, dst, sv, dv := key, keyTmp[:n], val[:n], valTmp[:n]
	for shift := 0; shift < 40; shift += 8 {
		var at [256]int
		for _, k := range src {
			at[byte(k>>shift)]++
		}
		if n == 0 || at[byte(src[0]>>shift)] == n {
			continue
		}
		sum := 0
		for i, c := range at {
			at[i], sum = sum, sum+c
		}
		for i, k := range src {
			p := &at[byte(k>>shift)]
			dst[*p], dv[*p] = k, sv[i]
			*p++
		}
		src, dst, sv, dv = dst, src, dv, sv
	}
	if n > 0 && &src[0] != &key[0] {
		copy(key, src)
		copy(val, sv)
	}
}

// SortKeys sorts key ascending by the bits from ≤ b < to, at most 44. Keys that are equal in these bits keep their order.
// tmp is scratch of at least the same length. It is a radix sort that counts the digits of all its passes at once.
func SortKeys(key, tmp []uint64, from, to int) {
	const most = 11 // bits of a digit: the counts of one fit the nearest cache
	digits := (to - from + most - 1) / most
	if digits == 0 {
		return
	}
	width := (to - from + digits - 1) / digits
	mask, all := uint64(1)<<width-1, uint64(1)<<(to-from)-1 // the last digit may be narrower
	var counts [4][1 << most]uint32
	for _, k := range key {
		k = k >> from & all
		for d := range digits {
			counts[d][k&mask]++
			k >>= width
		}
	}
	src, dst := key, tmp[:len(key)]
	for d := range digits {
		at, sum := &counts[d], uint32(0)
		for i, c := range at[:mask+1] {
			at[i], sum = sum, sum+c
		}
		shift, mask := from+d*width, mask&(all>>(d*width))
		for _, k := range src {
			p := &at[k>>shift&mask]
			dst[*p] = k
			*p++
		}
		src, dst = dst, src
	}
	if digits%2 == 1 {
		copy(key, src)
	}
}

// Rank returns the rank of every node by descending hotness, ties by ascending node, and the number of
// nodes with a hotness above 0: nodes that training batches touch. hotness is indexed by node. See mbfile.Ranks, also
// for classes.
func Rank(hotness []uint32) (rank, classes []uint32, touched int64) {
	rank = make([]uint32, len(hotness))
	touched, classes = mbfile.Ranks(hotness, rank)
	return rank, classes, touched
}
