package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

func find(t testing.TB, w *storetest.World) featurestore.Candidate {
	t.Helper()
	c, err := memory.Find(storetest.Disk, w.Dataset, w.Samples)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	for name, p := range map[string]storetest.Params{
		"float32":     {},
		"compressed":  {Compress: true, Fanout: []int{2, 3, 2}},
		"multi-label": {Params: datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 5, Classes: 11, MultiLabel: true, DType: dtype.Float16}, Batch: 9, Epochs: 1},
		"pieces":      {Params: datasettest.Params{Nodes: 1500, AvgDegree: 2, Dim: 400, DType: dtype.BFloat16}, Batch: 400, Epochs: 1},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, storetest.NewWorld(t, p, sample), find) })
	}
}

// The store has one cache, all rows, in RAM: others are refused by the flag's name.
func TestRefusals(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w)
	share := func(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }
	if _, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Cache: share(50)}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--ram-cache 50%") {
		t.Errorf("half of the rows: %v", err)
	}
	if l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Cache: share(100)}); err != nil || l.CacheRows != 300 {
		t.Errorf("all rows: %+v, %v", l, err)
	}
	if _, err := c.PlanEval(); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("for evaluation alone: %v", err)
	}
	other := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 9, Seed: 7}}, sample)
	if _, err := memory.Find(storetest.Disk, other.Dataset, w.Samples); !errors.Is(err, fault.ErrLineage) {
		t.Errorf("samples of another dataset: %v", err)
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
