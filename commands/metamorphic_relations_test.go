package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/metamorphic"
	"diskgnn/internal/stage"
)

// reference returns the path of a directory of the reference.
func (l *variantRun) reference(name string) string {
	return filepath.Join(l.dir, strconv.Itoa(metamorphic.Reference), name)
}

// content returns the files of a directory that its fingerprint covers.
func content(dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "run.json" || strings.HasSuffix(path, ".pages") {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = b
		return err
	})
	return files, err
}

// sameFiles compares a directory with the reference's, byte by byte.
func (l *variantRun) sameFiles(name string) error {
	want, err := content(l.reference(name))
	if err != nil {
		return err
	}
	got, err := content(l.path(name))
	if err == nil {
		if file := differing(want, got); file != "" {
			err = fmt.Errorf("%s%s of variant %d differs from variant 0's", name, file, l.variant)
		}
	}
	return err
}

// differing returns the name of a file that has other bytes in got than in want, or is in one of them only;
// or "" if there is none.
func differing(want, got map[string][]byte) string {
	for _, list := range []map[string][]byte{want, got} {
		for _, file := range slices.Sorted(maps.Keys(list)) {
			a, inWant := want[file]
			b, inGot := got[file]
			if inWant != inGot || !bytes.Equal(a, b) {
				return file
			}
		}
	}
	return ""
}

// content returns the content that a step has made. It does not depend on faults that are over.
func (s *step) content() (map[string][]byte, error) {
	switch s.command {
	case "train":
		return runContent(s.out)
	case "predict":
		if st, err := os.Stat(s.out); err == nil && st.IsDir() {
			break // a shard
		}
		b, err := os.ReadFile(s.out)
		return map[string][]byte{"": b}, err
	}
	return content(s.out)
}

// runContent returns the weights and losses of a run.
func runContent(dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, name := range []string{"metrics.jsonl", "final.safetensors", "weights.safetensors"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // without an engine
			continue
		case err != nil:
			return nil, err
		case name == "metrics.jsonl":
			b = losses(b)
		}
		files["/"+name] = b
	}
	return files, nil
}

// remove removes all that a step has made.
func (s *step) remove() error {
	return errors.Join(os.RemoveAll(s.out), os.RemoveAll(stage.Partial(s.out)))
}

// bits reports whether the weights of a variant must have the reference's bits: the order of sums
// follows from the blocks alone, or the rows are in the same order.
func (l *variantRun) bits() bool {
	p := l.p
	same := func(flag string) bool {
		return p.Free(l.variant, "train", flag) == p.Free(metamorphic.Reference, "train", flag)
	}
	return same("engine") && (l.sumsFixed() || same("store") && same("ram-cache") && same("memory"))
}

// sumsFixed reports whether the order of sums follows from the blocks alone.
func (l *variantRun) sumsFixed() bool {
	p := l.p
	return p.Typed() || p.Value("train", "model") != "gat" && (p.Value("train", "layer-order") == "aggregate" || p.Value("train", "aggregator") == "max")
}

// learns reports whether the variant's training has weights: the engine none only loads batches.
func (l *variantRun) learns() bool { return l.engine() != "none" }

// comparable reports whether the variant trains on the reference's rows and batches.
func (l *variantRun) comparable() bool {
	rounded := l.p.Value("pack", "dtype") != "" && l.p.Store(l.variant) != "packed"
	return l.learns() && !rounded && !l.fresh()
}

// fresh reports whether the variant draws other batches while training than the samples have.
func (l *variantRun) fresh() bool {
	p := l.p
	drawn, epochs := max(1, number(p.Value("presample", "epochs"))), number(p.Value("train", "epochs"))
	return p.Live(l.variant) && (p.Value("presample", "order") != "" || drawn < epochs ||
		p.Value("train", "input-projection") != "" && drawn != epochs) // dropout there follows from the hotness
}

func number(s string) int { n, _ := strconv.Atoi(s); return n }

// sameRun compares the run with the reference's, or with one on samples of the batches that the variant draws.
func (l *variantRun) sameRun() error {
	if err := l.sameAsOneGPU(); err != nil {
		return err
	}
	other, bits := l.reference("run"), l.bits()
	if l.fresh() {
		other, bits = l.path("plain"), l.sumsFixed() && l.engine() == "cpu"
		if err := l.plainRun(other); err != nil {
			return err
		}
	}
	// Rounded rows give other scores, and these may end the run in another epoch.
	if err := l.sameBatches(other, bits && (l.fresh() || l.comparable())); err != nil || !l.learns() || !l.fresh() && !l.comparable() {
		return err
	}
	if !bits {
		return l.sameFirstLoss(other)
	}
	want, err := runContent(other)
	if err != nil {
		return err
	}
	got, err := runContent(l.path("run"))
	if err == nil {
		if file := differing(want, got); file != "" {
			err = fmt.Errorf("%s of variant %d differs from %s", strings.TrimPrefix(file, "/"), l.variant, l.named(other))
		}
	}
	return err
}

// sameAsOneGPU compares the run on several GPUs with that on one. Their gradients are summed on the host, in the
// order of the batches.
func (l *variantRun) sameAsOneGPU() error {
	if l.one == nil {
		return nil
	}
	got, err := runContent(l.path("run"))
	if err == nil {
		if file := differing(l.one, got); file != "" {
			err = fmt.Errorf("%s of variant %d, on %s GPUs, differs from that on one", strings.TrimPrefix(file, "/"), l.variant, l.p.Free(l.variant, "train", "gpus"))
		}
	}
	return err
}

// recorded compares the parameters in run.json with the options of train.
func (l *variantRun) recorded() error {
	b, err := os.ReadFile(filepath.Join(l.path("run"), "run.json"))
	if err != nil {
		return err
	}
	var run struct{ Params map[string]any }
	if err := json.Unmarshal(b, &run); err != nil {
		return err
	}
	for _, s := range l.p.Content {
		want := strings.Replace(s.Value, "yes", "true", 1)
		got, ok := run.Params[strings.ReplaceAll(s.Flag, "-", "_")]
		if s.Command == "train" && s.Flag != "init-from" && (!ok || fmt.Sprint(got) != want) {
			return fmt.Errorf("run.json of variant %d has %v for --%s %s", l.variant, got, s.Flag, s.Value)
		}
	}
	return nil
}

// named describes a run that is compared with.
func (l *variantRun) named(run string) string {
	if run == l.reference("run") {
		return "variant 0's"
	}
	return "that on samples of the same batches"
}

// plainRun trains on samples of the batches that the variant draws while training.
func (l *variantRun) plainRun(out string) error {
	samples := []string{"presample", "--dataset", l.path("graph"), "--out", l.path("drawn"), "--epochs", l.p.Value("train", "epochs")}
	for _, f := range l.drawing() {
		samples = append(samples, strings.Replace(f, "--sample-seed", "--seed", 1))
	}
	if err := l.inPeace(step{args: samples}); err != nil {
		return err
	}
	args := []string{"train", "--dataset", l.path("graph"), "--samples", l.path("drawn"), "--store", "memory", "--out", out, "--engine", "cpu"}
	args = append(args, l.contentFlags("train", "init-from")...)
	if l.p.Value("train", "init-from") != "" {
		args = append(args, "--init-from", l.reference("init"))
	}
	return l.inPeace(step{args: args})
}

// epochFacts is a line of metrics.jsonl, in part.
type epochFacts struct {
	Epoch      int
	Loss       float64
	Batches    int
	InputNodes int `json:"input_nodes"`
}

// epochs returns the epochs of a run.
func epochs(dir string) (list []epochFacts, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	for line := range bytes.Lines(b) {
		var e epochFacts
		err = errors.Join(err, json.Unmarshal(line, &e))
		list = append(list, e)
	}
	return list, err
}

// sameBatches compares the numbers of batches and of their input nodes with another run's. They do not depend on
// engines, stores and types of rows. Only with equal bits must the numbers of epochs be equal: they
// may follow from scores.
func (l *variantRun) sameBatches(other string, bits bool) error {
	want, err := epochs(other)
	if err != nil {
		return err
	}
	got, err := epochs(l.path("run"))
	if err != nil {
		return err
	}
	patient := l.p.Value("train", "patience") != ""
	if len(got) == 0 || len(got) != len(want) && (bits || !patient) {
		return fmt.Errorf("variant %d trained %d epochs, %s has %d", l.variant, len(got), l.named(other), len(want))
	}
	for i := range min(len(got), len(want)) {
		if a, b := want[i], got[i]; a.Epoch != b.Epoch || a.Batches != b.Batches || a.InputNodes != b.InputNodes {
			return fmt.Errorf("epoch %d of variant %d has %d batches with %d input nodes, %s has %d with %d", b.Epoch, l.variant, b.Batches, b.InputNodes, l.named(other), a.Batches, a.InputNodes)
		}
	}
	return nil
}

// sameFirstLoss compares the first loss with another run's, which sums rows in another order. Only the losses of
// the first step agree to 1e-5: gradients that vanish in the formulas, such as an attention's where all edges of
// a node have one sign, or a batch norm's of one row, are rounding errors in float32, and Adam makes whole steps
// of them. So the first epoch must be one step.
func (l *variantRun) sameFirstLoss(other string) error {
	want, err := epochs(other)
	if err != nil {
		return err
	}
	got, err := epochs(l.path("run"))
	if err != nil || want[0].Batches > number(l.p.Value("train", "accumulate")) {
		return err
	}
	if a, b := want[0].Loss, got[0].Loss; !(math.Abs(b-a) <= 1e-5*(1+math.Abs(a))) {
		return fmt.Errorf("the first loss of variant %d is %v, of %s %v", l.variant, b, l.named(other), a)
	}
	return nil
}

func (l *variantRun) samePredictions() error {
	if !l.comparable() || !l.bits() {
		return nil
	}
	want, err := os.ReadFile(l.reference("out.npy"))
	if err != nil {
		return err
	}
	got, err := os.ReadFile(l.path("out.npy"))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("predictions of variant %d differ from variant 0's", l.variant)
	}
	return err
}

// losses returns the content of metrics.jsonl without times and counters of reads.
func losses(metrics []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(metrics) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			fmt.Fprintln(&out, err)
		}
		for _, k := range []string{"epoch", "lr", "loss", "train_accuracy", "valid_accuracy", "train_f1", "valid_f1", "batches", "input_nodes"} {
			fmt.Fprint(&out, k, " ", e[k], " ")
		}
		fmt.Fprintln(&out)
	}
	return out.Bytes()
}
