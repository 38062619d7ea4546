package dataset

import (
	"context"
	"errors"
	"math"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// Verify checks every byte of the dataset against its checksum, and checks every promise that the
// package comment makes about the files. It holds a few MiB and, if the original ids are numbers, a
// bit for each node; if they are names, 9 bytes for each node, 288 MiB at most. Of more than 33
// million names, each 33 million need one more pass over the names. workers is the number of
// goroutines, 0: one for each core.
func (d *Dataset) Verify(ctx context.Context, rep progress.Reporter, workers int) (err error) {
	defer func() { err = d.damaged(err) }()
	t, err := d.Topology(ctx, rep, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := d.verifyLabels(ctx); err != nil {
		return err
	}
	if err := d.verifyTargets(ctx); err != nil {
		return err
	}
	names, err := d.ClassNames()
	if err != nil {
		return err
	}
	if err := d.verifyIDs(ctx); err != nil {
		return err
	}
	if err := d.verifyFeatures(ctx, rep); err != nil {
		return err
	}
	return d.verifyOrigin(ctx, t, names)
}

// verifyLabels checks the labels, and the splits beside them.
func (d *Dataset) verifyLabels(ctx context.Context) (err error) {
	if !d.facts.Labelled() {
		return nil
	}
	splits := make([]*splitStream, 0, len(SplitNames))
	defer func() {
		for _, s := range splits {
			err = errors.Join(err, s.close())
		}
	}()
	for _, name := range SplitNames {
		s, err := d.openSplit(name)
		if err != nil {
			return err
		}
		splits = append(splits, s)
	}
	labels, err := openNumbers[int32](d, LabelsFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, labels.close()) }()
	var first, unlabelled int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		some, err := labels.peek()
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		labels.skip(len(some))
		if err := d.checkLabels(first, some); err != nil {
			return err
		}
		for _, y := range some {
			if y == graph.Unlabelled {
				unlabelled++
			}
		}
		if err := d.verifySplits(splits, first, some); err != nil {
			return err
		}
		first += int64(len(some))
	}
	if unlabelled != d.facts.Unlabelled {
		return fault.New(fault.ErrCorrupt, "%s: %d nodes have no label instead of the %d that the facts say", d.path(LabelsFile), unlabelled, d.facts.Unlabelled)
	}
	return nil
}

// verifySplits checks the splits for some nodes, from first on: no node is in two splits, and every
// node of a split has a label.
func (d *Dataset) verifySplits(splits []*splitStream, first int64, labels []int32) error {
	for end := first + int64(len(labels)); ; {
		var least *splitStream
		for _, s := range splits {
			v, err := s.node()
			switch {
			case err != nil:
				return err
			case v >= end || v < 0:
			case least != nil && least.last == v:
				return fault.New(fault.ErrCorrupt, "%s: node %d is in two splits, %s and %s", d.dir, v, least.split, s.split)
			case least == nil || v < least.last:
				least = s
			}
		}
		if least == nil {
			return nil
		}
		if labels[least.last-first] == graph.Unlabelled {
			return fault.New(fault.ErrCorrupt, "%s: node %d has no label", least.name, least.last)
		}
		least.taken = true
	}
}

// splitStream yields the nodes of a split.
type splitStream struct {
	*numberStream[uint32]
	split string
	nodes int64
	last  int64 // the node that node returned, or -1
	taken bool  // node moves on to the next one
}

func (d *Dataset) openSplit(name string) (*splitStream, error) {
	n, err := openNumbers[uint32](d, SplitFile(name))
	if err != nil {
		return nil, err
	}
	return &splitStream{numberStream: n, split: name, nodes: d.facts.Nodes, last: -1, taken: true}, nil
}

// node returns the first node that was not taken, or math.MaxInt64 at the end.
func (s *splitStream) node() (int64, error) {
	if !s.taken {
		return s.last, nil
	}
	ids, err := s.peek()
	if err != nil || len(ids) == 0 {
		return math.MaxInt64, err
	}
	v := int64(ids[0])
	if v <= s.last || v >= s.nodes {
		return 0, fault.New(fault.ErrCorrupt, "%s: node %d follows node %d: out of order, or not a node of the %d", s.name, v, s.last, s.nodes)
	}
	s.skip(1)
	s.last, s.taken = v, false
	return v, nil
}

// verifyTargets checks every row of a multi-label dataset.
func (d *Dataset) verifyTargets(ctx context.Context) (err error) {
	row := d.facts.TargetBytes()
	if row == 0 {
		return nil
	}
	labels, err := openNumbers[int32](d, LabelsFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, labels.close()) }()
	return d.scanTargets(ctx, func(first int64, rows []byte) error {
		for len(rows) > 0 {
			some, err := labels.peek()
			if err != nil {
				return err
			}
			some = some[:min(len(some), len(rows)/row)]
			if v := unlabelledClass(rows, row, some); v >= 0 {
				return fault.New(fault.ErrCorrupt, "%s: node %d has classes, but its label is -1, unlabelled", d.path(TargetsFile), first+int64(v))
			}
			labels.skip(len(some))
			first, rows = first+int64(len(some)), rows[len(some)*row:]
		}
		return nil
	})
}

func (d *Dataset) verifyFeatures(ctx context.Context, rep progress.Reporter) (err error) {
	r, err := d.Features()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size := r.pieces.size
	task := rep.Task("verify features", size, progress.Bytes)
	defer task.Done()
	buf := make([]byte, min(4*Granule, size))
	s := newScratch()
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.read(s, buf[:min(int64(len(buf)), size-off)], off)
		if err != nil {
			return err
		}
		if i := IndexNotFinite(buf[:n], d.facts.DType); i >= 0 {
			return notFinite(fault.ErrCorrupt, d.path(d.facts.FeaturesFile()), off/int64(d.facts.DType.Size())+int64(i), d.facts.Dim)
		}
		off += n
		task.Add(n)
	}
	return nil
}
