package pack

import (
	"path/filepath"
	"reflect"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// TestDecide decides again, by other numbers of workers: decisions are equal values, and
// nothing but scratch and refill records is written before Write.
func TestDecide(t *testing.T) {
	fsys := vfs.Unsynced(vfs.OS)
	dir := t.TempDir()
	ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(fsys, ds, datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 2000, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), fsys, presample.Options{Dataset: ds, Out: samples, BatchSize: 2, Fanout: []int{3, 2}, Epochs: 3, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]Options{
		"static":   {},
		"segments": {MaxDisk: &budget.Size{Value: 3, Unit: budget.UnitTimes}},
		"min":      {Policy: packfile.PolicyMin, Cache: &budget.Size{Value: 20, Unit: budget.UnitPercent}},
	} {
		o.Dataset, o.Samples, o.Memory = ds, samples, 1<<30
		o.Out = filepath.Join(dir, what)
		var first cut.Decision
		for workers := 1; workers <= 3; workers++ {
			o.Workers = workers
			r, err := open(t.Context(), fsys, o, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			p, err := r.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d, err := p.Decide(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if workers == 1 {
				first = d
			}
			if !reflect.DeepEqual(d, first) {
				t.Errorf("%s: %d workers decide %+v, one %+v", what, workers, d, first)
			}
			if ok, err := vfs.Exists(fsys, p.dir.File(packfile.GraphFile(0))); ok || err != nil {
				t.Errorf("%s: graphs are written before Write: %v", what, err)
			}
			if workers < 3 {
				if err := p.end(nil); err != nil {
					t.Fatal(err)
				}
				continue
			}
			// The samples are small enough that the shape of a decision is known.
			if (d.Facts.Segment > 1) != (what == "segments") || (d.Cache.Hits > 0) != (what == "min") {
				t.Errorf("%s: segments of %d batches, %d hits", what, d.Facts.Segment, d.Cache.Hits)
			}
			res, err := p.Write(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.end(nil); err != nil {
				t.Fatal(err)
			}
			if res.DiskBytes > d.Bytes || res.HotRows != d.Facts.HotRows || res.EvalRows != d.Facts.EvalRows || res.Segments != d.Facts.Segments {
				t.Errorf("%s: decided %d bytes, %+v; packed %+v", what, d.Bytes, d.Facts, res)
			}
			if what == "static" && res.ColdRows != d.Cold || what == "segments" && (res.ColdRows != d.Cold || res.SSDRows != d.SSD) || what == "min" && res.ColdRows != d.Cold {
				t.Errorf("%s: decided %d cold and %d shared rows, packed %+v", what, d.Cold, d.SSD, res)
			}
		}
	}
}
