package importer

import (
	"context"
	"errors"
	"math"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Labelling collects the labels and splits of all nodes of a source. It is not safe for concurrent
// use. Errors are of kind fault.ErrInput and name the node, but not the file.
type Labelling struct {
	classes []int32 // by node
	targets []byte  // by node, of multi-label graphs
	bytes   int     // of a node in it
	part    []uint8 // by node: 0 or the split's number
	limit   int     // classes, or 0 if the labels say
	most    int32   // the highest class so far
}

// labelMemory returns the memory of gathering the labels, in bytes.
func (s *Shape) labelMemory() int64 {
	const classAndPart = 4 + 1
	switch {
	case s.unlabelled:
		return 0
	case !s.Multi:
		return classAndPart * s.Nodes
	}
	return (classAndPart+int64(graph.TargetBytes(s.Classes)))*s.Nodes + 4*int64(max(Chunk, s.Classes))
}

func newLabelling(s *Shape) *Labelling {
	l := &Labelling{classes: make([]int32, s.Nodes), part: make([]uint8, s.Nodes), limit: s.Classes, most: -1}
	if s.Multi {
		l.bytes = graph.TargetBytes(s.Classes)
		l.targets = make([]byte, s.Nodes*int64(l.bytes))
	}
	for v := range l.classes {
		l.classes[v] = graph.Unlabelled
	}
	return l
}

// Label sets the label of node v: a class, counted from 0, or graph.Unlabelled.
func (l *Labelling) Label(v, class int64) error {
	limit := int64(math.MaxInt32)
	if l.limit > 0 {
		limit = int64(l.limit)
	}
	if class < int64(graph.Unlabelled) || class >= limit {
		if l.limit > 0 {
			return fault.New(fault.ErrInput, "node %d has the label %d, but there are %d classes, counted from 0, or -1 for none", v, class, l.limit)
		}
		return fault.New(fault.ErrInput, "node %d has the label %d: labels are classes, counted from 0, or -1 for none", v, class)
	}
	l.classes[v] = int32(class)
	l.most = max(l.most, int32(class))
	return nil
}

// Assign puts node v into a split: 1 is training, 2 validation, 3 test. A node may be assigned once.
func (l *Labelling) Assign(v int64, split uint8) error {
	if uint64(v) >= uint64(len(l.part)) {
		return fault.New(fault.ErrInput, "the %s set has node %d, but there are only %d nodes", dataset.SplitNames[split-1], v, len(l.part))
	}
	switch l.part[v] {
	case 0:
		l.part[v] = split
		return nil
	case split:
		return fault.New(fault.ErrInput, "node %d is in the %s set twice", v, dataset.SplitNames[split-1])
	}
	return fault.New(fault.ErrInput, "node %d is in the %s set and in the %s set", v, dataset.SplitNames[l.part[v]-1], dataset.SplitNames[split-1])
}

func (im *importing) labels(ctx context.Context) error {
	names := []string{dataset.LabelsFile, dataset.SplitFile(dataset.Train), dataset.SplitFile(dataset.Valid), dataset.SplitFile(dataset.Test)}
	if im.shape.Multi {
		names = append(names, dataset.TargetsFile)
	}
	if im.w.Has(names...) {
		return nil
	}
	l, err := im.readLabels(ctx)
	if err != nil {
		return err
	}
	f := im.w.Facts()
	f.Classes = l.Classes()
	f.Unlabelled, _, _, _ = l.count()
	if err := im.writeRows(dataset.LabelsFile, binio.Bytes(l.classes), 4); err != nil {
		return err
	}
	if im.shape.Multi {
		if err := im.writeRows(dataset.TargetsFile, l.targets, l.bytes); err != nil {
			return err
		}
	}
	sizes := []*int64{&f.Train, &f.Valid, &f.Test}
	for i, name := range dataset.SplitNames {
		var err error
		if *sizes[i], err = im.writeSplit(ctx, l, uint8(i+1)); err != nil {
			return err
		}
		if i == 0 && f.Train == 0 {
			return fault.New(fault.ErrInput, "%s: the %s set is empty", im.name(), name)
		}
	}
	return im.w.Save()
}

// writeRows writes a file of rows of size bytes each, given in the order of the source.
func (im *importing) writeRows(name string, rows []byte, size int) (err error) {
	if im.from == nil {
		return im.w.Write(name, rows)
	}
	a, err := im.w.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Discard()) }()
	for _, v := range im.from {
		if _, err := a.Write(rows[int64(v)*int64(size):][:size]); err != nil {
			return err
		}
	}
	return a.Finish()
}

// Classes returns the number of classes: Shape.Classes or, if that is 0, the highest label so far plus
// one.
func (l *Labelling) Classes() int {
	if l.limit > 0 {
		return l.limit
	}
	return int(l.most) + 1
}

// count returns the nodes without a label, and those with one in each split.
func (l *Labelling) count() (unlabelled, train, valid, test int64) {
	var n [4]int64
	for v, c := range l.classes {
		if c == graph.Unlabelled {
			unlabelled++
		} else {
			n[l.part[v]]++
		}
	}
	return unlabelled, n[1], n[2], n[3]
}

// readLabels reads labels and splits, and draws splits where there are none.
func (im *importing) readLabels(ctx context.Context) (*Labelling, error) {
	l := newLabelling(&im.shape)
	if err := im.src.Labels(ctx, l); err != nil {
		return nil, err
	}
	if im.split != nil {
		return l, im.split.draw(l)
	}
	return l, nil
}

// writeSplit writes the labelled nodes of a split and returns their number. It logs the number of its
// nodes without a label.
func (im *importing) writeSplit(ctx context.Context, l *Labelling, split uint8) (n int64, err error) {
	name := dataset.SplitNames[split-1]
	a, err := im.w.Create(dataset.SplitFile(name))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, a.Discard()) }()
	dropped := 0
	ids := make([]uint32, 0, Chunk)
	for v := range l.part {
		u := v // as the source has it
		if im.from != nil {
			u = int(im.from[v])
		}
		switch {
		case l.part[u] != split:
			continue
		case l.classes[u] == graph.Unlabelled:
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
		im.rep.Logf("left out %d nodes without a label from the %s set", dropped, name)
	}
	return n, a.Finish()
}

// Row sets the classes of node v in a multi-label graph: values has a 1 for each class of the node and
// 0 for all others; only -1 or only NaN stands for no label.
func (l *Labelling) Row(v int64, values []float32) error {
	if isNone(values) {
		return nil
	}
	l.classes[v] = 0
	bits := l.targets[v*int64(l.bytes):][:l.bytes]
	for c, x := range values {
		switch x {
		case 0:
		case 1:
			graph.AddClass(bits, c)
		default:
			return fault.New(fault.ErrInput, "node %d has %v in the column of class %d: rows consist of 0 and 1 or, for no label, only of -1 or NaN", v, x, c)
		}
	}
	return nil
}

// isNone reports whether all values are NaN, or all are -1.
func isNone(values []float32) bool {
	nan, minus := true, true
	for _, x := range values {
		nan, minus = nan && x != x, minus && x == -1
	}
	return nan || minus
}

// Number is Label for a floating-point number: a whole number is the label, NaN and -1 stand for no
// label.
func (l *Labelling) Number(v int64, x float64) error {
	switch {
	case math.IsNaN(x):
		return nil
	case x != math.Trunc(x) || math.Abs(x) > 1<<53:
		return fault.New(fault.ErrInput, "node %d has the label %v: labels are whole numbers", v, x)
	}
	return l.Label(v, int64(x))
}
