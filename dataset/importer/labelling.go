package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

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
	oneHot  bool    // rows have the class at the place of their one
	rows    int64   // of ones and zeros
	single  int64   // of these, rows with a single one
}

// Ignored is a label of no class, beside graph.Unlabelled: PyTorch's losses pass over it.
const Ignored = -100

// labelMemory returns the memory of gathering the labels, in bytes.
func (s *Shape) labelMemory() int64 {
	const classAndPart = 4 + 1
	switch {
	case s.unlabelled:
		return 0
	case s.oneHot:
		return classAndPart*s.Nodes + 4*int64(max(Chunk, s.Classes))
	case !s.Multi:
		return classAndPart * s.Nodes
	}
	return (classAndPart+int64(graph.TargetBytes(s.Classes)))*s.Nodes + 4*int64(max(Chunk, s.Classes))
}

func newLabelling(s *Shape) *Labelling {
	l := &Labelling{classes: make([]int32, s.Nodes), part: make([]uint8, s.Nodes), limit: s.Classes, most: -1, oneHot: s.oneHot}
	if s.Multi {
		l.bytes = graph.TargetBytes(s.Classes)
		l.targets = make([]byte, s.Nodes*int64(l.bytes))
	}
	for v := range l.classes {
		l.classes[v] = graph.Unlabelled
	}
	return l
}

// Label sets the label of node v: a class, counted from 0, or graph.Unlabelled or Ignored.
func (l *Labelling) Label(v, class int64) error {
	if class == Ignored {
		class = int64(graph.Unlabelled)
	}
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
	if im.shape.ClassNames != nil {
		names = append(names, dataset.ClassNamesFile)
	}
	if im.w.Has(names...) {
		return nil
	}
	l, err := im.readLabels(ctx)
	if err != nil {
		return err
	}
	im.labelNotes = l.notes()
	for _, note := range im.labelNotes {
		im.rep.Logf("%s", note)
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
	if im.shape.ClassNames != nil {
		if err := im.w.WriteClassNames(im.shape.ClassNames); err != nil {
			return err
		}
	}
	sizes := []*int64{&f.Train, &f.Valid, &f.Test}
	for i, name := range dataset.SplitNames {
		var err error
		if *sizes[i], err = im.writeSplit(ctx, l, uint8(i+1)); err != nil {
			return err
		}
		if f.Train == 0 {
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
	if im.asksLabelsAs() {
		if err := l.question(im.labelName()); err != nil {
			return nil, err
		}
	}
	if im.split != nil {
		if err := im.split.draw(l); err != nil {
			return nil, err
		}
	}
	if im.typing != nil && im.typing.labels != 0 {
		l.move(im.typing.types, im.shape.LabelledType, im.typing.labels)
	}
	return l, nil
}

// move moves the labels and splits of a type to the numbers that its nodes have in the dataset, larger by shift than
// in the source. No other node has a label.
func (l *Labelling) move(types *graph.Types, kind int, shift int64) {
	lo, hi := types.Range(kind)
	moveRange(l.classes, lo, hi, shift, 1, graph.Unlabelled)
	moveRange(l.part, lo, hi, shift, 1, 0)
	moveRange(l.targets, lo, hi, shift, int64(l.bytes), 0)
}

// moveRange sets the rows lo … hi − 1 to the rows that are shift before them, and all others to none. A row is width
// elements.
func moveRange[T any](a []T, lo, hi, shift, width int64, none T) {
	if len(a) == 0 {
		return
	}
	copy(a[lo*width:hi*width], a[(lo-shift)*width:(hi-shift)*width])
	for i := range a {
		if int64(i) < lo*width || int64(i) >= hi*width {
			a[i] = none
		}
	}
}

// settleLabels checks the names of classes, and decides the meaning of labels with a column for each.
func (im *importing) settleLabels() error {
	s, as := &im.shape, im.o.LabelsAs
	if s.ClassNames != nil {
		if s.Classes != len(s.ClassNames) {
			return fault.New(fault.ErrInput, "%s has %d names of classes, but %d classes", im.labelName(), len(s.ClassNames), s.Classes)
		}
		if _, err := dataset.EncodeClassNames(s.ClassNames); err != nil {
			return fmt.Errorf("%s: %w", im.labelName(), err)
		}
	}
	switch {
	case as == LabelsAsMulti && !s.Multi:
		return fault.New(fault.ErrUsage, "--labels-as %s: %s has one class for each node, not a column for each class", as, im.labelName())
	case as == LabelsAsClasses && s.Multi:
		s.Multi, s.oneHot = false, true
		if s.Reading = maps.Clone(s.Reading); s.Reading == nil {
			s.Reading = map[string]string{}
		}
		s.Reading["labels_as"] = as
	}
	return nil
}

// asksLabelsAs reports whether rows that all have a single one need the user's word. A format that does
// not take the flag says itself that they are multi-label.
func (im *importing) asksLabelsAs() bool {
	return im.o.LabelsAs == "" && slices.Contains(im.format.Takes, "labels-as")
}

// labelName names the labels in messages.
func (im *importing) labelName() string {
	if im.o.LabelFile != "" {
		return im.o.LabelFile
	}
	return im.name()
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

// Row sets the classes of node v of a graph with a column for each class: values has a 1 for each class
// of the node and 0 for all others. A row of only NaN, -1 or Ignored stands for no label. If a node has
// one class in a dataset made from such rows (LabelsAsClasses), a row of zeros stands for no label, too.
func (l *Labelling) Row(v int64, values []float32) error {
	if isNone(values) {
		return nil
	}
	var bits []byte
	if !l.oneHot {
		l.classes[v] = 0
		bits = l.targets[v*int64(l.bytes):][:l.bytes]
	}
	ones, last := 0, 0
	for c, x := range values {
		switch {
		case x == 0:
		case x != 1:
			return notOne(v, c, x)
		case !l.oneHot:
			graph.AddClass(bits, c)
			ones++
		case ones > 0:
			return fault.New(fault.ErrInput, "node %d has a 1 in the columns of classes %d and %d: with --labels-as %s, a row has one 1", v, last, c, LabelsAsClasses)
		default:
			ones, last = 1, c
		}
	}
	l.rows++
	if ones == 1 {
		l.single++
	}
	if !l.oneHot || ones == 0 {
		return nil
	}
	return l.Label(v, int64(last))
}

// notOne returns the error for a value in the row of a node that is neither 0 nor 1.
func notOne(v int64, c int, x float32) error {
	regression := ""
	if x != float32(math.Trunc(float64(x))) && x == x {
		regression = "; real numbers are " + regressionText
	}
	return fault.New(fault.ErrInput, "node %d has %v in the column of class %d: rows consist of 0 and 1 or, for no label, only of -1, %d or NaN%s", v, x, c, Ignored, regression)
}

// isNone reports whether all values are NaN, or all are -1, or all are Ignored.
func isNone(values []float32) bool {
	nan, minus, ignored := true, true, true
	for _, x := range values {
		nan, minus, ignored = nan && x != x, minus && x == -1, ignored && x == Ignored
	}
	return nan || minus || ignored
}

const regressionText = "regression, and diskgnn trains classifiers"

// Number is Label for a floating-point number: a whole number is the label, and NaN stands for no
// label.
func (l *Labelling) Number(v int64, x float64) error {
	switch {
	case math.IsNaN(x):
		return nil
	case x != math.Trunc(x):
		return fault.New(fault.ErrInput, "node %d has the label %v: labels are whole numbers, one for each class; real numbers are %s", v, x, regressionText)
	case math.Abs(x) > 1<<53:
		return fault.New(fault.ErrInput, "node %d has the label %v: labels are whole numbers", v, x)
	}
	return l.Label(v, int64(x))
}

// question returns an error unless the rows of ones and zeros, if there are any, can only be of
// multi-label nodes.
func (l *Labelling) question(name string) error {
	if l.oneHot || l.rows == 0 || l.single < l.rows {
		return nil
	}
	return fault.New(fault.ErrInput, "%s: every row of labels has a single 1 in %d columns: give --labels-as %s if a node has one class, or --labels-as %s if it may have several",
		name, l.limit, LabelsAsClasses, LabelsAsMulti)
}

// countedClasses bounds the classes that notes counts, by the memory.
const countedClasses = 1 << 20

// notes tells the user of classes without nodes, if only the labels say how many classes there are.
func (l *Labelling) notes() []string {
	classes := int(l.most) + 1
	if l.limit > 0 || classes < 2 {
		return nil
	}
	var seen [countedClasses / 64]uint64
	labelled, used, zero := 0, 0, false
	for _, c := range l.classes {
		if c == graph.Unlabelled {
			continue
		}
		labelled++
		zero = zero || c == 0
		if c < countedClasses {
			word, bit := &seen[c/64], uint64(1)<<(c%64)
			if *word&bit == 0 {
				*word |= bit
				used++
			}
		}
	}
	switch {
	case classes > countedClasses && classes > 2*labelled:
		return []string{fmt.Sprintf("labels are up to %d, but only %d nodes have one: most of the model's %d classes have no node", l.most, labelled, classes)}
	case classes <= countedClasses && classes > 2*used:
		return []string{fmt.Sprintf("%d of %d classes have no node: labels are numbers up to %d, and the model gets a class for each", classes-used, classes, l.most)}
	case !zero:
		return []string{fmt.Sprintf("class 0 has no node: labels seem to be counted from 1; the model gets %d classes", classes)}
	}
	return nil
}
