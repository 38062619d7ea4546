package train

import (
	"encoding/binary"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
)

// newMultiScorer returns a scorer of rows that have any number of classes. A row's
// decision on a class is that it has it where the logit is above zero.
func newMultiScorer(metric string) scorer {
	switch metric {
	case MetricAUC:
		return new(meanAUC)
	case MetricAccuracy:
		return new(allRight)
	}
	return new(microF1)
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

// microF1 is the F1 of all decisions, of every class on every row:
// 2·TP / (2·TP + FP + FN). It is undefined where no row has a class and none was
// decided for.
type microF1 struct{ right, wrong, missed int } // true and false positives, false negatives

func (f *microF1) add(logits []float32, labels []int32, targets []byte) {
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

func (f *microF1) score() Score {
	s := Score(float64(2*f.right) / float64(2*f.right+f.wrong+f.missed)) // NaN for 0/0
	*f = microF1{}
	return s
}

func (f *microF1) state() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(f.right))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.wrong))
	return binary.LittleEndian.AppendUint64(b, uint64(f.missed))
}

func (f *microF1) load(state []byte) error {
	d := binio.NewDecoder(state)
	f.right, f.wrong, f.missed = int(d.U64()), int(d.U64()), int(d.U64())
	return wholeState(d)
}

// allRight is the part of the rows of which every decision is right.
type allRight struct{ accuracy }

func (a *allRight) add(logits []float32, labels []int32, targets []byte) {
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

// meanAUC is the mean of the classes' areas under the ROC curve, of those classes that
// some rows have and some have not; undefined where there are none.
type meanAUC struct {
	logits  []float32 // a row after the other
	targets []byte
	rows    int
	class   rocAUC // of one class at a time
}

func (a *meanAUC) add(logits []float32, labels []int32, targets []byte) {
	eachRow(logits, labels, targets, func(logits []float32, classes []byte) {
		a.logits, a.targets = append(a.logits, logits...), append(a.targets, classes...)
		a.rows++
	})
}

func (a *meanAUC) score() Score {
	if a.rows == 0 {
		return undefined
	}
	classes, row := len(a.logits)/a.rows, len(a.targets)/a.rows
	sum, defined := 0.0, 0
	for c := range classes {
		for i := range a.rows {
			a.class.rows = append(a.class.rows, judged{float64(a.logits[i*classes+c]), graph.HasClass(a.targets[i*row:], c)})
		}
		if s := a.class.score(); s.Defined() {
			sum += float64(s)
			defined++
		}
	}
	a.logits, a.targets, a.rows = a.logits[:0], a.targets[:0], 0
	return Score(sum / float64(defined)) // NaN for 0/0
}

// state has the number of rows, of classes, all logits and all bits of classes.
func (a *meanAUC) state() []byte {
	classes := len(a.logits) / max(a.rows, 1)
	b := make([]byte, 0, 16+4*len(a.logits)+len(a.targets))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.rows))
	b = binary.LittleEndian.AppendUint64(b, uint64(classes))
	b = append(b, binio.Bytes(a.logits)...)
	return append(b, a.targets...)
}

func (a *meanAUC) load(state []byte) error {
	d := binio.NewDecoder(state)
	rows, classes, n := d.U64(), d.U64(), uint64(d.Rest())
	fits := rows == 0 && n == 0
	if rows > 0 && classes <= n {
		fits = n%rows == 0 && n/rows == 4*classes+(classes+7)/8
	}
	if d.Err() != nil || !fits {
		return fault.New(fault.ErrCorrupt, "%d bytes for %d rows of %d classes", len(state), rows, classes)
	}
	a.rows, a.logits = int(rows), make([]float32, rows*classes)
	copy(binio.Bytes(a.logits), d.Raw(4*len(a.logits)))
	a.targets = append([]byte(nil), d.Raw(d.Rest())...)
	return nil
}

// meanAUCBytes returns the memory of a meanAUC for so many rows: slices that grew, and
// one class ranked.
func meanAUCBytes(rows, classes int64) int64 {
	return rows * (2*(4*classes+(classes+7)/8) + 2*16)
}

// trainScorerBytes and evalScorerBytes return the memory of the scorers of a pack's
// batches where that is worth counting: of those that keep a logit per class.
func trainScorerBytes(metric string, r *packfile.Reader) int64 {
	epoch := int64(0)
	for i := range min(r.Facts().BatchesPerEpoch, len(r.Index().Train)) {
		epoch += int64(r.Index().Train[i].Seeds)
	}
	return keptBytes(metric, r, epoch)
}

func evalScorerBytes(metric string, r *packfile.Reader) int64 {
	seeds := func(list []packfile.Eval) (n int64) {
		for i := range list {
			n += int64(list[i].Seeds)
		}
		return n
	}
	return keptBytes(metric, r, max(seeds(r.Index().Valid), seeds(r.Index().Test)))
}

func keptBytes(metric string, r *packfile.Reader, rows int64) int64 {
	f := r.Facts()
	if metric != MetricAUC || !f.MultiLabel() {
		return 0
	}
	return meanAUCBytes(rows, int64(f.Classes))
}

// MultiLabelJudgeBytes returns the memory that a Judge of multi-label rows takes for
// each of them, beside that of its state.
func MultiLabelJudgeBytes(metric string, classes int) int64 {
	if metric != MetricAUC {
		return 0
	}
	return meanAUCBytes(1, int64(classes))
}
