package exact

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/decide"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
	"diskgnn/train/trained"
)

// validation returns the options of a validator of the world's model.
func (w *world) validation() ValidationOptions {
	return ValidationOptions{Run: w.path("run"), Scratch: w.path("scratch"), Dataset: w.path("dataset"), Batches: "pack", Lineage: w.fingerprint, Model: w.model,
		Metric: recipe.MetricAccuracy, Splits: []string{dataset.Valid, dataset.Test}, Memory: 1 << 30, Threads: 2, IO: "pread", BLAS: "gonum"}
}

// validator opens a validator, and returns the host's and the GPU's memory that its scores take at least.
func (w *world) validator(t *testing.T, o ValidationOptions) (v *Validator, host, gpu int64) {
	t.Helper()
	v, err := OpenValidator(t.Context(), disk, o, progress.Discard)
	check(t, err)
	for _, s := range v.sets {
		v.job.steps = s.steps
		n, _ := v.job.least()
		host = max(host, n)
	}
	return v, host, v.Needs().GPULeast
}

// weights returns the run's weights as an engine has them.
func (w *world) weights(t *testing.T) []float32 {
	t.Helper()
	run, err := trained.Open(disk, w.path("run"))
	check(t, err)
	e, _, err := run.NewEngine(trained.EngineOptions{Weights: trained.WeightsBest, Threads: 1, BLAS: "gonum"}, 0, 1<<30)
	check(t, err)
	defer e.Close()
	weights, err := e.Snapshot(nil)
	check(t, err)
	return weights
}

// accuracy is the share of nodes with the largest logit at their label.
func (w *world) accuracy(logits [][]float64, nodes []uint32) float64 {
	right, all := 0, 0
	for _, v := range nodes {
		if w.raw.Labels[v] < 0 {
			continue
		}
		if all++; slices.Index(logits[v], slices.Max(logits[v])) == int(w.raw.Labels[v]) {
			right++
		}
	}
	return float64(right) / float64(all)
}

// logits computes the logits that a score is of.
func (v *Validator) logits(t *testing.T, weights []float32, split string) (all []float32) {
	t.Helper()
	s, before := v.set(split), device.HostBytes()
	add := func(_ context.Context, _ int, rows []float32) error {
		all = append(all, rows...)
		if n := device.HostBytes() - before; n > v.Outside() {
			t.Errorf("%d bytes are held, %d are planned", n, v.Outside())
		}
		return nil
	}
	check(t, v.compute(t.Context(), s, weights, add))
	return all
}

// The scores of models, on either engine, have the bits of Evaluate's, with all states on disk or in memory,
// and are the accuracy by the formulas in float64. Other weights in between change nothing.
func TestValidatorScoresAsEvaluate(t *testing.T) {
	raw := datasettest.Params{Nodes: 100, Dim: 6, Classes: 3, Seed: 8}.Raw()
	multigraph(&raw, 3, 5000, 1)
	models := everyModel()
	for _, name := range []string{"gcn, residual", "sage of all", "max", "gat", "gat of all"} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, vfstest.TempDir(t), raw, models[name])
			states, _ := w.oracle(t)
			w.checkValidator(t, nil, states[2])
			if name == "sage of all" || name == "gat" {
				w.checkValidator(t, cudatest.Open(t), states[2])
			}
		})
	}
}

func (w *world) checkValidator(t *testing.T, d *cuda.Device, exactly [][]float64) {
	t.Helper()
	o, options, p := w.validation(), w.options(), parts{stack: all.Open, gpu: d}
	if d != nil {
		o.GPU, options.Engine = d, decide.EngineGPU
	}
	want, err := evaluate(t.Context(), disk, options, progress.Discard, p)
	check(t, err)
	out := PredictOptions{Options: options, Out: w.path("out.npy"), Force: true}
	_, err = predict(t.Context(), disk, out, progress.Discard, p)
	check(t, err)
	every, _ := readNPY(t, out.Out)
	v, host, gpu := w.validator(t, o)
	defer func() {
		check(t, v.Close())
		if d == nil {
			return
		}
		if held, pinned := d.Held(); held != 0 || pinned != 0 {
			t.Errorf("%d bytes of the GPU and %d pinned were not given back", held, pinned)
		}
	}()
	weights, others := w.weights(t), make([]float32, len(w.weights(t)))
	for i, more := range []int64{0, 2000, 1 << 30} {
		check(t, v.Arrange(host+more, gpu+more))
		if disk := v.onDisk() > 0; disk != (i < 2) && i != 1 {
			t.Errorf("%d bytes more than the least: states on disk: %t", more, disk)
		}
		for _, s := range v.sets {
			for k := range s.steps {
				if p := &s.steps[k].plan; d != nil && (p.GPU > gpu+more || p.GPU == 0) {
					t.Errorf("a step takes %d bytes of the GPU, of %d", p.GPU, gpu+more)
				}
			}
		}
		before := device.HostBytes()
		for split, want := range map[string]float64{dataset.Valid: float64(want.ValidAccuracy), dataset.Test: float64(want.TestAccuracy)} {
			got, read, err := v.Score(t.Context(), weights, split)
			check(t, err)
			nodes := map[string][]uint32{dataset.Valid: w.raw.Valid, dataset.Test: w.raw.Test}[split]
			if float64(got) != want || math.Abs(want-w.accuracy(exactly, nodes)) > 1e-9 {
				t.Errorf("%s: %v, by Evaluate %v, by the formulas %v", split, got, want, w.accuracy(exactly, nodes))
			}
			if r := v.job.reads(); read != r.bytes {
				t.Errorf("%s: %d bytes were read, %d are planned", split, read, r.bytes)
			}
			if i > 0 {
				continue
			}
			_, _, err = v.Score(t.Context(), others, split)
			check(t, err)
			rows := v.logits(t, weights, split)
			first := v.job.everyNode(new(v.job.data.Facts())).first
			for k, u := range nodes {
				u -= first
				if n := w.model.Classes(); !slices.Equal(binio.Bytes(rows[k*n:(k+1)*n]), binio.Bytes(every[int(u)*n:(int(u)+1)*n])) {
					t.Fatalf("node %d has other bits than predicted", u)
				}
			}
		}
		if n := device.HostBytes(); n != before {
			t.Errorf("%d bytes of host memory were not given back", n-before)
		}
		if _, err := os.Stat(o.Scratch); err == nil {
			t.Errorf("the scratch directory is still there")
		}
	}
}

// A validator holds as much as Needs says: as much as a job, but the reserve, the labels of all nodes while it
// opens, and one set of counts for all splits. A score of no split is undefined.
func TestValidatorNeeds(t *testing.T) {
	raw := datasettest.Params{Nodes: 2000, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GCN, Dims: []int{4, 750, 2}, GCNNorm: model.BlockNorm})
	v, least, _ := w.validator(t, w.validation())
	defer func() { check(t, v.Close()) }()
	o := w.options()
	o.EnsureDefaults()
	j := &job{fs: disk, options: o, report: progress.Discard, parts: parts{stack: all.Open}}
	check(t, j.open(t.Context()))
	defer func() { check(t, j.close()) }()
	f := j.data.Facts()
	exam, _ := examBytes(&f, recipe.MetricAccuracy, []string{dataset.Valid, dataset.Test})
	// The job's engine has the file of weights and its tensors, the validator's a copy of the weights.
	want := j.fixed - budget.Reserve - 4*int64(len(w.weights(t))) + exam + 22*8 + 4*2000
	n := v.Needs()
	if n.Fixed != want || n.Opening != 8000 {
		t.Errorf("%+v, want %d bytes at all times", n, want)
	}
	if most := v.job.most(); n.Most != most || n.Least != least || n.GPULeast != 0 || n.GPUMost != 0 {
		t.Errorf("%+v, want from %d to %d", n, least, most)
	}
	if s, read, err := v.Score(t.Context(), w.weights(t), dataset.Train); s.Defined() || read != 0 || err != nil {
		t.Errorf("%v, %d, %v", s, read, err)
	}
	check(t, v.Arrange(n.Most, 0))
	if text := v.String(); !strings.Contains(text, "exact, valid nodes: ") || !strings.Contains(text, ", test nodes: ") || strings.Contains(text, "disk") {
		t.Errorf("%s", text)
	}
	if outside := v.Outside(); outside < 2000*4*750 || outside > n.Most+16<<20 {
		t.Errorf("%d bytes outside of the heap", outside)
	}
	check(t, v.Arrange(least, 0))
	if text := v.String(); !strings.HasSuffix(text, "reads "+budget.FormatBytes(v.job.reads().bytes)+", hidden states on disk: 5.7 MiB") {
		t.Errorf("%s", text)
	}
	if err := v.Arrange(least-1, 0); err == nil {
		t.Error("there is a plan for less than the least")
	}
	p, err := v.Plan(t.Context())
	check(t, err)
	if p.DiskBytes != 2000*750*4 || p.Layers[1].Nodes != int64(len(raw.Valid)) || p.Engine != decide.EngineCPU || p.OpenSeconds > p.Seconds/2 {
		t.Errorf("%+v", p)
	}
}

// Wrong options are refused before anything is computed, and nothing stays open.
func TestValidatorRefuses(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw(), 3)
	for says, change := range map[string]func(o *ValidationOptions){
		"pack is of the dataset 0123456789ab…, but --dataset ": func(o *ValidationOptions) { o.Lineage = "0123456789abcdef" },
		"no dataset at":    func(o *ValidationOptions) { o.Dataset = w.path("none") },
		"exact validation": func(o *ValidationOptions) { o.Memory = budget.Reserve + 3<<20 },
	} {
		o := w.validation()
		change(&o)
		if _, err := OpenValidator(t.Context(), disk, o, progress.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// After a write that fails, a score that is cut off, or an interruption, the next score is the same, and no state stays.
func TestValidatorGoesOn(t *testing.T) {
	groups(t, 8)
	raw := datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 5, Classes: 3, Seed: 3}.Raw()
	w := newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.SAGE, Dims: []int{5, 6, 3}, InputProjection: 4})
	weights := w.weights(t)
	in := &vfs.FailAt{N: -1}
	o := w.validation()
	v, err := OpenValidator(t.Context(), vfs.Inject(disk, watch(func(op vfs.Op, name string) error {
		if strings.HasPrefix(filepath.Base(name), keptFile) && op == vfs.OpCreate {
			t.Error("states are noted, from which no process goes on")
		}
		return in.Before(op, name)
	})), o, progress.Discard)
	check(t, err)
	defer func() { check(t, v.Close()) }()
	least := int64(0)
	for _, s := range v.sets {
		v.job.steps = s.steps
		n, _ := v.job.least()
		least = max(least, n)
	}
	// Where the least reads more than is allowed, the needs are the memory that reads less.
	v.job.options.MaxRead = &budget.Size{Value: 5, Unit: budget.UnitTimes}
	more := v.Needs().Least
	check(t, v.Arrange(more, 0))
	if more <= least || more > least+2<<20 || v.job.readsTooMuch() {
		t.Errorf("%d bytes read %d, %d are the least", more, v.job.reads().bytes, least)
	}
	v.job.options.MaxRead = nil
	check(t, v.Arrange(least, 0))
	want, _, err := v.Score(t.Context(), weights, dataset.Valid)
	check(t, err)
	others := make([]float32, len(weights)) // with which rows that a failure left in the scorer would show
	for i := range others {
		others[i] = -weights[i]
	}
	wanted, _, err := v.Score(t.Context(), others, dataset.Valid)
	if check(t, err); wanted == want {
		t.Fatal("other weights score the same")
	}
	for n := 0; ; n++ {
		in = &vfs.FailAt{N: n, Err: errors.New("full")}
		_, _, err := v.Score(t.Context(), weights, dataset.Valid)
		if !in.Fired() {
			check(t, err)
			if n < 10 {
				t.Errorf("only %d writes", n)
			}
			in = &vfs.FailAt{N: -1}
			break
		}
		if err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("write %d: %v", n, err)
		}
		in = &vfs.FailAt{N: -1}
		got, _, err := v.Score(t.Context(), others, dataset.Valid)
		if check(t, err); got != wanted {
			t.Errorf("after write %d failed: %v, want %v", n, got, wanted)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	if _, _, err := v.Score(ctx, weights, dataset.Valid); !fault.EndedBy(ctx, err) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Scratch)); err == nil {
		t.Error("states stay")
	}
}
