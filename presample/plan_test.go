package presample

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/presample/sampler/topology"
)

func mustPlan(t *testing.T, o Options) Plan {
	t.Helper()
	p, err := MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Of the tiny graph one batch of each kind is all there is: the plan has the counts of
// TestTiny, and the bytes that are written then.
func TestPlanTiny(t *testing.T) {
	dir := t.TempDir()
	d := create(t, dir, datasettest.Tiny(t))
	o := Options{Dataset: d.Dir(), Out: filepath.Join(dir, "not", "there", "S"), BatchSize: 3, Fanout: []int{all}}
	p := mustPlan(t, o)
	if _, err := os.Stat(filepath.Join(dir, "not")); err == nil {
		t.Error("the plan made a directory")
	}
	mustRun(t, o)
	f := open(t, o.Out).Facts()
	want := Plan{
		Epochs: 1, TrainBatches: 1, ValidBatches: 1, TestBatches: 1,
		Measured: 1, InputNodes: 8, Edges: 9, BatchBytes: float64(f.Train.Bytes), EpochBytes: f.Train.Bytes, Table: "array",
	}
	if d := cmp.Diff(want, p, cmpopts.IgnoreFields(Plan{}, "Workers", "MemoryBytes", "LeastBytes", "DiskBytes", "FreeBytes", "EpochSeconds", "VerifySeconds", "Seconds")); d != "" {
		t.Error(d)
	}
	if least := f.Train.Bytes + f.Eval.Bytes + 4*8; p.DiskBytes <= least || p.DiskBytes > least+1000 {
		t.Errorf("%d bytes of disk, batches and hotness have %d", p.DiskBytes, least)
	}
	if p.Workers < 1 || p.FreeBytes <= 0 || p.MemoryBytes <= 0 || p.EpochSeconds <= 0 || p.Seconds <= p.VerifySeconds || p.VerifySeconds <= 0 {
		t.Errorf("%+v", p)
	}
}

// What is planned of several batches is what sampling them takes, about; it is less in a
// shard; and whatever the topology is read from, nothing is left behind.
func TestPlanPredicts(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t, dir)
	before := files(t, o.Dataset)
	whole := mustPlan(t, o)
	o.Shard = shard.Shard{Index: 1, Count: 2}
	part := mustPlan(t, o)
	o.Shard = shard.Shard{}
	o.Topology.Level = topology.Cached
	cached := mustPlan(t, o)
	if d := cmp.Diff(before, files(t, o.Dataset)); d != "" {
		t.Errorf("the dataset changed: %s", d)
	}
	if names, err := disk.List(dir); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v %v", names, err)
	}
	o.Topology.Level = ""
	r := mustRun(t, o)
	if whole.Measured != 3 || whole.TrainBatches != r.TrainBatches || whole.ValidBatches != r.ValidBatches || whole.TestBatches != r.TestBatches {
		t.Errorf("%+v, sampled %+v", whole, r)
	}
	if ratio := float64(whole.DiskBytes) / float64(r.DiskBytes); math.Abs(ratio-1) > 0.1 {
		t.Errorf("planned %d bytes, sampled %d", whole.DiskBytes, r.DiskBytes)
	}
	if whole.MemoryBytes > o.Memory || whole.MemoryBytes < 4<<20 {
		t.Errorf("%d bytes of memory", whole.MemoryBytes)
	}
	if part.TrainBatches+part.ValidBatches+part.TestBatches >= r.Batches || part.DiskBytes >= whole.DiskBytes {
		t.Errorf("a shard of half: %+v", part)
	}
	if cached.BatchBytes != whole.BatchBytes || cached.DiskBytes != whole.DiskBytes {
		t.Errorf("cached: %+v, mapped: %+v", cached, whole)
	}
}

// counting adds up the totals that tasks were begun with, and the steps that they took.
type counting struct {
	progress.Reporter
	total, steps, draws int64
}

func (c *counting) Task(name string, total int64, _ progress.Unit) progress.Task {
	c.total += total
	if name == "draw a few batches" {
		c.draws = total
	}
	return countedTask{progress.Discard.Task(name, total, progress.Batches), c}
}

type countedTask struct {
	progress.Task
	c *counting
}

func (t countedTask) Add(n int64) { t.c.steps += n }

// Of each phase with batches one batch warms up, and at most three are measured. A shard without training
// batches has nothing to predict of an epoch.
func TestPlanDraws(t *testing.T) {
	d := create(t, t.TempDir(), datasettest.Tiny(t)) // a batch to train on, to validate and to test with
	o := Options{Dataset: d.Dir(), Out: filepath.Join(t.TempDir(), "S"), BatchSize: 3, Fanout: []int{all}, batchesPerFile: 1}
	for _, c := range []struct {
		of    shard.Shard
		train int
		draws int64
	}{{shard.Shard{}, 1, 2 + 3}, {shard.Shard{Index: 0, Count: 3}, 1, 2}, {shard.Shard{Index: 2, Count: 3}, 0, 2}} {
		o.Shard = c.of
		seen := &counting{Reporter: progress.Discard}
		p, err := MakePlan(t.Context(), disk, o, seen)
		if err != nil {
			t.Fatal(err)
		}
		if p.TrainBatches != c.train || p.Measured != c.train || seen.steps != seen.total || seen.draws != c.draws {
			t.Errorf("shard %v: %+v, %d steps of %d, want %d draws", c.of, p, seen.steps, seen.total, c.draws)
		}
		// A training batch is all that the first shard draws, and an epoch.
		if drawing := p.Seconds - p.VerifySeconds; c.of.Count > 0 && c.train == 1 && math.Abs(drawing-p.EpochSeconds) > 1e-6*drawing {
			t.Errorf("shard %v: an epoch takes %v s, all batches %v s", c.of, p.EpochSeconds, drawing)
		}
		if c.train == 0 && (p.InputNodes != 0 || p.Edges != 0 || p.BatchBytes != 0 || p.EpochBytes != 0 || p.EpochSeconds != 0) {
			t.Errorf("without training: %+v", p)
		}
	}
}

func TestPlanEnds(t *testing.T) {
	o := testOptions(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := MakePlan(ctx, disk, o, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	o.Dataset = filepath.Join(t.TempDir(), "none")
	if _, err := MakePlan(t.Context(), disk, o, progress.Discard); err == nil {
		t.Error("without a dataset")
	}
}
