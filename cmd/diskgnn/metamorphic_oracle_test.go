package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/train/oracle"
)

// sameFirstLoss compares the first loss with the reference's, which sums rows in another order. Weights
// are equal before the first step only, so the first epoch must be one step.
func (l *variantRun) sameFirstLoss() error {
	if !l.oneStep() {
		return nil
	}
	want, err := firstLoss(l.reference("run"))
	if err != nil {
		return err
	}
	got, err := firstLoss(l.path("run"))
	if err == nil && math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
		err = fmt.Errorf("the first loss of variant %d is %v, variant 0's %v", l.variant, got, want)
	}
	return err
}

// oneStep reports whether an epoch is one step.
func (l *variantRun) oneStep() bool { return l.p.Value("presample", "batch-size") == "500" }

// firstLoss returns the loss of the first epoch of a run.
func firstLoss(dir string) (float64, error) {
	b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var e struct{ Loss float64 }
	return e.Loss, json.Unmarshal(line, &e)
}

// judgeRun compares predictions, and the loss of the weights on a whole graph, with the formulas.
func (l *variantRun) judgeRun() error {
	d, err := oracle.OpenDataset(l.path("graph"))
	if err != nil {
		return err
	}
	weights, err := oracle.OpenRun(l.path("run"), "weights.safetensors")
	if err != nil {
		return err
	}
	layers := weights.Layers(&d.Graph)
	if names := weights.Unused(); len(names) > 0 {
		return fmt.Errorf("the formulas do not have %v", names)
	}
	if err := l.judgePredictions(d, layers, weights.Largest); err != nil {
		return err
	}
	return l.judgeLoss(d, layers[len(layers)-1])
}

// judgePredictions compares predictions with the outputs of the layers. largest is the largest sum of
// absolute terms, to which rounding errors are relative.
func (l *variantRun) judgePredictions(d *oracle.Dataset, layers [][][]float64, largest float64) error {
	got, columns, err := readNPY(l.path("out.npy"))
	if err != nil {
		return err
	}
	var nodes []int
	switch set := l.p.Value("predict", "nodes"); set {
	case "":
		for v := range d.X {
			nodes = append(nodes, v)
		}
	default:
		nodes = d.Splits[slices.Index([]string{"train", "valid", "test"}, set)]
	}
	if len(got) != len(nodes)*columns {
		return fmt.Errorf("predictions of %d nodes have %d × %d values", len(nodes), len(got)/max(columns, 1), columns)
	}
	logits := layers[len(layers)-1]
	tolerance := 1e-4 * (1 + largest)
	for i, v := range nodes {
		row := got[i*columns:][:columns]
		want := logits[v]
		switch l.p.Value("predict", "output") {
		case "embeddings":
			want = layers[len(layers)-2][v]
		case "classes":
			if err := judgeClasses(row, want, tolerance, d.Facts.LabelKind == "multi-hot"); err != nil {
				return fmt.Errorf("node %d: %w", v, err)
			}
			continue
		}
		for c, x := range row {
			if math.Abs(x-want[c]) > tolerance || x != x {
				return fmt.Errorf("variant %d: column %d of node %d is predicted as %v, by the formulas %v", l.variant, c, v, x, want[c])
			}
		}
	}
	return nil
}

// judgeClasses compares the class, or the classes, of a node with its logits.
func judgeClasses(row, logits []float64, tolerance float64, multi bool) error {
	if !multi {
		if best := slices.Max(logits); logits[int(row[0])] < best-tolerance {
			return fmt.Errorf("class %v is predicted, of the logits %v", row[0], logits)
		}
		return nil
	}
	for c, x := range row {
		if (x == 1) != (logits[c] > 0) && math.Abs(logits[c]) > tolerance {
			return fmt.Errorf("class %d is predicted as %v, of the logit %v", c, x, logits[c])
		}
	}
	return nil
}

// judgeLoss trains for one step from the run's weights, on a single batch with all neighbours. The loss
// of this step is the loss of these weights on the whole graph.
func (l *variantRun) judgeLoss(d *oracle.Dataset, logits [][]float64) error {
	p := l.p
	if !p.AllNeighbours() || !l.oneStep() || p.Value("generate", "multi-label") != "" || p.Value("pack", "dtype") != "" || p.Value("train", "norm") == "batch" ||
		p.Value("train", "gcn-norm") == "block" || p.Value("presample", "train-ratio") != "" || p.Value("presample", "partitions") != "" || p.Store(l.variant) != "packed" || p.Value("generate", "by") != "" && p.Value("generate", "by") != "import" {
		return nil
	}
	args := []string{"train", "--pack", l.path("pack"), "--out", l.path("step"), "--init-from", l.path("run"), "--engine", "cpu", "--epochs", "1", "--dropout", "0"}
	args = append(args, l.modelFlags()...)
	if err := l.inPeace(step{args: args}); err != nil {
		return err
	}
	got, err := firstLoss(l.path("step"))
	if err != nil {
		return err
	}
	if want := oracle.CrossEntropy(logits, d.Labels, d.Splits[0]); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
		return fmt.Errorf("variant %d: the loss on all neighbours is %v, by the formulas %v", l.variant, got, want)
	}
	return nil
}

// readNPY reads a NumPy array of one or two dimensions.
func readNPY(name string) (values []float64, columns int, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, err
	}
	if len(b) < 10 || string(b[:6]) != "\x93NUMPY" {
		return nil, 0, errors.New("no array of NumPy")
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	header, data := string(b[10:10+n]), b[10+n:]
	_, shape, _ := strings.Cut(header, "'shape': (")
	shape, _, _ = strings.Cut(shape, ")")
	columns = 1
	if _, second, two := strings.Cut(shape, ","); two && strings.TrimSpace(second) != "" {
		columns = number(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(second), ",")))
	}
	switch {
	case strings.Contains(header, "<f4"):
		for ; len(data) >= 4; data = data[4:] {
			values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))))
		}
	case strings.Contains(header, "<i4"):
		for ; len(data) >= 4; data = data[4:] {
			values = append(values, float64(int32(binary.LittleEndian.Uint32(data))))
		}
	case strings.Contains(header, "|u1"):
		for _, x := range data {
			values = append(values, float64(x))
		}
	default:
		return nil, 0, fmt.Errorf("an array %s", header)
	}
	return values, columns, nil
}
