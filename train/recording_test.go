package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/gnndrive"
	singlerows "diskgnn/featurestore/rows"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack/record"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/trace"
	"diskgnn/train/decide"
	"diskgnn/train/epoch"
	"diskgnn/train/rundir"
)

// traced is a trace that was read whole.
type traced struct {
	trace.Header
	files   []trace.File
	batches []trace.Batch
}

func readTrace(t *testing.T, name string) (r traced) {
	t.Helper()
	var err error
	if r.Header, err = trace.Open(disk, name, func(from *trace.Reader, b *trace.Batch) error {
		r.files = from.Files()
		one := *b
		one.Reads = append([]trace.Read(nil), b.Reads...)
		r.batches = append(r.batches, one)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

// bytes returns what the reads of the given batches moved.
func (r *traced) bytes(lo, hi int) (n int64) {
	for _, b := range r.batches[lo:hi] {
		for _, x := range b.Reads {
			n += r.files[x.File].Extent(x.Offset, x.Bytes)
		}
	}
	return n
}

func (w *world) recordTo(o *Options) { o.Record = o.Out + ".trace" }

// Of every store the trace has each batch of each epoch, whose reads move the bytes that the
// epoch's metrics say, and the run ends as one without a trace.
func TestRecorded(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, batch: 30, epochs: 2})
	pack := w.pack(10)
	type way struct {
		source string
		change func(*Options)
	}
	ways := map[string]way{
		"packed":    {"packed", func(*Options) {}},
		"one slot":  {"packed", func(o *Options) { o.Slots = 1 }},
		"no engine": {"packed", func(o *Options) { o.Engine = EngineNone }},
		"memory":    {"memory", w.fromSamples},
		"live":      {"rows", func(o *Options) { w.live(o); o.Store, o.RAMCache = singlerows.Name, percent(10) }},
		"shuffled":  {"packed", func(o *Options) { o.ShuffleBatches = true }},
	}
	for store := range readers {
		ways[store] = way{store, w.reading(store)}
	}
	for name, c := range ways {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			plain := w.options(pack, c.change)
			o := w.fresh(plain, w.recordTo)
			rep := &logged{}
			r, err := w.run(context.Background(), o, rep, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := readTrace(t, o.Record)
			f := state(t, o.Out)
			if got.Source != c.source || got.Nodes != 0 || got.Slots != r.Slots || got.InFlight < 1 || got.LongestRead < 1 || got.Dataset != f.Dataset || got.Samples != f.Samples {
				t.Errorf("%+v", got.Header)
			}
			per := got.BatchesPerEpoch
			if len(got.batches) != per*len(r.Epochs) || per != r.Epochs[0].Batches || len(r.Epochs) != 3 {
				t.Fatalf("%d batches of %d an epoch", len(got.batches), per)
			}
			for i, e := range r.Epochs {
				if n := got.bytes(i*per, (i+1)*per); n != e.BytesRead {
					t.Errorf("epoch %d moved %d bytes, the trace has %d", i, e.BytesRead, n)
				}
				var drawing, assembling, computing int64
				for _, b := range got.batches[i*per : (i+1)*per] {
					drawing, assembling, computing = drawing+b.SampleNanos, assembling+b.AssembleNanos, computing+b.ComputeNanos
				}
				if drawing == 0 || assembling == 0 {
					t.Errorf("epoch %d: drawn in %d ns, assembled in %d", i, drawing, assembling)
				}
				if s := float64(computing) / 1e9; s == 0 || o.Engine != EngineNone && s > e.ComputeSeconds+1e-6 { // the link's, which has the step's in it
					t.Errorf("epoch %d computed for %v s, the trace has %v", i, e.ComputeSeconds, s)
				}
			}
			if o.Engine == EngineNone {
				return
			}
			if _, err := w.run(context.Background(), plain, &logged{}, nil); err != nil {
				t.Fatal(err)
			}
			w.ending(o.Out).compare(t, name, w.ending(plain.Out))
		})
	}
}

// TestRecordedRows: without a cache, and with it in the first batch, the reads of rows are
// those of the pages that hold the batch's input nodes, in their order, after the graph's.
func TestRecordedRows(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, batch: 30})
	o := w.options("", w.reading(singlerows.Name), w.recordTo, func(o *Options) { o.Epochs = 2 })
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Fatal(err)
	}
	got := readTrace(t, o.Record)
	s, err := mbfile.Open(disk, o.Samples)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const row = 80
	size := int64(400 * row)
	nodes, _, err := s.Inputs(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want, reads []trace.Read
	features := int32(-1)
	for i, f := range got.files {
		if f.Name == dataset.FeaturesFile && f.Size == size {
			features = int32(i)
		}
	}
	for _, v := range nodes {
		at := int64(v) * row
		off := at / binio.Page * binio.Page
		want = append(want, trace.Read{File: features, Offset: off, Bytes: min(binio.AlignUp(at+row, binio.Page), size) - off})
	}
	first := got.batches[0].Reads
	info := s.Info(0)
	if graph := first[0]; got.files[graph.File].Name != filepath.Base(s.Path(0)) || graph.Offset != info.Offset || graph.Bytes != info.Size {
		t.Errorf("the graph is read as %+v of %v", graph, got.files)
	}
	reads = append(reads, first[1:]...)
	if d := cmp.Diff(want, reads); d != "" {
		t.Error(d)
	}
}

// A run that attempts anew, as a batch outgrew what was made for it, has one trace, of every
// batch once.
func TestRecordedAcrossAttempts(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, epochs: 3})
	o := w.options("", w.live, dry("0.1"), w.recordTo, func(o *Options) { o.Store, o.RAMCache, o.LayerOrder = singlerows.Name, percent(10), "aggregate" })
	rep := &logged{}
	r, err := w.run(context.Background(), o, rep, nil)
	if err != nil || !strings.Contains(rep.String(), "making room for it") {
		t.Fatal(err, rep)
	}
	got := readTrace(t, o.Record)
	if len(got.batches) != 3*got.BatchesPerEpoch || len(got.files) != 1 {
		t.Errorf("%d batches of %d an epoch, files %v", len(got.batches), got.BatchesPerEpoch, got.files)
	}
	if n := got.bytes(2*got.BatchesPerEpoch, 3*got.BatchesPerEpoch); n != r.Epochs[2].BytesRead {
		t.Errorf("the last epoch moved %d bytes, the trace has %d", r.Epochs[2].BytesRead, n)
	}
}

// An interrupted run leaves no trace; the process that goes on records what is left.
func TestRecordedResumed(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options("", w.reading(gnndrive.Name), w.recordTo)
	w.interrupt(o, 5)
	if left, err := filepath.Glob(o.Record + "*"); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	again := Options{Stores: builtin, Out: o.Out, Record: o.Record, Resume: true}
	r, err := w.run(context.Background(), again, &logged{}, nil)
	if err != nil || r.State != rundir.ResultResumed {
		t.Fatal(r.State, err)
	}
	got := readTrace(t, o.Record)
	if done := 3*got.BatchesPerEpoch - len(got.batches); done < 1 || done > 5 {
		t.Errorf("%d batches were recorded when %d remained", len(got.batches), 3*got.BatchesPerEpoch-5)
	}
}

func TestRecordRefuses(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options("", w.reading(singlerows.Name), w.recordTo)
	if err := os.WriteFile(o.Record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "a new file only") {
		t.Error(err)
	}
	if exists(o.Out) {
		t.Error("a run was begun")
	}
	m := w.options("", w.mappingRows, w.recordTo)
	if _, err := w.run(context.Background(), m, &logged{}, nil); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "page faults") {
		t.Error(err)
	}
}

// The plan has room for what a trace takes.
func TestRecordingIsPlanned(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10), func(o *Options) { o.Slots = 2 })
	c := find(t, o.Pack)
	without, err := planMemory(c, &o, decide.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	w.recordTo(&o)
	with, err := planMemory(c, &o, decide.Needs{})
	f := c.Facts()
	if err != nil || with.Fixed-without.Fixed != recordBytes(&f, 2) {
		t.Errorf("%d bytes more, want %d; %v", with.Fixed-without.Fixed, recordBytes(&f, 2), err)
	}
	o.Memory = budget.Reserve + recordBytes(&f, 2)
	if _, err := planMemory(c, &o, decide.Needs{}); !errors.Is(err, fault.ErrBudget) {
		t.Error(err)
	}
}

// TestAlone: times in seconds.
func TestAlone(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	for _, c := range []struct{ began, now, left, waited, want float64 }{
		{10, 14, 0, 0, 4},
		{10, 14, 0, 3, 1},
		{10, 14, 8, 0, 4},  // the one before had left
		{10, 14, 13, 0, 1}, // three of them were another's
		{10, 14, 13, 2, 1}, // it worked for two, one of them beside another
		{10, 14, 13, 3.5, 0.5},
		{10, 14, 14, 0, 0},
		{10, 14, 0, 5, 0}, // several waits at once
	} {
		got := alone(at(c.began), at(c.now), at(c.left), time.Duration(c.waited*1e9))
		if want := time.Duration(c.want * 1e9); got != want {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
	}
}

// TestRunHasItsTimeline: every run records it, with a trace and without.
func TestRunHasItsTimeline(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	for _, trace := range []bool{false, true} {
		o := w.options(p, func(o *Options) { o.Epochs, o.Trace = 2, trace })
		w.mustRun(o, nil)
		l := mustRead(t, o.Out).Timeline
		if l == nil || l.Epoch != 1 || len(l.Spans) < 4*9 {
			t.Fatalf("trace %t: %+v", trace, l)
		}
		lanes := map[string]bool{}
		for _, s := range l.Spans {
			if lanes[s.Lane] = true; s.Begin < 0 || s.Seconds < 0 || s.Batch < 0 {
				t.Errorf("%+v", s)
			}
		}
		for _, link := range []string{epoch.LinkRead, epoch.LinkAssemble, epoch.LinkCompute} {
			if !lanes[link] {
				t.Errorf("no %s in %v", link, lanes)
			}
		}
		if _, err := disk.Stat(o.Out + "/" + rundir.TraceFile); (err == nil) != trace {
			t.Errorf("trace %t: %v", trace, err)
		}
	}
}

// By hand: 100 input nodes, each of whose rows takes part of two pages, and 1,024 reads of graphs.
// A read takes 32 bytes where it is recorded, 24 where it is written, and 16 encoded.
func TestRecordBytes(t *testing.T) {
	f := featurestore.Facts{TrainSizes: graph.Sizes{Src: []int{100}, Dst: []int{10}, Edges: []int{200}}, RowBytes: 5000}
	if n := recordRoom(&f); n != 1224 {
		t.Errorf("room for %d reads", n)
	}
	if record.ReadBytes != 32 {
		t.Fatalf("a read takes %d bytes", record.ReadBytes)
	}
	if n := recordBytes(&f, 3); n != 1224*(3*32+24+16)+1<<20 {
		t.Errorf("%d bytes", n)
	}
}
