package importer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

const none = int64(graph.Unlabelled)

// TestLabel gives nodes classes by number, the highest and the lowest that there are among them.
func TestLabel(t *testing.T) {
	l := newLabelling(&Shape{Nodes: 5})
	if got := l.Classes(); got != 0 {
		t.Errorf("%d classes of no labels", got)
	}
	for v, class := range []int64{7, none, 0, math.MaxInt32 - 1, -100} {
		if err := l.Label(int64(v), class); err != nil {
			t.Error(err)
		}
	}
	if want := []int32{7, -1, 0, math.MaxInt32 - 1, -1}; !slices.Equal(l.classes, want) || l.Classes() != math.MaxInt32 {
		t.Errorf("%d, %d classes", l.classes, l.Classes())
	}
	few := newLabelling(&Shape{Nodes: 5, Classes: 3})
	if err := few.Label(4, 2); err != nil || few.Classes() != 3 {
		t.Errorf("%d classes, %v", few.Classes(), err)
	}
	one := newLabelling(&Shape{Nodes: 1, Classes: 1})
	for what, err := range map[string]error{
		"node 0 has the label 1, but there are 1 classes, counted from 0, or -1 for none":                                                     one.Label(0, 1),
		"node 3 has the label 3, but there are 3 classes, counted from 0, or -1 for none":                                                     few.Label(3, 3),
		"node 4 has the label -2, but there are 3 classes, counted from 0, or -1 for none":                                                    few.Label(4, -2),
		"node 1 has the label -2: labels are classes, counted from 0, or -1 for none":                                                         l.Label(1, -2),
		"node 2 has the label 2147483647: labels are classes, counted from 0, or -1 for none":                                                 l.Label(2, math.MaxInt32),
		"node 0 has the label 1.5: labels are whole numbers, one for each class; real numbers are regression, and diskgnn trains classifiers": l.Number(0, 1.5),
		"node 1 has the label -101: labels are classes":                                                                                       l.Number(1, -101),
		"node 1 has the label -99: labels are classes":                                                                                        l.Label(1, -99),
		"node 0 has the label +Inf: labels are whole numbers":                                                                                 l.Number(0, math.Inf(1)),
		"node 0 has the label 1.8014398509481984e+16: labels are whole numbers":                                                               l.Number(0, 1<<54),
		"node 0 has the label -1.8014398509481984e+16: labels are whole numbers":                                                              l.Number(0, -1<<54),
		"node 0 has the label 9007199254740992: labels are classes, counted from 0, or -1 for none":                                           l.Number(0, 1<<53), // the last that is exact
		"the train set has node 5, but there are only 5 nodes":                                                                                l.Assign(5, 1),
		"the test set has node -1, but there are only 5 nodes":                                                                                l.Assign(-1, 3),
	} {
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want %q", err, what)
		}
	}
	if err := errors.Join(l.Number(0, math.NaN()), l.Number(2, -1), l.Number(1, 6), l.Number(3, -100)); err != nil {
		t.Error(err)
	}
	if want := []int32{7, 6, -1, -1}; !slices.Equal(l.classes[:4], want) { // NaN leaves a node as it is
		t.Errorf("%d", l.classes)
	}
}

// TestAssign puts each node into one split.
func TestAssign(t *testing.T) {
	l := newLabelling(&Shape{Nodes: 4, Classes: 2})
	if err := errors.Join(l.Assign(0, 1), l.Assign(3, 2), l.Assign(2, 3), l.Label(0, 0), l.Label(1, 1), l.Label(2, 1)); err != nil {
		t.Fatal(err)
	}
	if want := []uint8{1, 0, 3, 2}; !slices.Equal(l.part, want) {
		t.Errorf("%d", l.part)
	}
	if unlabelled, train, valid, test := l.count(); unlabelled != 1 || train != 1 || valid != 0 || test != 1 { // node 3 has no label
		t.Errorf("%d without labels, %d, %d and %d with", unlabelled, train, valid, test)
	}
	for what, err := range map[string]error{
		"node 0 is in the train set twice":                l.Assign(0, 1),
		"node 3 is in the valid set and in the train set": l.Assign(3, 1),
		"node 2 is in the test set and in the valid set":  l.Assign(2, 2),
	} {
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want %q", err, what)
		}
	}
}

// TestRow gives a node classes by columns.
func TestRow(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		row  []float32
		bits byte
		none bool
		says string
	}{
		{[]float32{1, 0, 1}, 0b101, false, ""},
		{[]float32{0, 0, 0}, 0, false, ""}, // of no class, but labelled
		{[]float32{nan, nan, nan}, 0, true, ""},
		{[]float32{-1, -1, -1}, 0, true, ""},
		{[]float32{-100, -100, -100}, 0, true, ""},
		{[]float32{-100, -1, -100}, 0, false, "node 1 has -100 in the column of class 0"},
		{[]float32{nan, -1, -1}, 0, false, "only of -1, -100 or NaN"},
		{[]float32{0, .5, 1}, 0, false, "node 1 has 0.5 in the column of class 1: rows consist of 0 and 1 or, for no label, only of -1, -100 or NaN; real numbers are regression, and diskgnn trains classifiers"},
		{[]float32{1, nan, nan}, 0, false, "node 1 has NaN in the column of class 1"},
		{[]float32{-1, nan, -1}, 0, false, "node 1 has -1 in the column of class 0"},
		{[]float32{0, 0, 2}, 0, false, "node 1 has 2 in the column of class 2"},
	} {
		l := newLabelling(&Shape{Nodes: 2, Classes: 3, Multi: true})
		err := l.Row(1, c.row)
		if err != nil && strings.Contains(err.Error(), "regression") != (c.row[1] == .5) {
			t.Errorf("%v: %v", c.row, err)
		}
		if c.says != "" {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: %v; want %q", c.row, err, c.says)
			}
			continue
		}
		if want := map[bool]int32{false: 0, true: graph.Unlabelled}[c.none]; err != nil || l.targets[1] != c.bits || l.classes[1] != want || l.classes[0] != graph.Unlabelled {
			t.Errorf("%v: bits %b, class %d, %v", c.row, l.targets[1], l.classes[1], err)
		}
	}
}

// TestOneHotRow gives a node the class of the column that has its one.
func TestOneHotRow(t *testing.T) {
	for _, c := range []struct {
		row   []float32
		class int32
		says  string
	}{
		{[]float32{1, 0, 0}, 0, ""},
		{[]float32{0, 0, 1}, 2, ""},
		{[]float32{0, 0, 0}, -1, ""},
		{[]float32{-1, -1, -1}, -1, ""},
		{[]float32{0, 1, 1}, -1, "node 1 has a 1 in the columns of classes 1 and 2: with --labels-as classes, a row has one 1"},
		{[]float32{1, 1, 1}, -1, "node 1 has a 1 in the columns of classes 0 and 1"},
		{[]float32{0, 2, 0}, -1, "node 1 has 2 in the column of class 1"},
	} {
		l := newLabelling(&Shape{Nodes: 2, Classes: 3, oneHot: true})
		err := l.Row(1, c.row)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v; want %q", c.row, err, c.says)
		}
		if l.classes[1] != c.class || l.classes[0] != graph.Unlabelled || l.Classes() != 3 || l.question("x") != nil {
			t.Errorf("%v: classes %d of %d, %v", c.row, l.classes, l.Classes(), l.question("x"))
		}
	}
}

// TestQuestion asks where each row has a single one, and nowhere else.
func TestQuestion(t *testing.T) {
	for _, c := range []struct {
		rows [][]float32
		asks bool
	}{
		{nil, false},
		{[][]float32{{-1, -1}}, false},
		{[][]float32{{0, 1}}, true},
		{[][]float32{{0, 1}, {-1, -1}, {1, 0}}, true},
		{[][]float32{{0, 1}, {1, 0}, {0, 0}}, false},
		{[][]float32{{1, 1}, {1, 0}, {0, 1}}, false},
	} {
		l := newLabelling(&Shape{Nodes: 3, Classes: 2, Multi: true})
		for v, row := range c.rows {
			if err := l.Row(int64(v), row); err != nil {
				t.Fatal(err)
			}
		}
		err := l.question("l.npy")
		if (err != nil) != c.asks || c.asks && (!errors.Is(err, fault.ErrInput) || err.Error() != "l.npy: every row of labels has a single 1 in 2 columns: give --labels-as classes if a node has one class, or --labels-as multi if it may have several") {
			t.Errorf("%v: %v", c.rows, err)
		}
	}
	one := newLabelling(&Shape{Nodes: 3})
	if err := errors.Join(one.Label(0, 1), one.question("x")); err != nil {
		t.Error(err)
	}
}

// rowLabels is a source with a row of labels for each node.
type rowLabels struct {
	Source
	rows [][]float32
}

func (r rowLabels) Labels(_ context.Context, l *Labelling) error {
	for v, row := range r.rows {
		if err := l.Row(int64(v), row); err != nil {
			return err
		}
	}
	return nil
}

// TestAsks: rows that each have a single one are refused where the format takes the answer, and the user
// gave none.
func TestAsks(t *testing.T) {
	for _, c := range []struct {
		takes []string
		as    string
		asks  bool
	}{
		{[]string{"labels-as"}, "", true},
		{[]string{"labels-as"}, LabelsAsMulti, false},
		{nil, "", false},
	} {
		im := &importing{format: Format{Takes: c.takes}, shape: Shape{Nodes: 2, Classes: 2, Multi: true}, src: rowLabels{rows: [][]float32{{0, 1}, {1, 0}}}}
		im.o.LabelsAs, im.o.LabelFile = c.as, "l.npy"
		l, err := im.readLabels(t.Context())
		if c.asks && !errors.Is(err, fault.ErrInput) || !c.asks && (err != nil || l.targets[0] != 0b10 || l.targets[1] != 0b01) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSettleLabels: the user's word that rows of ones and zeros are classes is kept beside the other notes
// on how the source is read.
func TestSettleLabels(t *testing.T) {
	for _, c := range []struct {
		as      string
		multi   bool
		reading map[string]string
		want    string // of Reading
		says    string
	}{
		{LabelsAsClasses, true, nil, "map[labels_as:classes]", ""},
		{LabelsAsClasses, true, map[string]string{"task": "x"}, "map[labels_as:classes task:x]", ""},
		{LabelsAsClasses, false, map[string]string{"task": "x"}, "map[task:x]", ""},
		{LabelsAsMulti, true, map[string]string{"task": "x"}, "map[task:x]", ""},
		{LabelsAsMulti, false, nil, "map[]", "--labels-as multi: l.npy has one class for each node, not a column for each class"},
	} {
		im := &importing{shape: Shape{Multi: c.multi, Reading: c.reading}}
		im.o.LabelsAs, im.o.LabelFile = c.as, "l.npy"
		err := im.settleLabels()
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
		if got := fmt.Sprint(im.shape.Reading); got != c.want || im.shape.oneHot != (c.multi && c.as == LabelsAsClasses) || len(c.reading) > 1 {
			t.Errorf("%+v: %s, %+v", c, got, im.shape)
		}
	}
}

// TestSplitIsNotWritten fails the first write of a split, which is due with the fifth piece of its nodes: in
// the loop over the nodes, or behind it.
func TestSplitIsNotWritten(t *testing.T) {
	boom := errors.New("boom")
	for _, nodes := range []int64{5 * Chunk, 4*Chunk + 1} {
		fail := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool {
			return op == vfs.OpWrite && filepath.Base(name) == dataset.SplitFile(dataset.Valid)
		}}
		im := &importing{fs: vfs.Inject(vfs.OS, fail), shape: Shape{Nodes: nodes, Dim: 1, Classes: 1}, rep: progress.Discard}
		im.o.DType = dtype.Float32
		var err error
		if im.w, _, err = im.begin(t.Context(), filepath.Join(t.TempDir(), "D"), nil); err != nil {
			t.Fatal(err)
		}
		l := newLabelling(&im.shape)
		for v := range nodes {
			if err := errors.Join(l.Label(v, 0), l.Assign(v, 2)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := im.writeSplit(t.Context(), l, 2); !errors.Is(err, boom) {
			t.Errorf("%d nodes: %v", nodes, err)
		}
		if err := im.w.End(boom); !errors.Is(err, boom) {
			t.Error(err)
		}
	}
}

// TestNotes tells of classes without nodes.
func TestNotes(t *testing.T) {
	many := make([]int64, 0, 40)
	for c := range int64(40) {
		many = append(many, 1000*c)
	}
	for _, c := range []struct {
		limit  int
		labels []int64
		want   string
	}{
		{0, []int64{0, 1, 2}, ""},
		{0, []int64{0}, ""},
		{0, nil, ""},
		{0, []int64{-1, -1}, ""},
		{0, []int64{3, 1, 2, -1}, "class 0 has no node: labels seem to be counted from 1; the model gets 4 classes"},
		{0, []int64{1, 1}, "class 0 has no node: labels seem to be counted from 1; the model gets 2 classes"},
		{4, []int64{3, 1, 2}, ""},
		{0, []int64{0, 3}, ""}, // half of them
		{0, []int64{0, 4}, "3 of 5 classes have no node: labels are numbers up to 4, and the model gets a class for each"},
		{0, []int64{4}, "4 of 5 classes have no node: labels are numbers up to 4, and the model gets a class for each"},
		{0, []int64{0, 63, 63}, "62 of 64 classes have no node: labels are numbers up to 63, and the model gets a class for each"},
		{0, []int64{0, 64, 129}, "127 of 130 classes have no node: labels are numbers up to 129, and the model gets a class for each"},
		{0, many, "38961 of 39001 classes have no node: labels are numbers up to 39000, and the model gets a class for each"},
		{0, []int64{0, 1<<20 - 1}, "1048574 of 1048576 classes have no node: labels are numbers up to 1048575, and the model gets a class for each"},
		{0, []int64{0, 1 << 20}, "labels are up to 1048576, but only 2 nodes have one: most of the model's 1048577 classes have no node"},
		{0, append(slices.Repeat([]int64{1<<20 + 1}, 1<<19), 0), ""}, // two classes a node
		{0, []int64{0, math.MaxInt32 - 1, -1}, "labels are up to 2147483646, but only 2 nodes have one: most of the model's 2147483647 classes have no node"},
	} {
		l := newLabelling(&Shape{Nodes: int64(len(c.labels)) + 1, Classes: c.limit})
		for v, class := range c.labels {
			if err := l.Label(int64(v), class); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(l.notes(), "; "); got != c.want {
			t.Errorf("%d: %q, want %q", c.labels[:min(len(c.labels), 5)], got, c.want)
		}
	}
	full := newLabelling(&Shape{Nodes: 1<<20 + 1})
	for v := range int64(1<<20 + 1) {
		if err := full.Label(v, v); err != nil {
			t.Fatal(err)
		}
	}
	if got := full.notes(); got != nil {
		t.Errorf("no class is empty: %q", got)
	}
	if full.classes[0] = 5; full.notes() == nil {
		t.Error("no note of class 0 among many")
	}
}
