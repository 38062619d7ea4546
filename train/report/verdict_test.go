package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/program"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// links are busy for so many seconds of an epoch of one second.
func links(read, compute float64, more ...pipeline.LinkTime) []pipeline.LinkTime {
	return append([]pipeline.LinkTime{{Link: "load graph", Workers: 1, Busy: 0.02}, {Link: "read features", Workers: 1, Busy: read},
		{Link: "assemble", Workers: 2, Busy: 0.2}, {Link: "compute", Workers: 1, Busy: compute}}, more...)
}

// judged is a finished run of so many epochs of one second, which reads 1,000 rows of 1 MiB and
// has a cache of 100.
func judged(epochs int, l []pipeline.LinkTime) *Run {
	r := &Run{File: rundir.File{State: rundir.StateFinished, Result: &rundir.Result{}}}
	r.Setup = rundir.Setup{Engine: "cpu", Slots: 3, Threads: 2, Memory: 4 << 30, Planned: 1 << 30, CacheRows: 100}
	r.Setup.BLAS, r.Setup.SIMD = "builtin 1", "avx2"
	r.PackFacts.Nodes, r.PackFacts.RowBytes, r.PackFacts.DType, r.PackFacts.Policy, r.PackFacts.Segment = 1000, 1<<20, "float32", "static", 1
	r.PackFacts.Caches = []featurestore.Cache{{Rows: 50, Hits: 0.3, ReadBytes: 1200}, {Rows: 100, Hits: 0.5, ReadBytes: 1000}, {Rows: 200, Hits: 0.75, ReadBytes: 480}, {Rows: 500, Hits: 0.9, ReadBytes: 100}}
	for i := range epochs {
		r.Epochs = append(r.Epochs, rundir.Epoch{Epoch: i, Seconds: 1, Links: l, ReadRate: 100e6, ValidAccuracy: score.Undefined,
			BytesRead: 1100, GraphBytesRead: 100, UsefulBytes: 1000})
	}
	return r
}

// TestVerdict: what follows from figures, by hand.
func TestVerdict(t *testing.T) {
	const byDrive = "Bound by the drive: reading features takes 900 ms of an epoch's 1.00 s, computing 300 ms."
	const byCPU = "Bound by the processors: computing takes 950 ms of an epoch's 1.00 s, reading features 100 ms."
	const spare = "The drive has time to spare: more or faster processors would help, or a GPU; a larger cache would not."
	read, compute := links(0.9, 0.3), links(0.1, 0.95)
	for what, c := range map[string]struct {
		links  []pipeline.LinkTime
		epochs int
		change func(*Run)
		want   []Finding
	}{
		"nothing trained": {read, 0, func(*Run) {}, nil},
		"no links":        {nil, 2, func(*Run) {}, nil},
		"a larger cache fits": {read, 2, func(*Run) {}, []Finding{{"bound", byDrive},
			{"reading", "A cache of 20 % of the rows, 200.0 MiB, in place of 10 % would halve the reads, and reading about 432 ms of an epoch."}}},
		"a cache was chosen": {read, 2, func(r *Run) { r.Preferences.RAMCache = new(budget.Size) }, []Finding{{"bound", byDrive},
			{"reading", "A cache of 20 % of the rows, 200.0 MiB, in place of 10 % would halve the reads (--ram-cache 20%), and reading about 432 ms of an epoch."}}},
		"memory is short": {read, 2, func(r *Run) { r.Setup.Memory = 1100 << 20 }, []Finding{{"bound", byDrive},
			{"reading", "A cache of 20 % of the rows, 200.0 MiB, in place of 10 % would halve the reads; it takes --memory 1.1GiB or more, and reading about 432 ms of an epoch."}}},
		"none halves it": {read, 2, func(r *Run) { r.PackFacts.Caches[2].ReadBytes, r.PackFacts.Caches[3].ReadBytes = 900, 700 }, []Finding{{"bound", byDrive},
			{"reading", "A cache of 50 % of the rows, 500.0 MiB, in place of 10 % would leave 70 % of the reads, and reading about 630 ms of an epoch."}}},
		"none helps": {read, 2, func(r *Run) { r.PackFacts.Caches = r.PackFacts.Caches[:2] }, []Finding{{"bound", byDrive},
			{"reading", "The cache already holds all rows that the pack allows; a pack with float16 rows (pack --dtype float16) would halve the reads, and round the features."}}},
		"narrow rows": {read, 2, func(r *Run) { r.PackFacts.Caches, r.PackFacts.DType = nil, "float16" }, []Finding{{"bound", byDrive}}},
		"the drive's limit": {read, 2, func(r *Run) { r.PackFacts.Caches, r.PackFacts.DType, r.DriveRate = nil, "float16", 110e6 }, []Finding{{"bound", byDrive},
			{"reading", "The drive is at its limit: 95.4 MiB/s, of 104.9 MiB/s in sequence."}}},
		"below the drive's rate": {read, 2, func(r *Run) { r.PackFacts.Caches, r.PackFacts.DType, r.DriveRate = nil, "float16", 400e6 }, []Finding{{"bound", byDrive},
			{"reading", "Reads come at 95.4 MiB/s, 25 % of the drive's rate in sequence."}}},
		"rows one by one": {read, 2, func(r *Run) {
			r.PackFacts.Policy, r.PackFacts.RowBytes, r.PackFacts.Caches = "", 512, nil
			for i := range r.Epochs {
				r.Epochs[i].BytesRead, r.Epochs[i].InputNodes, r.Epochs[i].RAMBytes = 100+10<<12, 22, 2*512
			}
		}, []Finding{{"bound", byDrive},
			{"reading", "Batches use 25 % of the bytes read: rows have 512 B, but whole pages are read. A pack stores the rows of a batch next to each other (diskgnn pack)."}}},
		"policy min": {read, 2, func(r *Run) { r.PackFacts.Policy = "min" }, []Finding{{"bound", byDrive},
			{"reading", "A pack with a larger cache (pack --cache), or with float16 rows (pack --dtype float16), would read less."}}},
		"the first epoch fills the cache": {read, 3, func(r *Run) { r.Epochs[0].Links, r.Epochs[0].Seconds = links(9, 0.3), 9.2 },
			[]Finding{{"bound", byDrive}, {"reading", "A cache of 20 % of the rows, 200.0 MiB, in place of 10 % would halve the reads, and reading about 432 ms of an epoch."}}},
		"the processors": {compute, 2, func(*Run) {}, []Finding{{"bound", byCPU}, {"computing", spare}}},
		"gonum, plain": {compute, 2, func(r *Run) { r.Setup.BLAS, r.Setup.SIMD = "gonum", "plain" }, []Finding{{"bound", byCPU},
			{"computing", "The matrix products are in plain Go, a tenth as fast as others: the processor has no AVX2, or DISKGNN_SIMD disables it. OpenBLAS is faster here (Debian, Ubuntu: apt install libopenblas0)."}}},
		"gonum by choice": {compute, 2, func(r *Run) { r.Setup.BLAS = "gonum" }, []Finding{{"bound", byCPU},
			{"computing", "The matrix products are gonum's, a tenth as fast as the program's own (--blas builtin) or OpenBLAS's."}}},
		"gonum, and the drive": {read, 2, func(r *Run) { r.Setup.BLAS, r.PackFacts.Caches, r.PackFacts.DType = "gonum", nil, "float16" }, []Finding{{"bound", byDrive}}},
		"idle processors": {compute, 2, func(r *Run) { r.Host = &program.Host{Processors: 4} }, []Finding{{"bound", byCPU},
			{"computing", "The run computes on 2 threads of the machine's 4 processors (--threads)."}}},
		"all processors": {compute, 2, func(r *Run) { r.Host = &program.Host{Processors: 3} }, []Finding{{"bound", byCPU}, {"computing", spare}}},
		"a GPU": {links(0.1, 0.95, pipeline.LinkTime{Link: "launch", Workers: 1, Busy: 0.3}), 2, func(r *Run) { r.Setup.Device, r.Setup.Precision = "H200", "float32" },
			[]Finding{{"bound", "Bound by the GPU: computing takes 950 ms of an epoch's 1.00 s, launching the GPU's work 300 ms."},
				{"computing", "Products in TF32 are faster (--precision tf32), and less exact."}}},
		"the bus": {links(0.1, 0.4, pipeline.LinkTime{Link: "GPU copy", Workers: 1, Busy: 0.8}), 2, func(r *Run) { r.Setup.Device = "H200" },
			[]Finding{{"bound", "Bound by the bus to the GPU: copying to the GPU takes 800 ms of an epoch's 1.00 s, computing 400 ms."}}},
		"both": {links(0.9, 0.85), 2, func(r *Run) { r.PackFacts.Caches, r.PackFacts.DType = nil, "float16" },
			[]Finding{{"bound", "Bound by the drive and the processors alike: reading features takes 900 ms of an epoch's 1.00 s, computing 850 ms."}, {"computing", spare}}},
		"nobody": {links(0.5, 0.4), 2, func(r *Run) { r.PackFacts.Caches, r.PackFacts.DType, r.Setup.Slots = nil, "float16", 2 },
			[]Finding{{"bound", "No stage fills the epoch: reading features takes 500 ms of an epoch's 1.00 s, computing 400 ms; they wait for each other. More batches under way (--slots, now 2) would let them overlap."}}},
		"workers divide the time": {[]pipeline.LinkTime{{Link: "assemble", Workers: 4, Busy: 3.2}, {Link: "compute", Workers: 1, Busy: 0.7}}, 2, func(*Run) {},
			[]Finding{{"bound", "Bound by copies in memory and the processors alike: assembling feature matrices takes 800 ms of an epoch's 1.00 s, computing 700 ms."}, {"computing", spare}}},
		"drawing": {[]pipeline.LinkTime{{Link: "load graph", Workers: 1, Busy: 0.99}, {Link: "compute", Workers: 1, Busy: 0.3}}, 2, func(r *Run) { r.Params.Fanout = "4,4" },
			[]Finding{{"bound", "Bound by sampling: drawing batches takes 990 ms of an epoch's 1.00 s, computing 300 ms."}}},
		"still better": {compute, 5, scored(0.1, 0.2, 0.3, 0.4, 0.5),
			[]Finding{{"bound", byCPU}, {"computing", spare}, {"scores", "The last epoch is the best: more epochs may score better."}}},
		"too few to tell": {compute, 4, scored(0.1, 0.2, 0.3, 0.4), []Finding{{"bound", byCPU}, {"computing", spare}}},
		"interrupted":     {compute, 5, func(r *Run) { scored(0.1, 0.2, 0.3, 0.4, 0.5)(r); r.State = rundir.StateInterrupted }, []Finding{{"bound", byCPU}, {"computing", spare}}},
		"long past": {compute, 13, scored(0.1, 0.2, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4),
			[]Finding{{"bound", byCPU}, {"computing", spare}, {"scores", "The best epoch is 2 of 13: no score was better in the 10 epochs since (--patience ends a run sooner)."}}},
		"validating": {compute, 2, func(r *Run) { r.Epochs[1].ValidSeconds = 3 },
			[]Finding{{"bound", byCPU}, {"computing", spare}, {"validation", "Validation takes longer than training: 3.00 s of 5.00 s (--validate-every makes it rarer)."}}},
	} {
		r := judged(c.epochs, c.links)
		c.change(r)
		got := r.verdict()
		for i := range got {
			got[i].Text = strings.ReplaceAll(got[i].Text, "\u00a0", " ")
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
}

func scored(list ...score.Score) func(*Run) {
	return func(r *Run) {
		for i, s := range list {
			r.Epochs[i].ValidAccuracy = s
		}
	}
}

func TestCeilMemory(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "64MiB", 64 << 20: "64MiB", 64<<20 + 1: "128MiB", 1 << 30: "1GiB", 1<<30 + 1: "1.1GiB", 3 << 29: "1.5GiB"} {
		if got := ceilMemory(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestOneEpochTime: all that says how long an epoch takes says the same.
func TestOneEpochTime(t *testing.T) {
	for _, c := range []struct {
		seconds []float64
		name    string
		want    string
		value   score.Score
	}{
		{[]float64{9, 1, 2, 6}, "an epoch after the first", "3.00 s", 3},
		{[]float64{4}, "an epoch", "4.00 s", 4},
	} {
		r := judged(len(c.seconds), links(2, 1))
		for i, s := range c.seconds {
			r.Epochs[i].Seconds = s
		}
		if says := r.sentence(); !strings.HasSuffix(says, " "+capital(c.name)+" takes "+c.want+".") {
			t.Error(says)
		}
		tiles := map[string]string{}
		for _, row := range r.tiles() {
			tiles[row.Name] = row.Value
		}
		if tiles[c.name] != c.want {
			t.Errorf("tiles %v", tiles)
		}
		if bound := r.verdict()[0].Text; !strings.Contains(bound, " of an epoch's "+c.want) {
			t.Error(bound)
		}
		if got := r.compared("r").EpochSeconds; got != c.value {
			t.Errorf("compared by %v", got)
		}
	}
	if judged(0, nil).compared("r").EpochSeconds.Defined() {
		t.Error("an epoch of none")
	}
}
