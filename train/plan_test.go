package train

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/device"
	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/progress"
	"diskgnn/pipeline"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// plan plans, and checks that nothing was written and that all memory outside the heap was
// given back.
func (w *world) plan(ctx context.Context, o Options, change func(*parts)) (Plan, error) {
	w.t.Helper()
	g := newGPUDevice(0)
	defer g.close()
	p := usual(g.openStack, g.newEngine)
	if change != nil {
		change(&p)
	}
	held, before := device.HostBytes(), sizes(w.t, w.dir)
	plan, err := makePlan(ctx, disk, o, nil, progress.Discard, p)
	if n := device.HostBytes(); n != held {
		w.t.Errorf("%d bytes of host memory were not given back", n-held)
	}
	if d := cmp.Diff(before, sizes(w.t, w.dir)); d != "" {
		w.t.Errorf("files changed: %s", d)
	}
	return plan, err
}

// sizes returns the files below a directory with their bytes.
func sizes(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			files[path] = st.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A plan computes a few batches of any store, and says what the run then takes.
func TestPlan(t *testing.T) {
	w := newWorld(t, worldParams{})
	packed := w.pack(20)
	for name, o := range map[string]Options{
		"packed": w.options(packed),
		"memory": w.options("", w.fromSamples),
		"rows":   w.options("", w.reading("rows")),
		"live":   w.options("", func(o *Options) { o.Dataset, o.Fanout, o.BatchSize = w.path("dataset"), "3,4", 16 }),
		"none":   w.options(packed, func(o *Options) { o.Engine = EngineNone }),
		"steps":  w.options(packed, func(o *Options) { o.Accumulate = 2 }),
		"alone":  w.options(packed, func(o *Options) { o.Slots = 1 }),
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, dataset: w.dataset, packs: w.packs}
			o.CheckpointEvery = rundir.Interval{Batches: 1} // which a plan leaves out
			p, err := w.plan(t.Context(), o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(o.Out); err == nil {
				t.Errorf("%s is there", o.Out)
			}
			r, _ := w.mustRun(o, nil)
			if p.Measured != plannedBatches || p.BatchesPerEpoch != r.Epochs[0].Batches || p.Epochs != len(r.Epochs) {
				t.Errorf("%d of %d batches, %d epochs; the run had %d in %d", p.Measured, p.BatchesPerEpoch, p.Epochs, r.Epochs[0].Batches, len(r.Epochs))
			}
			if p.Engine != r.Engine || p.MemoryBytes != r.Planned || p.CacheRows != r.CacheRows || p.Slots != r.Slots || p.PreloadBytes != r.PreloadBytes {
				t.Errorf("planned %+v, ran %+v", p, r.Setup)
			}
			if ratio := float64(p.EpochBytes+1) / float64(r.Epochs[0].BytesRead+1); ratio < 0.5 || ratio > 2 {
				t.Errorf("planned to read %d bytes an epoch, read %d", p.EpochBytes, r.Epochs[0].BytesRead)
			}
			if p.EmptyCache != (name == "rows") {
				t.Errorf("an empty cache: %v", p.EmptyCache)
			}
			if p.EpochSeconds <= 0 || p.Seconds < p.EpochSeconds*float64(p.Epochs) || (p.ValidSeconds > 0) != (o.Engine != EngineNone) {
				t.Errorf("%+v", p)
			}
			if p.DiskBytes <= 0 || p.FreeBytes <= 0 || len(p.Links) != 4 || p.Bound == "" {
				t.Errorf("%+v", p)
			}
		})
	}
}

// What a plan says of the disk covers what a run leaves there.
func TestPlanOfDisk(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(20), func(o *Options) { o.Hidden, o.CheckpointEvery = 64, rundir.Interval{Batches: 1} })
	p, err := w.plan(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.mustRun(o, nil)
	var left int64
	for name, size := range sizes(t, o.Out) {
		if filepath.Base(name) != rundir.ReportFile { // of a fixed size, mostly
			left += size
		}
	}
	if left > p.DiskBytes || p.DiskBytes > 20*left {
		t.Errorf("planned %d bytes, %d are left", p.DiskBytes, left)
	}
}

func TestPlanRefuses(t *testing.T) {
	w := newWorld(t, worldParams{})
	packed := w.pack(20)
	for name, o := range map[string]Options{
		"resume":  w.options(packed, func(o *Options) { o.Resume = true }),
		"ranks":   w.options(packed, func(o *Options) { o.Job = job.Place{Index: 1, Count: 2} }),
		"GPUs":    w.options(packed, func(o *Options) { o.Replicas = AllGPUs }),
		"no pack": w.options(""),
	} {
		if _, err := w.plan(t.Context(), o, nil); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.plan(ctx, w.options(packed), nil); !errors.Is(err, fault.ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
	// Within a step of several batches, which is over before the plan ends.
	for _, calls := range []int{0, 1, 2, 3} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.plan(ctx, w.options(packed, func(o *Options) { o.Accumulate = 2 }), func(p *parts) { endAfter(p, calls, cancel) })
		if !errors.Is(err, fault.ErrInterrupted) || err.Error() != "interrupted; nothing was kept" {
			t.Errorf("interrupted after %d calls: %v", calls, err)
		}
		cancel()
	}
}

// Four batches of 1 s, 2 s by two workers, and 3 s: the last link is always at work.
func TestChained(t *testing.T) {
	table := pipeline.Table{Links: []pipeline.LinkTime{{Workers: 1, Busy: 2}, {Workers: 2, Busy: 4}, {Workers: 1, Busy: 6}}}
	for slots, want := range map[int]float64{2: 1 + 2 + 3*4, 1: 4 * (1 + 2 + 3)} {
		if got := chained(table, 2, 4, slots); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d slots: %v, want %v", slots, got, want)
		}
	}
}

// A trace is not written by a plan, and counts in its memory as in the run's.
func TestPlanCountsRecording(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(20), func(o *Options) { o.Slots = 2 })
	without, err := w.plan(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Record = w.path("trace")
	var room int64
	with, err := w.plan(t.Context(), o, func(p *parts) {
		inner := p.decide
		p.decide = func(o decide.Options, f decide.Facts) (decide.Decision, error) {
			room = recordBytes(&f.Store.Facts, 2)
			return inner(o, f)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if with.MemoryBytes != without.MemoryBytes+room || room == 0 {
		t.Errorf("%d bytes with a trace of %d, %d without", with.MemoryBytes, room, without.MemoryBytes)
	}
}
