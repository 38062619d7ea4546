package train

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/train/gnn"
)

// Score is a fraction, or another real number that may be undefined: then it is NaN,
// and null in JSON.
type Score float64

// undefined is the score of nothing.
var undefined = Score(math.NaN())

// Defined tells whether there is a number.
func (s Score) Defined() bool { return !math.IsNaN(float64(s)) && !math.IsInf(float64(s), 0) }

// MarshalJSON writes the number, or null.
func (s Score) MarshalJSON() ([]byte, error) {
	if !s.Defined() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Score) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*s = undefined
		return nil
	}
	return json.Unmarshal(b, (*float64)(s))
}

// scorer judges logits, a row per seed node and a column per class, against labels, or
// against targets where nodes have any number of classes: rows of bits, as in
// graph.Batch. Rows without a label do not count.
type scorer interface {
	add(logits []float32, labels []int32, targets []byte)
	// score returns the score of everything added, and starts anew. It is undefined
	// where the rows added do not define it.
	score() Score
	// state returns what was added, for load to put back.
	state() []byte
	load(state []byte) error
}

// newScorer returns a scorer; multi says that nodes have any number of classes.
func newScorer(metric string, multi bool) scorer {
	if multi {
		return newMultiScorer(metric)
	}
	if metric == MetricAUC {
		return new(rocAUC)
	}
	return new(accuracy)
}

// accuracy is the part of the rows whose largest logit is their label's. With one
// label per row it equals the micro-averaged F1: every false positive of a class is
// a false negative of another.
type accuracy struct{ correct, count int }

func (a *accuracy) add(logits []float32, labels []int32, _ []byte) {
	correct, count := gnn.CountCorrect(logits, labels)
	a.correct += correct
	a.count += count
}

func (a *accuracy) score() Score {
	s := Score(float64(a.correct) / float64(a.count)) // NaN for 0/0
	*a = accuracy{}
	return s
}

func (a *accuracy) state() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(a.correct))
	return binary.LittleEndian.AppendUint64(b, uint64(a.count))
}

func (a *accuracy) load(state []byte) error {
	d := binio.NewDecoder(state)
	a.correct, a.count = int(d.U64()), int(d.U64())
	return wholeState(d)
}

// wholeState returns a decoder's error, which bytes that are left over are too.
func wholeState(d *binio.Decoder) error {
	if d.Err() == nil && d.Rest() > 0 {
		d.Fail("%d bytes are left over", d.Rest())
	}
	return d.Err()
}

// rocAUC is the area under the receiver operating characteristic of two classes:
// the probability that a row of class 1 scores above one of class 0, half of it when
// they tie. A row's score is how far its logit of class 1 exceeds that of class 0,
// which orders rows as the probability of class 1 does. It is computed from ranks,
// tied rows sharing their average (Mann and Whitney 1947), and is undefined unless
// there are rows of both classes.
type rocAUC struct{ rows []judged }

type judged struct {
	margin   float64
	positive bool
}

func (a *rocAUC) add(logits []float32, labels []int32, _ []byte) {
	for i, y := range labels {
		if y != graph.Unlabelled {
			a.rows = append(a.rows, judged{float64(logits[2*i+1]) - float64(logits[2*i]), y == 1})
		}
	}
}

// state has the margin's bits and a byte, 1 for class 1, of every row.
func (a *rocAUC) state() []byte {
	b := make([]byte, 0, 9*len(a.rows))
	for _, r := range a.rows {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.margin))
		class := byte(0)
		if r.positive {
			class = 1
		}
		b = append(b, class)
	}
	return b
}

func (a *rocAUC) load(state []byte) error {
	d := binio.NewDecoder(state)
	a.rows = a.rows[:0]
	for d.Err() == nil && d.Rest() > 0 {
		a.rows = append(a.rows, judged{math.Float64frombits(d.U64()), d.U8() == 1})
	}
	return d.Err()
}

func (a *rocAUC) score() Score {
	rows := a.rows
	a.rows = rows[:0]
	slices.SortFunc(rows, func(x, y judged) int { return cmp.Compare(x.margin, y.margin) })
	positives, ranks := 0, 0.0 // number of class 1's rows, sum of their ranks from 1
	for lo := 0; lo < len(rows); {
		hi, tied := lo, 0
		for ; hi < len(rows) && cmp.Compare(rows[hi].margin, rows[lo].margin) == 0; hi++ {
			if rows[hi].positive {
				tied++
			}
		}
		ranks += float64(tied) * float64(lo+1+hi) / 2
		positives += tied
		lo = hi
	}
	p, n := float64(positives), float64(len(rows)-positives)
	return Score((ranks - p*(p+1)/2) / (p * n)) // NaN for 0/0
}
