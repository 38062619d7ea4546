package exact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/recipe"
)

// Whatever the graph, the model and the memory, predictions are those of a plain
// forward pass over the whole graph, whether it is the one that was trained on or another of the
// same width.
func TestEqualsThePlainPass(t *testing.T) {
	root := vfstest.TempDir(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := fmt.Sprintf("%s/%d", root, n)
		check(t, os.Mkdir(dir, 0o777))
		defer os.RemoveAll(dir)
		raw := datasettest.Params{
			Nodes: rapid.IntRange(1, 150).Draw(t, "nodes"), AvgDegree: rapid.Float64Range(0, 8).Draw(t, "degree"),
			Dim: rapid.IntRange(1, 9).Draw(t, "dim"), Classes: rapid.IntRange(1, 5).Draw(t, "classes"),
			DType: rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}).Draw(t, "dtype"),
			Seed:  rapid.Uint64Range(0, 1000).Draw(t, "seed"),
		}.Raw()
		hidden := rapid.SliceOfN(rapid.IntRange(1, 7), 0, 3).Draw(t, "hidden")
		w := newWorld(t, dir, raw, hidden...)
		options := w.options()
		another := rapid.Bool().Draw(t, "another")
		if another {
			raw = datasettest.Params{
				Nodes: rapid.IntRange(1, 150).Draw(t, "other nodes"), AvgDegree: rapid.Float64Range(0, 8).Draw(t, "other degree"),
				Dim: raw.Dim, Classes: rapid.IntRange(1, 5).Draw(t, "other classes"), Seed: 1001,
			}.Raw()
			w, options = w.on(t, dir+"/other", raw)
		}
		if n%10 == 0 {
			options.IO = all.Auto
		}
		o := PredictOptions{Options: options, Output: Logits, Nodes: rapid.SampledFrom([]string{AllNodes, dataset.Train, dataset.Valid, dataset.Test}).Draw(t, "of")}
		last := len(hidden)
		if last > 0 && rapid.Bool().Draw(t, "embeddings") {
			o.Output = Embeddings
			last--
		}
		nodes := map[string][]uint32{AllNodes: everyNode(&raw), dataset.Train: raw.Train, dataset.Valid: raw.Valid, dataset.Test: raw.Test}[o.Nodes]
		room := int64(0)
		if !another && rapid.Bool().Draw(t, "tight") {
			room = w.tight(t, rapid.Float64Range(0, 1).Draw(t, "room"))
		}
		got, p := w.predict(t, o, room)
		compare(t, got, w.reference(last), nodes)
		if p.OtherGraph != another {
			t.Fatalf("%+v", p)
		}
	})
}

// tight returns a room between the least that does, for any targets of any output, and what reads nothing
// twice.
func (w *world) tight(t datasettest.TB, share float64) int64 {
	t.Helper()
	var least, most int64
	for back := 1; back <= 2; back++ { // embeddings are the rows of the last layer but one
		j := &job{fs: disk, options: w.options(), report: progress.Discard, parts: parts{stack: all.Open, room: 1 << 40}}
		j.options.EnsureDefaults()
		check(t, j.do(context.Background(), func(ctx context.Context) error {
			last := j.model.Layers() - back
			if last < 0 {
				return nil
			}
			if err := j.decide(ctx, last, targets{nodes: j.data.Facts().Nodes, ids: everyNode(&w.raw)}, 0); err != nil {
				return err
			}
			need, _ := j.least()
			least, most = max(least, need), max(most, need, j.most())
			return nil
		}))
	}
	return least + int64(share*float64(most-least))
}

// Features of several pieces, compressed or not.
func TestPieces(t *testing.T) {
	for _, compress := range []bool{false, true} {
		raw := datasettest.Params{Nodes: 3000, Dim: 97, AvgDegree: 2, Seed: 5}.Raw()
		raw.Compress = compress
		w := newWorld(t, vfstest.TempDir(t), raw, 2)
		for _, share := range []float64{0.3, 1} {
			got, p := w.predict(t, PredictOptions{}, w.tight(t, share))
			compare(t, got, w.reference(1), everyNode(&raw))
			if p.Layers[0].BytesRead < dataset.Granule/2 {
				t.Errorf("%d bytes read of %d", p.Layers[0].BytesRead, len(raw.Features))
			}
		}
	}
}

// A prediction has the same bytes for any memory and any number of threads.
func TestMemoryDoesNotShow(t *testing.T) {
	raw := datasettest.Params{Nodes: 400, AvgDegree: 7, Dim: 12, Classes: 4, Seed: 2}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 9, 5)
	want, whole := w.predict(t, PredictOptions{}, 0)
	ranges := 0
	for i, share := range []float64{0, 0.01, 0.1, 0.4, 0.8} {
		o := PredictOptions{Options: w.options()}
		o.Threads = 1 + i%2
		got, p := w.predict(t, o, w.tight(t, share))
		if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
			t.Errorf("at %v of the memory other bits", share)
		}
		ranges = max(ranges, p.Layers[0].Ranges)
	}
	if whole.Layers[0].Ranges != 1 || ranges < 20 {
		t.Errorf("%d tiles with memory for all, %d with little", whole.Layers[0].Ranges, ranges)
	}
}

// Scores are those of the logits, split by split, whatever the order of the nodes in
// the splits; and classes are theirs.
func TestEvaluate(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 6, Classes: 3, Seed: 4}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 8)
	classes, p := w.predict(t, PredictOptions{Output: Classes}, 0)
	if p.DType != "int32" || p.Columns != 1 {
		t.Errorf("%+v", p)
	}
	logits := w.reference(1)
	share := func(nodes []uint32) float64 {
		right := 0
		for _, v := range nodes {
			best := 0
			for c, y := range logits[v] {
				if y > logits[v][best] {
					best = c
				}
			}
			if int(classes[v]) != best {
				t.Errorf("node %d is of class %v, its logits say %d", v, classes[v], best)
			}
			if best == int(raw.Labels[v]) {
				right++
			}
		}
		return float64(right) / float64(len(nodes))
	}
	for _, s := range []float64{0, 1} {
		e, err := evaluate(context.Background(), disk, w.options(), progress.Discard, parts{stack: all.Open, room: w.tight(t, s)})
		check(t, err)
		for split, c := range map[string][2]float64{
			"train": {float64(e.TrainAccuracy), share(raw.Train)},
			"valid": {float64(e.ValidAccuracy), share(raw.Valid)},
			"test":  {float64(e.TestAccuracy), share(raw.Test)},
		} {
			if math.Abs(c[0]-c[1]) > 1e-12 {
				t.Errorf("%s: %v, want %v", split, c[0], c[1])
			}
		}
		if !e.Exact || e.BytesRead == 0 || e.BytesWritten != int64(4*300*8*(1-s)) || e.Layers[1].Nodes >= 300 || e.Layers[0].Nodes != 300 {
			t.Errorf("%+v", e)
		}
	}
	if _, err := os.Stat(w.path("run.scratch")); err == nil {
		t.Error("the scratch directory is still there")
	}
}

// The memory that a refusal names does.
func TestLeastMemory(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, Dim: 4, Classes: 2, Seed: 1}.Raw()
	for v := range uint32(60) { // a node that all nodes lead to, many times
		raw.Indices = append(raw.Indices, slices.Repeat([]uint32{v}, 50_000)...)
	}
	raw.Indptr[60] = int64(len(raw.Indices))
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	o := w.options()
	o.Memory = 1 << 20
	_, err := Evaluate(context.Background(), disk, o, progress.Discard)
	var mebibytes int64
	if _, scan := fmt.Sscanf(after(fmt.Sprint(err), "would do: --memory "), "%dMiB", &mebibytes); scan != nil {
		t.Fatalf("%v", err)
	}
	o.Memory = mebibytes << 20
	if e, err := Evaluate(context.Background(), disk, o, progress.Discard); err != nil {
		t.Errorf("with the memory that is named: %+v, %v", e, err)
	}
	o.Memory -= 1 << 20
	if _, err := Evaluate(context.Background(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("with a mebibyte less: %v", err)
	}
}

// What is scored takes no more than is planned for it, by any metric.
func TestExamHoldsWhatIsPlanned(t *testing.T) {
	for _, metric := range []string{recipe.MetricAccuracy, recipe.MetricAUC} {
		for _, multi := range []bool{false, true} {
			raw := datasettest.Params{Nodes: 60_000, AvgDegree: 1, Dim: 1, Classes: 2, Seed: 4}.Raw()
			if multi {
				raw.Classes = 9
				raw.Targets = make([]byte, 2*len(raw.Labels))
				for v, y := range raw.Labels {
					raw.Labels[v] = min(y, 0)
				}
			}
			d := datasettest.Create(t, t.TempDir(), raw)
			f := d.Facts()
			held, making := examBytes(&f, metric, splits)
			planned := held + making
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			e, err := newExam(t.Context(), d, metric, splits)
			check(t, err)
			logits := make([]float32, len(e.nodes)*raw.Classes)
			e.add(0, logits, raw.Classes)
			for _, j := range e.scorers {
				j.Score()
			}
			runtime.ReadMemStats(&after)
			const buffers = 3 << 20 // of classes, a granule; checksums
			if took := int64(after.TotalAlloc-before.TotalAlloc) - 4*int64(len(logits)); took > planned+buffers || len(e.nodes) < 1000 {
				t.Errorf("%s, multi-label %t: %d bytes for %d nodes, %d are planned", metric, multi, took, len(e.nodes), planned)
			}
		}
	}
}

// To the mebibyte: the memory that a refusal names does, and less does not, whichever
// layer needs most.
func TestLeastMemoryToTheMebibyte(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, Dim: 4, Classes: 2, Seed: 1}.Raw()
	for v := range uint32(60) {
		raw.Indices = append(raw.Indices, slices.Repeat([]uint32{v}, 50_000)...)
	}
	raw.Indptr[60] = int64(len(raw.Indices))
	for _, hidden := range []int{3, 3000} {
		w := newWorld(t, vfstest.TempDir(t), raw, hidden)
		o := w.options()
		o.EnsureDefaults()
		j := &job{fs: disk, options: o, report: progress.Discard, parts: parts{stack: all.Open}}
		check(t, j.open(t.Context()))
		plan := func(mebibytes int64) error {
			c := *j
			c.options.Memory = mebibytes << 20
			return c.decide(t.Context(), 1, targets{nodes: 60}, 0)
		}
		err := plan(1)
		var least int64
		if _, scan := fmt.Sscanf(after(fmt.Sprint(err), "would do: --memory "), "%dMiB", &least); scan != nil || !errors.Is(err, fault.ErrBudget) {
			t.Fatalf("%v", err)
		}
		if err := plan(least); err != nil {
			t.Errorf("hidden %d: %d MiB: %v", hidden, least, err)
		}
		if err := plan(least - 1); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("hidden %d: %d MiB: %v", hidden, least-1, err)
		}
		check(t, j.close())
	}
}

func after(s, word string) string {
	_, rest, _ := strings.Cut(s, word)
	return rest
}
