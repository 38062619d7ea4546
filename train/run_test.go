package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/score"
)

func TestRunByItsFiles(t *testing.T) {
	w := newWorld(t, worldParams{epochs: 2})
	p := w.pack(10)
	o := w.options(p, func(o *Options) { o.Epochs, o.Trace, o.RAMCache, o.IO = 5, true, percent(20), all.Auto })
	var rep logged
	r, err := w.run(context.Background(), o, &rep, nil)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := packfile.Open(disk, p)
	if err != nil {
		t.Fatal(err)
	}
	f := pk.Facts()

	if got := names(t, o.Out); got != "checkpoints final.safetensors metrics.jsonl report.html run.json trace.json weights.safetensors" {
		t.Errorf("the directory holds %s", got)
	}
	// metrics.jsonl and run.json say what Run returned.
	var epochs []rundir.Epoch
	for line := range bytes.Lines(w.file(o.Out, rundir.MetricsFile)) {
		var e rundir.Epoch
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		epochs = append(epochs, e)
	}
	asJSON := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if asJSON(epochs) != asJSON(r.Epochs) || len(epochs) != 5 {
		t.Errorf("%s holds %s", rundir.MetricsFile, asJSON(epochs))
	}
	run := state(t, o.Out)
	if run.State != rundir.StateFinished || asJSON(run.Result) != asJSON(r) || run.Pack != pk.Meta().Fingerprint || run.Params.Epochs != 5 {
		t.Errorf("%s holds %+v", stage.RunFile, run)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(asJSON(r)), &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range strings.Fields("engine io preload_bytes epochs best_epoch valid_accuracy test_accuracy seconds peak_rss_bytes peak_anon_bytes blas simd layer_orders cache_rows threads slots") {
		if _, ok := keys[k]; !ok {
			t.Errorf("the result has no %s", k)
		}
	}
	first := keys["epochs"].([]any)[0].(map[string]any)
	for _, k := range strings.Fields("epoch seconds loss train_accuracy valid_accuracy bytes_read useful_bytes read_seconds compute_seconds stages") {
		if _, ok := first[k]; !ok {
			t.Errorf("an epoch has no %s", k)
		}
	}

	best := 0
	for i, e := range r.Epochs {
		if e.Epoch != i || e.Batches != f.BatchesPerEpoch || len(e.Links) != 4 || !e.Loss.Defined() || e.TrainAccuracy < 0 || e.TrainAccuracy > 1 {
			t.Errorf("epoch %d: %+v", i, e)
		}
		if e.ValidAccuracy > r.Epochs[best].ValidAccuracy {
			best = i
		}
		// Useful are, of the epoch's sample, the cold rows, and the graphs without degrees and the ranks of these rows.
		var useful int64
		for b := range f.BatchesPerEpoch {
			tr := &pk.Index().Train[i%f.Epochs*f.BatchesPerEpoch+b]
			useful += int64(tr.GraphBytes()) - int64(tr.Graph[0].Bytes)
			for band, n := range tr.Bands {
				if lo, _ := pk.BandRanks(band); lo >= r.CacheRows {
					useful += int64(n)*int64(f.RowBytes) - int64(tr.Graph[len(tr.Graph)-1-band].Bytes)
				}
			}
		}
		if e.UsefulBytes != useful || e.BytesRead < useful {
			t.Errorf("epoch %d: %d of %d bytes were useful, %d by the index", i, e.UsefulBytes, e.BytesRead, useful)
		}
	}
	if r.BestEpoch != best || r.ValidAccuracy != r.Epochs[best].ValidAccuracy || r.Engine != EngineCPU || r.IO == "" || r.IO == all.Auto {
		t.Errorf("best epoch %d with %v, %s, %s", r.BestEpoch, r.ValidAccuracy, r.Engine, r.IO)
	}
	if r.CacheRows != int64(f.Nodes/5) || r.PreloadBytes < r.CacheRows*int64(f.RowBytes) || r.Seconds <= 0 || r.PeakRSSBytes == 0 || r.PeakAnonBytes == 0 {
		t.Errorf("%+v", r.Setup)
	}
	if said := rep.String(); strings.Count(said, "\nepoch ") != 5 || !strings.Contains(said, "(best)") || !strings.Contains(said, "bound by") {
		t.Errorf("reported:\n%s", said)
	}
	if !json.Valid(w.file(o.Out, rundir.TraceFile)) || !bytes.Contains(w.file(o.Out, rundir.TraceFile), []byte(`"train read features"`)) {
		t.Errorf("%s: %.300s", rundir.TraceFile, w.file(o.Out, rundir.TraceFile))
	}
}

// The scores are those of a plain reading of weights.safetensors, with PyTorch's
// names and orientation, on the sampled batches with features from the dataset.
func TestScoresByTheFormulas(t *testing.T) {
	for _, c := range []struct {
		classes int
		metric  string
		order   string
	}{{3, recipe.MetricAccuracy, "aggregate"}, {2, recipe.MetricAUC, "multiply"}, {4, recipe.MetricF1, "auto"}} {
		w := newWorld(t, worldParams{classes: c.classes, fanout: []int{2, 3, 4}, dtype: dtype.Float32})
		o := w.options(w.pack(5), func(o *Options) { o.Metric, o.Epochs, o.LayerOrder = c.metric, 6, c.order })
		r, _ := w.mustRun(o, nil)
		weights := w.weights(o.Out, rundir.WeightsFile)
		samples, err := mbfile.Open(disk, w.path("samples"))
		if err != nil {
			t.Fatal(err)
		}
		defer samples.Close()
		for _, part := range []struct {
			what    string
			batches func() (lo, hi int)
			got     score.Score
		}{{"validation", samples.Valid, r.ValidAccuracy}, {"test", samples.Test, r.TestAccuracy}} {
			s := score.New(score.Options{Metric: c.metric, Classes: c.classes, Rows: int64(len(w.dataset.Labels))})
			lo, hi := part.batches()
			for i := lo; i < hi; i++ {
				var b graph.Batch
				if _, err := samples.Read(context.Background(), i, nil, &b); err != nil {
					t.Fatal(err)
				}
				s.Add(forward(weights, &w.dataset, &b), b.Labels, nil)
			}
			want := s.Score()
			if hi == lo || !want.Defined() || math.Abs(float64(part.got-want)) > 1e-9 {
				t.Errorf("%s %s: %v, by the formulas %v, of %d batches", part.what, c.metric, part.got, want, hi-lo)
			}
		}
	}
}

// forward computes GraphSAGE's logits in float64:
// h' = relu(mean of h over neighbours · Wlᵀ + b + h · Wrᵀ), without relu in the last layer.
func forward(w map[string]safetensors.Tensor, d *dataset.Raw, b *graph.Batch) []float32 {
	x := make([]float32, len(d.Labels)*d.Dim)
	widen(x, d)
	width := d.Dim
	h := make([]float64, len(b.Input)*width)
	for i, v := range b.Input {
		for j := range width {
			h[i*width+j] = float64(x[int(v)*width+j])
		}
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		prefix := "convs." + string(rune('0'+l))
		wl, bias, wr := w[prefix+".lin_l.weight"], w[prefix+".lin_l.bias"], w[prefix+".lin_r.weight"]
		out := wl.Shape[0]
		next := make([]float64, k.NumDst*out)
		for i := range k.NumDst {
			mean := make([]float64, width)
			edges := k.Indices[k.Indptr[i]:k.Indptr[i+1]]
			for _, s := range edges {
				for j := range mean {
					mean[j] += h[int(s)*width+j] / float64(len(edges))
				}
			}
			for o := range out {
				z := float64(bias.Data[o])
				for j := range width {
					z += mean[j]*float64(wl.Data[o*width+j]) + h[k.DstPos(i)*width+j]*float64(wr.Data[o*width+j])
				}
				if l < len(b.Blocks)-1 {
					z = max(z, 0)
				}
				next[i*out+o] = z
			}
		}
		h, width = next, out
	}
	logits := make([]float32, len(h))
	for i := range h {
		logits[i] = float32(h[i])
	}
	return logits
}

// An epoch's loss is the mean over its labelled seed nodes, each of which counts once,
// whatever batch it is in; its training accuracy is the share of them that are right.
func TestEpochLossIsOfSeeds(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 200, batch: 37}) // the last batch of an epoch is shorter
	p := w.pack(20)
	for what, use := range map[string]func(*parts){"cpu": nil, "gpu": onDevice(cudatest.Open(t))} {
		o := w.options(p, func(o *Options) {
			if use != nil {
				o.Engine = EngineGPU
			}
		})
		var heard []engine.Outcome
		r, err := w.run(t.Context(), o, progress.Discard, func(p *parts) {
			if use != nil {
				use(p)
			}
			wrapEngine(p, func(e engine.Engine) engine.Engine { return &listener{e, &heard} })
		})
		if err != nil {
			t.Fatal(err)
		}
		perEpoch := len(heard) / len(r.Epochs)
		uneven := false
		for k, e := range r.Epochs {
			loss, perBatch, seeds, right := 0.0, 0.0, 0, 0
			for _, h := range heard[k*perEpoch : (k+1)*perEpoch] {
				classes := len(h.Logits) / len(h.Labels)
				perBatch += h.Loss / float64(perEpoch)
				for i, y := range h.Labels {
					if y == graph.Unlabelled {
						continue
					}
					row := h.Logits[i*classes : (i+1)*classes]
					loss += h.Loss
					seeds++
					if slices.Index(row, slices.Max(row)) == int(y) {
						right++
					}
				}
			}
			want := loss / float64(seeds)
			uneven = uneven || math.Abs(want-perBatch) > 1e-4
			if math.Abs(float64(e.Loss)-want) > 1e-12 || math.Abs(float64(e.TrainAccuracy)-float64(right)/float64(seeds)) > 1e-12 {
				t.Errorf("%s, epoch %d: loss %v and accuracy %v, of its %d seed nodes %v and %v", what, k, e.Loss, e.TrainAccuracy, seeds, want, float64(right)/float64(seeds))
			}
		}
		if perEpoch < 3 || !uneven {
			t.Errorf("%s: %d batches an epoch, uneven: %v", what, perEpoch, uneven)
		}
	}
}

// listener keeps what each step found.
type listener struct {
	engine.Engine
	heard *[]engine.Outcome
}

func (l *listener) keep(o *engine.Outcome, err error) (*engine.Outcome, error) {
	if o != nil {
		*l.heard = append(*l.heard, engine.Outcome{Loss: o.Loss, Logits: slices.Clone(o.Logits), Labels: slices.Clone(o.Labels)})
	}
	return o, err
}

func (l *listener) Backward(ctx context.Context, w engine.Work, f engine.Features, at engine.Place) (*engine.Outcome, error) {
	return l.keep(l.Engine.Backward(ctx, w, f, at))
}

func (l *listener) Finish() (*engine.Outcome, error) { return l.keep(l.Engine.Finish()) }

// The weights kept are those of the best epoch: a run that ends there ends with them.
func TestBestWeightsAreTheBestEpochs(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	var long Options
	var r rundir.Result
	for seed := range uint64(50) { // until the last epoch is not the best
		long = w.options(p, func(o *Options) { o.Epochs, o.Seed = 8, seed })
		if r, _ = w.mustRun(long, nil); r.BestEpoch < 7 {
			break
		}
	}
	if r.BestEpoch == 7 {
		t.Fatal("the last epoch is always the best")
	}
	short := w.options(p, func(o *Options) { o.Epochs, o.Seed = r.BestEpoch+1, long.Seed })
	s, _ := w.mustRun(short, nil)
	if !bytes.Equal(w.file(long.Out, rundir.WeightsFile), w.file(short.Out, rundir.FinalFile)) || s.TestAccuracy != r.TestAccuracy {
		t.Errorf("best epoch %d, test %v; a run of only so many: test %v", r.BestEpoch, r.TestAccuracy, s.TestAccuracy)
	}
	if bytes.Equal(w.file(long.Out, rundir.WeightsFile), w.file(long.Out, rundir.FinalFile)) {
		t.Error("best and final weights are the same")
	}
}

func TestWithoutEvaluation(t *testing.T) {
	w := newWorld(t, worldParams{noValid: true})
	o := w.options(w.pack(10))
	var rep logged
	r, err := w.run(context.Background(), o, &rep, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.BestEpoch != 2 || r.ValidAccuracy.Defined() || r.TestAccuracy.Defined() || r.EvalSlots != 0 {
		t.Errorf("%+v", r)
	}
	if !bytes.Equal(w.file(o.Out, rundir.WeightsFile), w.file(o.Out, rundir.FinalFile)) {
		t.Error("the last epoch's weights are not the best")
	}
	if said := rep.String(); !strings.Contains(said, "no validation batches") || !strings.Contains(said, "no test batches") {
		t.Errorf("reported:\n%s", said)
	}
}

// Without an engine the loader runs alone, and what the epochs and the cache are
// charged with is what the stack read. The model needs the ids of all input nodes, so it reads the same bytes of graphs
// with every cache.
func TestLoaderAlone(t *testing.T) {
	var total []int64 // of graphs and rows, by epoch
	for _, cache := range []float64{0, 10, 50} {
		w := newWorld(t, worldParams{dtype: dtype.Float16})
		o := w.options(w.pack(0), func(o *Options) { o.Engine, o.RAMCache, o.InputProjection = EngineNone, percent(cache), true })
		var stack iostack.Stack
		var stats iostack.Stats
		r, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
			open := p.stack
			p.stack = func(kind string, o iostack.Options) (iostack.Stack, string, error) {
				s, how, err := open(kind, o)
				stack = &lastStats{s, &stats}
				return stack, how, err
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		read := r.PreloadBytes
		for _, e := range r.Epochs {
			read += e.BytesRead
			// A larger cache only moves rows from one level to another.
			if cache == 0 {
				total = append(total, e.UsefulBytes)
			}
			if e.UsefulBytes+e.RAMBytes != total[e.Epoch] || e.GraphBytesRead <= 0 || e.GraphBytesRead > e.BytesRead || !(e.ReadRate > 0) {
				t.Errorf("cache %v %%, levels of %d bytes: %+v", cache, total[e.Epoch], e)
			}
			if e.Loss.Defined() || e.ComputeSeconds != 0 || e.Seconds <= 0 || e.UsefulBytes <= 0 || len(e.Links) != 4 {
				t.Errorf("%+v", e)
			}
		}
		if read != stats.BytesRead {
			t.Errorf("cache %v %%: %d bytes are accounted for, %d were read", cache, read, stats.BytesRead)
		}
		if r.BestEpoch != -1 || len(r.Epochs) != 3 || r.Engine != EngineNone || r.EvalSlots != 0 {
			t.Errorf("%+v", r)
		}
		if got := names(t, o.Out); got != "metrics.jsonl report.html run.json" {
			t.Errorf("the directory holds %s", got)
		}
	}
}

// lastStats keeps what a stack had done when it was closed.
type lastStats struct {
	iostack.Stack
	stats *iostack.Stats
}

func (s *lastStats) Close() error {
	*s.stats = s.Stats()
	return s.Stack.Close()
}

func TestRunRefuses(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(20)
	finished := w.options(p, func(o *Options) { o.Epochs = 1 })
	w.mustRun(finished, nil)
	for want, c := range map[string]struct {
		kind   error
		change func(*Options)
	}{
		"no pack at":                             {fault.ErrInput, func(o *Options) { o.Pack = w.path("nowhere") }},
		"is a samples directory, not a":          {fault.ErrInput, func(o *Options) { o.Pack = w.path("samples") }},
		"a finished run; use --force":            {fault.ErrExists, func(o *Options) { o.Out = finished.Out }},
		"is not a run of this program":           {fault.ErrExists, func(o *Options) { o.Out, o.Force = w.path("dataset"), true }},
		"meta.json is no directory":              {fault.ErrUsage, func(o *Options) { o.Out = w.path("dataset/meta.json/run") }},
		"was packed for a cache of at least 20%": {fault.ErrBudget, func(o *Options) { o.RAMCache = percent(10) }},
		"--memory 1.0 MiB does not":              {fault.ErrBudget, func(o *Options) { o.Memory = 1 << 20 }},
		"--metric auc needs two classes":         {fault.ErrUsage, func(o *Options) { o.Metric = recipe.MetricAUC }},
		"no such I/O backend":                    {fault.ErrUsage, func(o *Options) { o.IO = "floppy" }},
	} {
		o := w.options(p, c.change)
		_, err := w.run(context.Background(), o, &logged{}, nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
		if o.Out != finished.Out && o.Out != w.path("dataset") {
			if _, err := disk.Stat(o.Out); err == nil {
				t.Errorf("%s: %s was made", want, filepath.Base(o.Out))
			}
		}
	}
	finished.Force = true
	w.mustRun(finished, nil)
}
