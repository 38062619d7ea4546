package commands

import (
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
	var layers [][][]float64
	if d.Typed != nil {
		layers = weights.TypedLayers(d.Typed)
	} else {
		layers = weights.Layers(&d.Graph)
	}
	if names := weights.Unused(); len(names) > 0 {
		return fmt.Errorf("the formulas do not have %v", names)
	}
	if err := l.judgePredictions(d, layers, weights.Largest); err != nil {
		return err
	}
	if l.variant == len(l.p.Variants)-1 { // the others have the same weights and graph, or nearly
		if err := errors.Join(l.judgeScores(d, layers[len(layers)-1], 1e-4*(1+weights.Largest)), l.judgeExport(d)); err != nil {
			return err
		}
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
		nodes = d.Labelled()
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

// judgeScores compares the exact scores of eval with the logits. A node with a larger logit, within the
// tolerance, may count as right or wrong.
func (l *variantRun) judgeScores(d *oracle.Dataset, logits [][]float64, tolerance float64) error {
	if d.Facts.LabelKind == "multi-hot" || l.p.Value("train", "metric") != "" {
		return nil
	}
	c := &call{args: []string{"eval", "--run", l.path("run"), "--dataset", l.path("graph"), "--exact", "--json", "--quiet"}}
	if c.run(); c.code != exitDone {
		return errors.New(c.describe())
	}
	var scores map[string]any
	if err := json.Unmarshal(c.stdout.Bytes(), &scores); err != nil {
		return err
	}
	for i, split := range []string{"train", "valid", "test"} {
		least, most, n := 0.0, 0.0, 0.0
		for _, v := range d.Splits[i] {
			label := d.Labels[v]
			if label < 0 {
				continue
			}
			n++
			above := slices.Max(logits[v]) - logits[v][label]
			others := slices.Delete(slices.Clone(logits[v]), label, label+1)
			if above <= tolerance {
				most++
			}
			if logits[v][label] > slices.Max(others)+tolerance {
				least++
			}
		}
		if got, _ := scores[split+"_accuracy"].(float64); n > 0 && (got*n < least-1e-6 || got*n > most+1e-6) {
			return fmt.Errorf("variant %d: the %s accuracy of %v nodes is %v, by the formulas %v to %v of them are right", l.variant, split, n, got, least, most)
		}
	}
	return nil
}

// judgeExport compares the features that export writes with the dataset's.
func (l *variantRun) judgeExport(d *oracle.Dataset) error {
	format, files, want := "npy", []string{"features.npy"}, d.Features
	if d.Typed != nil {
		format, files = "pyg", nil
		for i, kind := range d.Facts.Types.Nodes {
			if kind.Features {
				files = append(files, fmt.Sprintf("feat%d.npy", i))
			} else {
				want = want[:len(want)-1]
			}
		}
	}
	if err := l.inPeace(step{args: []string{"export", "--dataset", l.path("graph"), "--format", format, "--out", l.path("arrays")}}); err != nil || d.Facts.DType != "float32" {
		return err
	}
	var all []float64
	for _, name := range files {
		got, _, err := readNPY(filepath.Join(l.path("arrays"), name))
		if err != nil {
			return err
		}
		all = append(all, got...)
	}
	if !slices.Equal(all, slices.Concat(want...)) {
		return fmt.Errorf("the exported features of variant %d differ from the dataset's", l.variant)
	}
	return nil
}

// judgeLoss trains for one step from the run's weights, on a single batch with all neighbours. The loss
// of this step is the loss of these weights on the whole graph.
func (l *variantRun) judgeLoss(d *oracle.Dataset, logits [][]float64) error {
	p := l.p
	if !p.AllNeighbours() || p.Value("presample", "batch-size") != "500" || p.Value("generate", "multi-label") != "" || p.Value("pack", "dtype") != "" || p.Value("train", "norm") == "batch" ||
		p.Value("train", "gcn-norm") == "block" || p.Value("presample", "train-ratio") != "" || p.Value("presample", "partitions") != "" || p.Store(l.variant) != "packed" || p.Value("generate", "by") != "" && p.Value("generate", "by") != "import" {
		return nil
	}
	args := []string{"train", "--pack", l.path("pack"), "--out", l.path("step"), "--init-from", l.path("run"), "--engine", "cpu", "--epochs", "1", "--dropout", "0"}
	args = append(args, l.modelFlags()...)
	if err := l.inPeace(step{args: args}); err != nil {
		return err
	}
	got, err := epochs(l.path("step"))
	if err != nil {
		return err
	}
	if want := oracle.CrossEntropy(logits, d.Labels, d.Splits[0]); math.Abs(got[0].Loss-want) > 1e-4*(1+math.Abs(want)) {
		return fmt.Errorf("variant %d: the loss on all neighbours is %v, by the formulas %v", l.variant, got[0].Loss, want)
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
