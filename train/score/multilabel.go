package score

import (
	"encoding/binary"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/recipe"
)

// newMulti returns a scorer of rows with any number of classes. A row is assigned the classes with
// a logit above zero.
func newMulti(o Options) Scorer {
	switch o.Metric {
	case recipe.MetricAUC:
		return &meanAUC{classes: o.Classes, most: o.Rows, logits: make([]float32, 0, o.Rows*int64(o.Classes)),
			targets: make([]byte, 0, o.Rows*int64(graph.TargetBytes(o.Classes))), class: rocAUC{make([]judged, 0, o.Rows)}}
	case recipe.MetricAccuracy:
		return &allRight{accuracy{most: o.Rows}}
	}
	return &microF1{most: o.Rows * int64(o.Classes)}
}

// eachRow calls see with the logits and classes of every row that has a label.
func eachRow(logits []float32, labels []int32, targets []byte, see func(logits []float32, classes []byte)) {
	if len(labels) == 0 {
		return
	}
	classes, row := len(logits)/len(labels), len(targets)/len(labels)
	for i, y := range labels {
		if y != graph.Unlabelled {
			see(logits[i*classes:(i+1)*classes], targets[i*row:(i+1)*row])
		}
	}
}

// microF1 is the F1 of all decisions, of every class on every row: 2·TP / (2·TP + FP + FN). It is
// undefined if no row has a class and none was assigned one.
type microF1 struct {
	right, wrong, missed int   // true and false positives, false negatives
	most                 int64 // decisions
}

func (f *microF1) Add(logits []float32, labels []int32, targets []byte) {
	eachRow(logits, labels, targets, func(logits []float32, classes []byte) {
		for c, v := range logits {
			switch has := graph.HasClass(classes, c); {
			case has && v > 0:
				f.right++
			case has:
				f.missed++
			case v > 0:
				f.wrong++
			}
		}
	})
}

func (f *microF1) Score() Score {
	s := Score(float64(2*f.right) / float64(2*f.right+f.wrong+f.missed)) // NaN for 0/0
	f.right, f.wrong, f.missed = 0, 0, 0
	return s
}

func (f *microF1) State() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(f.right))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.wrong))
	return binary.LittleEndian.AppendUint64(b, uint64(f.missed))
}

func (f *microF1) Load(state []byte) error {
	d := binio.NewDecoder(state)
	right, wrong, missed := d.U64(), d.U64(), d.U64()
	if most := uint64(f.most); max(right, wrong, missed) > most || right+wrong+missed > most {
		d.Fail("the score has %d right, %d wrong and %d missed decisions, more than the %d of its batches", right, wrong, missed, most)
	}
	if err := wholeState(d); err != nil {
		return err
	}
	f.right, f.wrong, f.missed = int(right), int(wrong), int(missed)
	return nil
}

func (f *microF1) Join(state []byte) error {
	o := microF1{most: f.most - int64(f.right+f.wrong+f.missed)}
	if err := o.Load(state); err != nil {
		return err
	}
	f.right, f.wrong, f.missed = f.right+o.right, f.wrong+o.wrong, f.missed+o.missed
	return nil
}

// allRight is the share of rows with all decisions right.
type allRight struct{ accuracy }

func (a *allRight) Add(logits []float32, labels []int32, targets []byte) {
	eachRow(logits, labels, targets, func(logits []float32, classes []byte) {
		a.count++
		for c, v := range logits {
			if graph.HasClass(classes, c) != (v > 0) {
				return
			}
		}
		a.correct++
	})
}

// meanAUC is the mean area under the ROC curve of the classes that some rows have and some lack;
// undefined without such a class.
type meanAUC struct {
	classes int
	most    int64     // rows
	logits  []float32 // a row after the other
	targets []byte
	rows    int
	class   rocAUC // of one class at a time
}

func (a *meanAUC) Add(logits []float32, labels []int32, targets []byte) {
	eachRow(logits, labels, targets, func(logits []float32, classes []byte) {
		a.logits, a.targets = append(a.logits, logits...), append(a.targets, classes...)
		a.rows++
	})
}

func (a *meanAUC) Score() Score {
	if a.rows == 0 {
		return Undefined
	}
	classes, row := a.classes, graph.TargetBytes(a.classes)
	sum, defined := 0.0, 0
	for c := range classes {
		for i := range a.rows {
			a.class.rows = append(a.class.rows, judged{float64(a.logits[i*classes+c]), graph.HasClass(a.targets[i*row:], c)})
		}
		if s := a.class.Score(); s.Defined() {
			sum += float64(s)
			defined++
		}
	}
	a.logits, a.targets, a.rows = a.logits[:0], a.targets[:0], 0
	return Score(sum / float64(defined)) // NaN for 0/0
}

// meanAUCHead is the bytes before the rows in a state: the numbers of rows and of classes.
const meanAUCHead = 16

// state has the number of rows, of classes, all logits and all bits of classes.
func (a *meanAUC) State() []byte {
	b := make([]byte, 0, meanAUCHead+4*len(a.logits)+len(a.targets))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.rows))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.classes))
	b = append(b, binio.Bytes(a.logits)...)
	return append(b, a.targets...)
}

func (a *meanAUC) Load(state []byte) error {
	d := binio.NewDecoder(state)
	rows, classes := d.U64(), d.U64()
	row := uint64(4*a.classes + graph.TargetBytes(a.classes))
	if d.Err() != nil || rows > uint64(a.most) || rows > 0 && classes != uint64(a.classes) || uint64(d.Rest()) != rows*row {
		return fault.New(fault.ErrCorrupt, "the score has %d bytes for %d rows of %d classes, but its batches have at most %d rows of %d classes", len(state), rows, classes, a.most, a.classes)
	}
	a.rows, a.logits = int(rows), a.logits[:int(rows)*a.classes]
	copy(binio.Bytes(a.logits), d.Raw(4*len(a.logits)))
	a.targets = append(a.targets[:0], d.Raw(d.Rest())...)
	return nil
}

func (a *meanAUC) Join(state []byte) error {
	o := meanAUC{classes: a.classes, most: a.most - int64(a.rows), logits: a.logits[len(a.logits):], targets: a.targets[len(a.targets):]}
	if err := o.Load(state); err != nil {
		return err
	}
	a.logits, a.targets = a.logits[:len(a.logits)+len(o.logits)], a.targets[:len(a.targets)+len(o.targets)]
	a.rows += o.rows
	return nil
}
