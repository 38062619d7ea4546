package dataset

import (
	"context"
	"errors"
	"math"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// labelling gathers the classes and splits of an import.
type labelling struct {
	classes []int32 // by node
	targets []byte  // by node, of multi-label graphs
	bytes   int     // of a node in it
	part    []uint8 // by node: 0 or the split's number
	limit   int     // classes, or 0 if the labels say
	most    int32   // the highest class so far
}

// labelMemory returns what gathering them takes.
func (s *shape) labelMemory() int64 {
	const classAndPart = 4 + 1
	if !s.multi {
		return classAndPart * s.nodes
	}
	return (classAndPart+int64(graph.TargetBytes(s.classes)))*s.nodes + 4*int64(max(chunk, s.classes))
}

// splitNames lists the splits; their numbers count from 1.
var splitNames = []string{Train, Valid, Test}

func newLabelling(s *shape) *labelling {
	l := &labelling{classes: make([]int32, s.nodes), part: make([]uint8, s.nodes), limit: s.classes, most: -1}
	if s.multi {
		l.bytes = graph.TargetBytes(s.classes)
		l.targets = make([]byte, s.nodes*int64(l.bytes))
	}
	for v := range l.classes {
		l.classes[v] = graph.Unlabelled
	}
	return l
}

// label gives a node a class, or graph.Unlabelled.
func (l *labelling) label(v, class int64) error {
	limit := int64(math.MaxInt32)
	if l.limit > 0 {
		limit = int64(l.limit)
	}
	if class < int64(graph.Unlabelled) || class >= limit {
		if l.limit > 0 {
			return fault.New(fault.ErrInput, "node %d has label %d: there are %d classes, and -1 for none", v, class, l.limit)
		}
		return fault.New(fault.ErrInput, "node %d has label %d: classes count from 0, -1 stands for none", v, class)
	}
	l.classes[v] = int32(class)
	l.most = max(l.most, int32(class))
	return nil
}

// assign puts a node into the split of the given number.
func (l *labelling) assign(v int64, split uint8) error {
	if uint64(v) >= uint64(len(l.part)) {
		return fault.New(fault.ErrInput, "the %s set names node %d of %d", splitNames[split-1], v, len(l.part))
	}
	switch l.part[v] {
	case 0:
		l.part[v] = split
		return nil
	case split:
		return fault.New(fault.ErrInput, "node %d is in the %s set twice", v, splitNames[split-1])
	}
	return fault.New(fault.ErrInput, "the splits overlap: node %d is in the %s set and in the %s set", v, splitNames[l.part[v]-1], splitNames[split-1])
}

// labels reads labels and splits and writes their files.
func (im *importing) labels(ctx context.Context) error {
	names := []string{LabelsFile, splitFile(Train), splitFile(Valid), splitFile(Test)}
	if im.shape.multi {
		names = append(names, TargetsFile)
	}
	if im.w.has(names...) {
		return nil
	}
	l := newLabelling(&im.shape)
	if err := im.src.labels(ctx, l); err != nil {
		return err
	}
	f := &im.w.state.Facts
	f.Classes = l.limit
	if f.Classes == 0 {
		f.Classes = int(l.most) + 1
	}
	f.Unlabelled = 0
	for _, c := range l.classes {
		if c == graph.Unlabelled {
			f.Unlabelled++
		}
	}
	if err := im.w.write(LabelsFile, binio.Bytes(l.classes)); err != nil {
		return err
	}
	if im.shape.multi {
		if err := im.w.write(TargetsFile, l.targets); err != nil {
			return err
		}
	}
	sizes := []*int64{&f.Train, &f.Valid, &f.Test}
	for i, name := range splitNames {
		var err error
		if *sizes[i], err = im.writeSplit(ctx, l, uint8(i+1)); err != nil {
			return err
		}
		if i == 0 && f.Train == 0 {
			return fault.New(fault.ErrInput, "%s: the %s set is empty", im.o.Source, name)
		}
	}
	return im.w.save()
}

// writeSplit writes the nodes of a split that have a label, and says how many
// have none.
func (im *importing) writeSplit(ctx context.Context, l *labelling, split uint8) (n int64, err error) {
	name := splitNames[split-1]
	a, err := im.w.create(splitFile(name))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.discard()) }()
	dropped := 0
	ids := make([]uint32, 0, chunk)
	for v, p := range l.part {
		switch {
		case p != split:
			continue
		case l.classes[v] == graph.Unlabelled:
			dropped++
			continue
		}
		n++
		if ids = append(ids, uint32(v)); len(ids) < cap(ids) {
			continue
		}
		if _, err := a.Write(binio.Bytes(ids)); err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		ids = ids[:0]
	}
	if _, err := a.Write(binio.Bytes(ids)); err != nil {
		return 0, err
	}
	if dropped > 0 {
		im.rep.Logf("%d nodes of the %s set have no label and were left out", dropped, name)
	}
	return n, a.finish()
}
