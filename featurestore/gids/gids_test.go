package gids_test

import (
	"context"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

// cached is the store with levels of some share of the rows, in a mode.
type cached struct {
	featurestore.Candidate
	percent float64
	mode    string
}

func (c cached) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Cache == nil && !o.Least {
		o.Cache = &budget.Size{Value: c.percent, Unit: budget.UnitPercent}
	}
	o.Policy = c.mode
	return c.Candidate.Plan(o)
}

func find(t testing.TB, w *storetest.World) featurestore.Candidate {
	t.Helper()
	c, err := findIn(w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func findIn(w *storetest.World) (featurestore.Candidate, error) {
	c, _, err := all.Builtin().Find(storetest.Disk, gids.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	return c, err
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}

// Rows of several types and sizes, on parts of a page and over several, with levels that have
// room for no page, for few and for all.
func TestConformance(t *testing.T) {
	small := func(nodes, dim int, d dtype.Type, epochs int) storetest.Params {
		return storetest.Params{Params: datasettest.Params{Nodes: nodes, AvgDegree: 3, Dim: dim, DType: d}, Batch: 5, Epochs: epochs}
	}
	for name, c := range map[string]struct {
		params  storetest.Params
		percent float64
		mode    string
	}{
		"100 floats":      {small(60, 100, dtype.Float32, 2), 60, gids.Paper},
		"over pages":      {small(40, 1500, dtype.BFloat16, 1), 30, gids.Script},
		"a page each":     {small(60, 1024, dtype.Float32, 1), 10, ""},
		"none":            {small(60, 300, dtype.Float16, 1), 0, gids.Paper},
		"all":             {small(60, 200, dtype.Float32, 2), 100, gids.Paper},
		"typed":           {storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 300, Typed: true}, Batch: 5, Epochs: 2}, 20, ""},
		"one page of all": {small(60, 3, dtype.Float16, 1), 100, gids.Script},
	} {
		c.params.Drive = name == "over pages"
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return cached{find(t, w), c.percent, c.mode}
			}, storetest.NoGPURows, storetest.GPUReads)
		})
	}
}
