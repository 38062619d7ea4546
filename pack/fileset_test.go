package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// descriptors counts, before every operation, the process's open files of a directory.
type descriptors struct {
	dir  string
	mu   sync.Mutex
	most int
}

func (d *descriptors) Before(vfs.Op, string) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, d.dir) {
			n++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most = max(d.most, n)
	return nil
}

// manyGroups makes samples of more than eight groups of batches.
func manyGroups(t *testing.T, dim int) (ds, samples string) {
	t.Helper()
	dir := t.TempDir()
	ds, samples = filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(disk, ds, datasettest.Params{Nodes: 320, AvgDegree: 4, Dim: dim, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	_, err := presample.Run(t.Context(), disk, presample.Options{
		Dataset: ds, Out: samples, BatchSize: 1, Fanout: []int{3, 3}, Epochs: 4, Workers: 2, Memory: 1 << 30,
	}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return ds, samples
}

// TestFewDescriptors packs more groups than files may be open: chunks, hot rows that are
// spilled, and the SSD level. The bytes are the same, also when a file cannot be made
// durable before it is closed, and the next run goes on.
func TestFewDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted in /proc")
	}
	ds, samples := manyGroups(t, 3000)
	o := options(ds, samples, filepath.Join(t.TempDir(), "all"))
	o.Bands, o.Cache = []float64{}, &budget.Size{Value: 25, Unit: budget.UnitPercent}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if groups := (res.Segments + packfile.GroupBatches(1) - 1) / packfile.GroupBatches(1); groups < 8 {
		t.Fatalf("%d groups", groups)
	}
	sharing := o
	low := least(t, o)
	sharing.MaxDisk = &budget.Size{Value: low + 0.93*(float64(res.DiskBytes)-low)}
	for what, o := range map[string]pack.Options{"chunks": o, "ssd": sharing} {
		o.Out, o.RangeRows = filepath.Join(t.TempDir(), "ref"), 70
		res, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if what == "ssd" && (res.SSDRows == 0 || res.SegmentBatches > 64) {
			t.Fatalf("the budget makes other segments than are wanted: %+v", res)
		}
		want := contents(t, o.Out)
		const most = 3
		o.KeepOpen(most)
		o.RangeRows = 5 // hot rows in windows
		o.Out = filepath.Join(t.TempDir(), "P")
		d := &descriptors{dir: o.Out}
		if _, err := pack.Run(t.Context(), vfs.Inject(disk, d), o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		same(t, what, contents(t, o.Out), want)
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil || strings.Contains(string(maps), o.Out) {
			t.Errorf("%s: a file of %s is mapped: %v", what, o.Out, err)
		}
		// A file has two descriptors, and all that are written to at a time are open;
		// journal, lock and lists beside them have one.
		if d.most > 2*max(most, pack.WriteDepth)+6 {
			t.Errorf("%s: %d descriptors", what, d.most)
		}
		boom := errors.New("boom")
		in := &vfs.FailAt{N: 20, Err: boom, Match: func(op vfs.Op, name string) bool {
			return op == vfs.OpSync && (strings.Contains(name, "cold-") || strings.Contains(name, "ssd-"))
		}}
		o.RangeRows, o.Out = 70, filepath.Join(t.TempDir(), "P")
		if _, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard); !errors.Is(err, boom) {
			t.Errorf("%s: a file that cannot be made durable: %v", what, err)
		}
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		same(t, what+" resumed", contents(t, o.Out), want)
	}
}
