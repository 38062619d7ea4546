package hyperion_test

import (
	"context"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

func percent(p float64) *budget.Size { return &budget.Size{Value: p, Unit: budget.UnitPercent} }

func find(t testing.TB, w *storetest.World, percent float64) featurestore.Candidate {
	t.Helper()
	c, _, err := all.Builtin().Find(storetest.Disk, hyperion.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Cached(c, percent, "")
}

func small(dim int, d dtype.Type) storetest.Params {
	return storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: dim, DType: d}, Batch: 5, Epochs: 1}
}

// Rows of several types, within a page, over pages and over many of them, with none of them in
// RAM, with some and with all.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		params  storetest.Params
		percent float64
	}{
		"half of the rows": {small(9, dtype.Float32), 50},
		"a few":            {small(1500, dtype.BFloat16), 10},
		"none":             {small(3, dtype.Float16), 0},
		"over pages":       {small(100, dtype.Float32), 30},
		"typed":            {storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 1}, 30},
		"all":              {small(100, dtype.Float32), 100},
	} {
		c.params.Drive = name == "a few"
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return find(t, w, c.percent)
			}, storetest.GPUReads)
		})
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
