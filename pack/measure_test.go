package pack

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/cut"
	"diskgnn/presample"
)

var unsynced = vfs.Unsynced(vfs.OS)

// drawn makes a dataset and samples of it.
func drawn(t *testing.T, raw dataset.Raw) Options {
	t.Helper()
	dir := t.TempDir()
	if err := dataset.Create(unsynced, dir+"/D", raw); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), unsynced, presample.Options{Dataset: dir + "/D", Out: dir + "/S", Fanout: []int{2}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	return Options{Dataset: dir + "/D", Samples: dir + "/S", Out: dir + "/P", Memory: 1 << 30, IO: "pread"}
}

// opened opens the parents of a pack.
func opened(t *testing.T, o Options) *request {
	t.Helper()
	r, err := open(t.Context(), unsynced, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// The table's drive is measured once for the codec and for the plan, within the budget.
func TestDriveIsMeasuredOnce(t *testing.T) {
	o := drawn(t, datasettest.Params{Nodes: 3000, AvgDegree: 4, Dim: 20, Seed: 5}.Raw())
	o.Compress = CompressAuto
	r := opened(t, o)
	first := r.read
	if first.PerSecond <= 0 {
		t.Fatalf("the codec was chosen without a rate: %+v", first)
	}
	d, _, err := r.measureDrive(t.Context())
	if err != nil || d.Sequential != first.PerSecond || r.read != first {
		t.Errorf("the plan's rate is %+v after %+v: %v", d, first, err)
	}
	o.Memory = budget.Reserve + 32<<20 // what the reads take, but not what is held beside
	if _, err := open(t.Context(), unsynced, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "measuring the drive needs") {
		t.Errorf("with too little memory: %v", err)
	}
}

// TestPlanEffort: a drive is loaded before it is measured, unless the table is small.
func TestPlanEffort(t *testing.T) {
	if e := planEffort(256<<20 - 1); !e.Once() {
		t.Errorf("a small table: %+v", e)
	}
	if e := planEffort(256 << 20); e != driverate.Limited || e.Drain <= 0 {
		t.Errorf("a large table: %+v", e)
	}
}

// faultyStack is a stack that cannot open files, or cannot close the first.
type faultyStack struct {
	iostack.Stack
	open, close error
}

type faultyFile struct {
	iostack.File
	err error
}

func (s *faultyStack) Open(name string) (iostack.File, error) {
	if s.open != nil {
		return nil, s.open
	}
	f, err := s.Stack.Open(name)
	if s.close != nil {
		f, s.close = faultyFile{f, s.close}, nil
	}
	return f, err
}

func (f faultyFile) Close() error { return errors.Join(f.File.Close(), f.err) }

// TestMeasureFails: whatever cannot be measured is an error of the plan.
func TestMeasureFails(t *testing.T) {
	r := opened(t, drawn(t, datasettest.Params{Nodes: 100, AvgDegree: 4, Dim: 20, Seed: 5}.Raw()))
	boom := errors.New("boom")
	stack, out := r.stack, r.o.Out
	for _, r.stack = range []iostack.Stack{&faultyStack{Stack: stack, open: boom}, &faultyStack{Stack: stack, close: boom}} {
		if _, _, err := r.measureDrive(t.Context()); !errors.Is(err, boom) {
			t.Errorf("the table's file: %v", err)
		}
	}
	r.stack, r.o.Out = stack, "measure_test.go/below/P"
	if _, _, err := r.measureDrive(t.Context()); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	r.o.Out = out
	if _, err := r.readRate(t.Context(), r.ds.FeaturesPath(), driverate.Effort{}); err != nil {
		t.Fatal(err)
	}
	r.o.Memory = 1 << 20 // too little for a batch
	if _, err := r.measure(t.Context(), &cut.Counts{}); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "renumbering a batch needs") {
		t.Errorf("with too little memory: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := r.graphPassSeconds(ended, []*graphSlot{{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestCodecSample: the rows from which the codec is chosen are eight pieces of the table, the first and the last among
// them: here, where only these two do not shrink, a quarter.
func TestCodecSample(t *testing.T) {
	raw := datasettest.Params{Nodes: 8 * 4096, AvgDegree: 1, Dim: sampleBytes / 4096 / 4, Seed: 5}.Raw()
	clear(raw.Features)
	for _, lo := range []int{0, 7 * sampleBytes} {
		noise := raw.Features[lo : lo+sampleBytes]
		_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
		for i := 3; i < len(noise); i += 4 {
			noise[i] &^= 0x40 // all are finite
		}
	}
	of, err := opened(t, drawn(t, raw)).measureCodecs(t.Context())
	if err != nil || len(of) != 2 {
		t.Fatal(of, err)
	}
	for _, m := range of {
		if m.ratio < 0.23 || m.ratio > 0.27 {
			t.Errorf("%s: %.3f of the bytes are left", m.codec, m.ratio)
		}
	}
}
