// Package score scores a network's predictions for nodes: a Scorer adds up rows of logits and their
// labels, and returns a Score by one of the metrics that package recipe names. Outcome describes
// the computation of a score.
package score

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"unsafe"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/train/recipe"
)

// Score is a fraction, or another real number that may be undefined: then it is NaN,
// and null in JSON.
type Score float64

// Undefined is the score without any rows.
var Undefined = Score(math.NaN())

// Defined reports whether the score is a finite number.
func (s Score) Defined() bool { return !math.IsNaN(float64(s)) && !math.IsInf(float64(s), 0) }

// MarshalJSON writes the number, or null.
func (s Score) MarshalJSON() ([]byte, error) {
	if !s.Defined() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON reads MarshalJSON's output.
func (s *Score) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*s = Undefined
		return nil
	}
	return json.Unmarshal(b, (*float64)(s))
}

// Scorer compares logits, a row per seed node and a column per class, with labels, or with targets
// if nodes have any number of classes: rows of bits, as in graph.Batch. Rows without a label do not
// count. A Scorer belongs to one goroutine.
type Scorer interface {
	Add(logits []float32, labels []int32, targets []byte)
	// Score returns the score of all added rows, and clears the scorer. It is undefined if the
	// metric is undefined for these rows.
	Score() Score
	// State encodes the added rows. Load replaces the scorer's rows by the rows of a state; a state
	// with more rows than the scorer may have is an error.
	State() []byte
	Load(state []byte) error
	// Join adds the rows of another scorer's state.
	Join(state []byte) error
}

// Options describe the rows and the metric of a scorer.
type Options struct {
	Metric     string // accuracy, auc or f1
	MultiLabel bool   // nodes have any number of classes
	Classes    int
	Rows       int64 // at most, between two scores
}

// New returns a scorer, and allocates all of its memory.
func New(o Options) Scorer {
	switch {
	case o.MultiLabel:
		return newMulti(o)
	case o.Metric == recipe.MetricAUC:
		return &rocAUC{rows: make([]judged, 0, o.Rows)}
	}
	return &accuracy{most: o.Rows}
}

// Bytes returns the memory of a scorer and the length of its State, at most, in bytes. Both are 0
// for scorers that only count.
func Bytes(o Options) (held, state int64) {
	row := 4*int64(o.Classes) + int64(graph.TargetBytes(o.Classes))
	switch {
	case o.Metric != recipe.MetricAUC:
		return 0, 0
	case o.MultiLabel:
		return o.Rows * (row + judgedBytes), meanAUCHead + o.Rows*row
	}
	return o.Rows * judgedBytes, o.Rows * judgedState
}

// Largest returns the index of the largest logit, the first of equals: the predicted class of the
// row.
func Largest(logits []float32) int {
	best := 0
	for c, v := range logits {
		if v > logits[best] {
			best = c
		}
	}
	return best
}

// CountCorrect returns the number of labelled rows of logits with the largest value at their class,
// the first of equals deciding, and the number of labelled rows.
func CountCorrect(logits []float32, labels []int32) (correct, count int) {
	if len(labels) == 0 {
		return 0, 0
	}
	classes := len(logits) / len(labels)
	for i, y := range labels {
		if y == graph.Unlabelled {
			continue
		}
		count++
		if Largest(logits[i*classes:(i+1)*classes]) == int(y) {
			correct++
		}
	}
	return correct, count
}

// accuracy is the share of rows with the largest logit at their label. With one label per row it
// equals the micro-averaged F1: every false positive of a class is a false negative of another.
type accuracy struct {
	correct, count int
	most           int64 // rows
}

func (a *accuracy) Add(logits []float32, labels []int32, _ []byte) {
	correct, count := CountCorrect(logits, labels)
	a.correct += correct
	a.count += count
}

func (a *accuracy) Score() Score {
	s := Score(float64(a.correct) / float64(a.count)) // NaN for 0/0
	a.correct, a.count = 0, 0
	return s
}

func (a *accuracy) State() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(a.correct))
	return binary.LittleEndian.AppendUint64(b, uint64(a.count))
}

func (a *accuracy) Load(state []byte) error {
	d := binio.NewDecoder(state)
	correct, count := d.U64(), d.U64()
	if correct > count || count > uint64(a.most) {
		d.Fail("the score has %d right of %d rows, but its batches have at most %d rows", correct, count, a.most)
	}
	if err := wholeState(d); err != nil {
		return err
	}
	a.correct, a.count = int(correct), int(count)
	return nil
}

func (a *accuracy) Join(state []byte) error {
	o := accuracy{most: a.most - int64(a.count)}
	if err := o.Load(state); err != nil {
		return err
	}
	a.correct, a.count = a.correct+o.correct, a.count+o.count
	return nil
}

// wholeState returns a decoder's error; leftover bytes are an error as well.
func wholeState(d *binio.Decoder) error {
	if d.Err() == nil && d.Rest() > 0 {
		d.Fail("%d bytes are left over", d.Rest())
	}
	return d.Err()
}

// rocAUC is the area under the receiver operating characteristic of two classes: the probability
// that a row of class 1 scores above one of class 0, counting ties half. A row's score is its logit
// of class 1 minus its logit of class 0, which orders rows as the probability of class 1 does. It is
// computed from ranks, with the average rank for tied rows (Mann and Whitney 1947), and is
// undefined unless there are rows of both classes.
type rocAUC struct{ rows []judged }

type judged struct {
	margin   float64
	positive bool
}

const (
	judgedBytes = int64(unsafe.Sizeof(judged{}))
	judgedState = 9
)

func (a *rocAUC) Add(logits []float32, labels []int32, _ []byte) {
	for i, y := range labels {
		if y != graph.Unlabelled {
			a.rows = append(a.rows, judged{float64(logits[2*i+1]) - float64(logits[2*i]), y == 1})
		}
	}
}

// State has the bits of the margin and a byte, 1 for class 1, of every row.
func (a *rocAUC) State() []byte {
	b := make([]byte, 0, judgedState*len(a.rows))
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

func (a *rocAUC) Load(state []byte) error {
	d := binio.NewDecoder(state)
	if n := len(state) / judgedState; n > cap(a.rows) {
		d.Fail("the score has %d rows, but its batches have at most %d", n, cap(a.rows))
	}
	a.rows = a.rows[:0]
	for d.Err() == nil && d.Rest() > 0 {
		a.rows = append(a.rows, judged{math.Float64frombits(d.U64()), d.U8() == 1})
	}
	return d.Err()
}

func (a *rocAUC) Join(state []byte) error {
	o := rocAUC{rows: a.rows[len(a.rows):]}
	if err := o.Load(state); err != nil {
		return err
	}
	a.rows = a.rows[:len(a.rows)+len(o.rows)]
	return nil
}

func (a *rocAUC) Score() Score {
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

// Outcome describes the computation with a run's weights: the common part of an evaluation and a
// prediction.
type Outcome struct {
	Run string `json:"run"`
	// RunState is the state in run.json. The weights of a run that is not finished are the best so far.
	RunState string `json:"run_state"`

	Engine  string `json:"engine"`
	Device  string `json:"device,omitempty"` // the GPU, with the engine gpu
	BLAS    string `json:"blas"`
	SIMD    string `json:"simd"`
	Threads int    `json:"threads"`
	IO      string `json:"io"`
	Weights string `json:"weights"` // best or final
	// StateDType is the type of the hidden layers between their computation and their use, where all nodes
	// were computed.
	StateDType string `json:"state_dtype,omitempty"`
	// OtherGraph says that the graph is not the one that the run was trained on.
	OtherGraph bool `json:"other_graph,omitempty"`

	Layers        []LayerCost `json:"layers,omitempty"` // where all nodes were computed, layer by layer
	BytesRead     int64       `json:"bytes_read"`
	BytesWritten  int64       `json:"bytes_written"` // to the scratch directory
	Memory        int64       `json:"memory_bytes"`
	Seconds       float64     `json:"seconds"`
	PeakRSSBytes  int64       `json:"peak_rss_bytes"`
	PeakAnonBytes int64       `json:"peak_anon_bytes"`
}

// LayerCost is the cost of computing one layer of all nodes.
type LayerCost struct {
	Layer  int    `json:"layer"`  // from 0, the one that takes the features
	Order  string `json:"order"`  // of its operations
	Nodes  int64  `json:"nodes"`  // computed
	Ranges int    `json:"ranges"` // tiles of destinations: passes over its table
	Blocks int64  `json:"blocks"` // of sources, that passed by each tile
	// Sources counts the rows that passed by, once for every tile.
	Sources        int64   `json:"sources"`
	Edges          int64   `json:"edges"`
	Seconds        float64 `json:"seconds"`
	ReadSeconds    float64 `json:"read_seconds"`
	ComputeSeconds float64 `json:"compute_seconds"`
	BytesRead      int64   `json:"bytes_read"`
	BytesWritten   int64   `json:"bytes_written"`
}
