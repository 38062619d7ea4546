package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"diskgnn/featurestore/packed"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/pack/packfile"
	"diskgnn/pipeline"
	"diskgnn/train/decide"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/report"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
)

// slack is for what does not grow with what is counted.
const slack = 64 << 10

// The plan holds the scorers of the pack's batches: two classes are no exception.
func TestPlanHasScorers(t *testing.T) {
	w := newWorld(t, worldParams{classes: 2, epochs: 2})
	r, err := packfile.Open(disk, w.pack(10))
	if err != nil {
		t.Fatal(err)
	}
	var seeds [4]int64 // of two epochs, validation, test
	for i := range r.Index().Train {
		seeds[i/r.Facts().BatchesPerEpoch] += int64(r.Index().Train[i].Seeds)
	}
	for i, list := range [][]packfile.Eval{r.Index().Valid, r.Index().Test} {
		for k := range list {
			seeds[2+i] += int64(list[k].Seeds)
		}
	}
	train, eval := max(seeds[0], seeds[1]), max(seeds[2], seeds[3])
	var n engineNeeds
	n.scorers(recipe.MetricAUC, packed.Facts(r))
	if want := train*(16+9) + eval*16; n.Engine != want || n.Resume != train*9 || train == 0 || eval == 0 {
		t.Errorf("%d bytes are planned, of them %d at resuming; want %d and %d", n.Engine, n.Resume, want, train*9)
	}
	n = engineNeeds{}
	if n.scorers(recipe.MetricAccuracy, packed.Facts(r)); n != (engineNeeds{}) {
		t.Errorf("accuracy: %+v", n)
	}
}

// An epoch takes no more than is planned for it, while the run goes on and when its end is
// written.
func TestEpochsHoldWhatIsPlanned(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates")
	}
	const n = 5000
	var r rundir.Result
	lines := limittest.Allocated(func() {
		for i := range n {
			e := rundir.Epoch{Epoch: i, Seconds: 1.0 / 3, LR: 1. / 3, Loss: 1.0 / 3, TrainAccuracy: 1.0 / 3, ValidAccuracy: 1.0 / 3, BytesRead: 1 << 50, UsefulBytes: 1 << 50,
				SSDBytesRead: 1 << 50, SSDUsefulBytes: 1 << 50, GraphBytesRead: 1 << 50, RAMBytes: 1 << 50, GPUServedBytes: 1 << 50, InputNodes: 1 << 50, Requests: 1 << 50, BufferBytes: 1 << 50, PageHits: 1 << 50, PageMisses: 1 << 50, ReadRate: 1e10 / 3, ReadSeconds: 1.0 / 3, ComputeSeconds: 1.0 / 3,
				Batches: 1 << 20, BoundLink: epoch.LinkCompute, BoundSeconds: 1.0 / 3, ValidSeconds: 1.0 / 3, ValidBytesRead: 1 << 50}
			e.Links = make([]pipeline.LinkTime, 0, 7)
			for _, name := range []string{epoch.LinkLoad, epoch.LinkRead, epoch.LinkAssemble, epoch.LinkLaunch, epoch.LinkCopy, epoch.LinkGather, epoch.LinkCompute} {
				e.Links = append(e.Links, pipeline.LinkTime{Link: name, Workers: 6, Busy: 1000. / 3, Blocked: 1000. / 3})
			}
			r.Epochs = append(r.Epochs, e)
		}
	}) / n
	dir := t.TempDir()
	d := &rundir.Dir{FS: disk, Path: dir, File: rundir.File{Format: rundir.Format, Begun: time.Now(), State: rundir.StateFinished, Result: &r}}
	var metrics strings.Builder
	for _, e := range r.Epochs {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&metrics, "%s\n", b)
	}
	d.MetricsEnd = rundir.MetricsEnd{Bytes: int64(metrics.Len()), CRC: binio.CRC([]byte(metrics.String()))}
	saved := limittest.Allocated(func() {
		if err := d.Save(); err != nil {
			t.Fatal(err)
		}
	}) / n
	if st, err := os.Stat(filepath.Join(dir, "run.json")); err != nil || st.Size()/n > 4096 {
		t.Errorf("run.json of %d epochs has %d bytes (%v): that of a million is not read any more", n, st.Size(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.MetricsFile), []byte(metrics.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	reported := limittest.Allocated(func() {
		p, err := report.Read(disk, dir)
		if err == nil {
			err = report.Write(io.Discard, p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}) / n
	t.Logf("an epoch takes %d bytes, when it is saved %d more, when it is reported %d", lines, saved, reported)
	if lines+max(saved, reported) > decide.EpochBytes {
		t.Errorf("an epoch takes %d bytes, when it is saved %d more, when it is reported %d; %d are planned", lines, saved, reported, decide.EpochBytes)
	}
}

// The weights that are kept and written take the planned memory, three times their size, and so does a
// checkpoint that a run goes on from.
func TestWeightsHoldWhatIsPlanned(t *testing.T) {
	w := newWorld(t, worldParams{classes: 2, dim: 20})
	o := w.options(w.pack(10), func(o *Options) {
		o.Hidden, o.Metric, o.Epochs, o.Loss = 3000, recipe.MetricAUC, 2, recipe.LossCrossEntropy
	})
	r, err := packfile.Open(disk, o.Pack)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.resolve(*packed.Facts(r), false); err != nil {
		t.Fatal(err)
	}
	e, needs, err := newCPUEngine(o.wish(packed.Facts(r), false))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	count := int64(0)
	for _, p := range e.Params() {
		count += int64(p.Len())
	}
	got := limittest.Allocated(func() {
		best, err := e.Snapshot(nil)
		if err != nil || int64(len(best)) != count {
			t.Fatal(err)
		}
		if weights, err := e.Snapshot(nil); err != nil || len(rundir.ToTensors(e.Params(), weights)) == 0 {
			t.Fatal(err)
		}
	})
	if got < 12*count || got > 12*count+slack {
		t.Errorf("%d bytes for %d weights", got, count)
	}
	needs.scorers(recipe.MetricAUC, packed.Facts(r))
	w.interrupt(o, 25)
	names := strings.Fields(names(t, filepath.Join(o.Out, rundir.CheckpointsDir)))
	if len(names) == 0 {
		t.Fatal("no checkpoint")
	}
	d := &rundir.Dir{FS: disk, Path: o.Out}
	got = limittest.Allocated(func() {
		if _, _, err := d.Checkpoints().Read(names[0], needs.Resume); err != nil {
			t.Fatal(err)
		}
	})
	if got > needs.Resume+slack || got < needs.Resume/2 {
		t.Errorf("a checkpoint takes %d bytes, %d are planned", got, needs.Resume)
	}

	// To score the weights, the file and an engine are held.
	run, err := trained.Open(disk, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	options := trained.EngineOptions{Weights: trained.WeightsBest, Threads: 1, BLAS: "gonum"}
	var planned int64
	got = limittest.Allocated(func() {
		x, n, err := run.NewEngine(options, 0, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		planned = n
		x.Close()
	})
	if got > planned+1<<20 { // Gorgonia's graph; more under the race detector
		t.Errorf("an engine to evaluate with takes %d bytes, %d are planned", got, planned)
	}
	if _, _, err := run.NewEngine(options, 1, planned); fmt.Sprint(err) == "<nil>" || !strings.Contains(err.Error(), "the engine needs ") {
		t.Errorf("beside a byte more: %v", err)
	}
}

// A run that could not be gone on with is not begun, and what would do is named.
func TestPlanHasCheckpoint(t *testing.T) {
	w := newWorld(t, worldParams{})
	r, err := packfile.Open(disk, w.pack(10))
	if err != nil {
		t.Fatal(err)
	}
	o := w.options(r.Dir(), func(o *Options) { o.Epochs = 1 })
	whole, err := planMemory(find(t, r.Dir()), &o, decide.Needs{Engine: 1})
	if err != nil {
		t.Fatal(err)
	}
	needs := decide.Needs{Engine: 1, Resume: 100 << 20}
	o.Memory = whole.Total + 50<<20
	_, err = planMemory(find(t, r.Dir()), &o, needs)
	var mebibytes int64
	if _, scan := fmt.Sscanf(after(fmt.Sprint(err), "would do: --memory "), "%dMiB", &mebibytes); scan != nil || !errors.Is(err, fault.ErrBudget) {
		t.Fatalf("%v", err)
	}
	o.Memory = mebibytes << 20
	p, err := planMemory(find(t, r.Dir()), &o, needs)
	if err != nil || p.Total > o.Memory || p.Total < needs.Resume {
		t.Errorf("with the memory that is named: %+v, %v", p, err)
	}
	if q, err := planMemory(find(t, r.Dir()), &o, decide.Needs{Engine: 1, Stack: 12345}); err != nil || q.Fixed-whole.Fixed != 12345 {
		t.Errorf("a storage stack takes %d bytes, %v", q.Fixed-whole.Fixed, err)
	}
	o.Trace = true
	if q, err := planMemory(find(t, r.Dir()), &o, decide.Needs{Engine: 1}); err != nil || q.Fixed-whole.Fixed != pipeline.RecorderBytes(traceSpans) {
		t.Errorf("a trace takes %d bytes, %v", q.Fixed-whole.Fixed, err)
	}
	if got := limittest.Allocated(func() { pipeline.NewRecorder(traceSpans) }); got > pipeline.RecorderBytes(traceSpans)+slack {
		t.Errorf("a trace takes %d bytes, %d are planned", got, pipeline.RecorderBytes(traceSpans))
	}
}

func after(s, word string) string {
	_, rest, _ := strings.Cut(s, word)
	return rest
}
