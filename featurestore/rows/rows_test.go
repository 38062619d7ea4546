package rows_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/rows"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

func find(t testing.TB, w *storetest.World, percent float64, policy string) featurestore.Candidate {
	t.Helper()
	c, _, err := all.Builtin().Find(storetest.Disk, rows.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Cached(c, percent, policy)
}

// Rows of every type and of odd sizes, within a page, over pages and over many of them, with
// caches of every policy, from none to all rows.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		params  storetest.Params
		percent float64
		policy  string
	}{
		"float32":    {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 9}, Batch: 5, Epochs: 2}, 20, "s3fifo"},
		"100 floats": {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 100}, Batch: 5, Epochs: 1}, 10, "lru"},
		"6 bytes":    {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 3, DType: dtype.Float16}, Batch: 5, Epochs: 1}, 30, "clock"},
		"bfloat16":   {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 7, DType: dtype.BFloat16, Classes: 11, MultiLabel: true}, Batch: 5, Epochs: 1}, 5, "sieve"},
		"over pages": {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 1500}, Batch: 5, Epochs: 1}, 40, "s3fifo"},
		"no cache":   {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 2049, DType: dtype.Float16}, Batch: 5, Epochs: 1}, 0, "lru"},
		"typed":      {storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 2, Fanout: []int{2, 3}}, 20, "s3fifo"},
		"all rows":   {storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 5}, Batch: 5, Epochs: 1}, 100, "s3fifo"},
	} {
		c.params.Drive = name == "over pages"
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return find(t, w, c.percent, c.policy)
			}, storetest.GPUReads)
		})
	}
}

// What the store cannot do is refused by the flag's name, or with what to do.
func TestRefusals(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w, 10, "lru")
	if _, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, w, 10, "fifo").Plan(featurestore.PlanOptions{Memory: 1 << 30}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--cache-policy fifo") {
		t.Errorf("an unknown policy: %v", err)
	}
	small := storetest.NewWorld(t, storetest.Params{Compress: true}, sample)
	if _, _, err := all.Builtin().Find(storetest.Disk, rows.Name, stores.Places{Dataset: small.Dataset, Samples: small.Samples}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "import it again without --compress, or pack it") {
		t.Errorf("compressed features: %v", err)
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
