package pack

import (
	"errors"
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
	"diskgnn/presample"
)

// The table's drive is measured once for the codec and for the plan, within the budget.
func TestDriveIsMeasuredOnce(t *testing.T) {
	fsys, dir := vfs.Unsynced(vfs.OS), t.TempDir()
	if err := dataset.Create(fsys, dir+"/D", datasettest.Params{Nodes: 3000, AvgDegree: 4, Dim: 20, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), fsys, presample.Options{Dataset: dir + "/D", Out: dir + "/S", Fanout: []int{2}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	o := Options{Dataset: dir + "/D", Samples: dir + "/S", Out: dir + "/P", Compress: CompressAuto, Memory: 1 << 30, IO: "pread"}
	r, err := open(t.Context(), fsys, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	first := r.read
	if first.PerSecond <= 0 {
		t.Fatalf("the codec was chosen without a rate: %+v", first)
	}
	d, _, err := r.measureDrive(t.Context())
	if err != nil || d.Sequential != first.PerSecond || r.read != first {
		t.Errorf("the plan's rate is %+v after %+v: %v", d, first, err)
	}
	r.o.Out = "measure_test.go/below/P"
	if _, _, err := r.measureDrive(t.Context()); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	o.Memory = budget.Reserve + 32<<20 // what the reads take, but not what is held beside
	if _, err := open(t.Context(), fsys, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "measuring the drive needs") {
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
