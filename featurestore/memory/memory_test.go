package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	allstores "diskgnn/featurestore/all"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample"
)

func find(t testing.TB, w *storetest.World) featurestore.Candidate {
	t.Helper()
	c, _, err := allstores.Builtin().Find(storetest.Disk, memory.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
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
		"typed":       {Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 2},
		"pieces":      {Params: datasettest.Params{Nodes: 1500, AvgDegree: 2, Dim: 400, DType: dtype.BFloat16}, Batch: 400, Epochs: 1},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, storetest.NewWorld(t, p, sample), find) })
	}
}

// A table of more pieces than are under way comes to its places on a GPU, whatever order the
// streams work in, also where rows go on over several pieces.
func TestLateFill(t *testing.T) {
	for name, p := range map[string]storetest.Params{
		"rows in pieces": {Params: datasettest.Params{Nodes: 2600, AvgDegree: 3, Dim: 1001, Seed: 3}, Batch: 300, Epochs: 1},
		"compressed":     {Params: datasettest.Params{Nodes: 2600, AvgDegree: 3, Dim: 2002, Seed: 3, DType: dtype.Float16}, Batch: 300, Epochs: 1, Compress: true},
		"pieces of rows": {Params: datasettest.Params{Nodes: 12, AvgDegree: 3, Dim: 270_000}, Batch: 4, Epochs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := storetest.NewWorld(t, p, sample)
			c := find(t, w)
			f := c.Facts()
			cudatest.Late(t, 3, func(t *testing.T, d *cuda.Device) {
				stack, _, err := all.Open("pread", iostack.Options{Workers: 2})
				must(t, err)
				defer stack.Close()
				l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, GPU: d, GPUMemory: 1 << 30, GPUCache: &budget.Size{Value: 40, Unit: budget.UnitPercent}})
				must(t, err)
				st, err := c.Open(stack, l)
				must(t, err)
				_, err = st.Fill(t.Context(), 0, progress.Discard)
				must(t, err)
				sl, err := st.View(0).NewSlot(false)
				must(t, err)
				for i := range min(f.Train, 3) {
					ref := featurestore.Ref{Index: i}
					must(t, storetest.Load(t.Context(), sl, ref))
					x, err := storetest.OnGPU(sl, d, len(sl.Batch().Input)*f.Dim)
					must(t, err)
					w.Holds(t, ref, sl.Batch(), x, f.DType)
				}
				sl.Free()
				must(t, st.Close())
			})
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The GPU holds what is wanted of the rows or what fits, by rank, and RAM the others.
func TestPlanForGPU(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample) // 300 rows of 36 bytes
	c := find(t, w)
	d := cudatest.Open(t)
	plan := func(gpu int64, cache, ram *budget.Size) (featurestore.Layout, error) {
		return c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, GPU: d, GPUMemory: gpu, GPUCache: cache, Cache: ram})
	}
	size := func(v float64, u budget.Unit) *budget.Size { return &budget.Size{Value: v, Unit: u} }
	none, err := plan(1<<30, size(0, budget.UnitPercent), nil)
	must(t, err)
	if none.GPURows != 0 || none.GPURowsBytes != 0 || none.GPUBytes == 0 {
		t.Errorf("nothing on the GPU: %+v", none)
	}
	page := func(n int64) int64 { return (n + 4095) / 4096 * 4096 }
	// Eight pieces under way, each with the beginning of a row and the ranks of 29,128 rows.
	if want := page(8 * (40 + 1<<20 + 4*29_128)); none.KeepBytes != want {
		t.Errorf("filling takes %d bytes, want %d", none.KeepBytes, want)
	}
	for _, q := range []struct {
		gpu        int64
		cache, ram *budget.Size
		rows       int64
	}{
		{1 << 30, nil, nil, 300},
		{1 << 30, size(100, budget.UnitPercent), nil, 300},
		{1 << 30, size(25, budget.UnitPercent), nil, 75},
		{1 << 30, size(25, budget.UnitPercent), size(75, budget.UnitPercent), 75},
		{1 << 30, size(360, budget.UnitBytes), nil, 10},
		{none.GPUBytes, nil, nil, 0},
		{none.GPUBytes + 2*cuda.Align, nil, nil, 2 * cuda.Align / 36},
	} {
		l, err := plan(q.gpu, q.cache, q.ram)
		ranks := page(4 * 300)
		if err != nil || l.GPURows != q.rows || l.GPURowsBytes != 36*q.rows || l.RAMBytes != page(36*(300-q.rows))+ranks || l.CacheRows != 300 || l.GPUBytes > q.gpu {
			t.Errorf("%d bytes, %v on the GPU, %v in RAM: %+v, %v", q.gpu, q.cache, q.ram, l, err)
		}
	}
	if _, err := plan(none.GPUBytes-1, nil, nil); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--gpu-memory") {
		t.Errorf("no room for batches: %v", err)
	}
	if _, err := plan(none.GPUBytes+cuda.Align, size(10, budget.UnitPercent), nil); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--gpu-cache 10%") {
		t.Errorf("no room for rows: %v", err)
	}
	if _, err := plan(1<<30, size(25, budget.UnitPercent), size(74, budget.UnitPercent)); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--ram-cache 74%") {
		t.Errorf("some rows nowhere: %v", err)
	}
}

// The store has one cache, all rows: a smaller one is refused by the flag's name.
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
	other := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 300, AvgDegree: 5, Dim: 9, Seed: 7}}, sample)
	if _, _, err := allstores.Builtin().Find(storetest.Disk, memory.Name, stores.Places{Dataset: other.Dataset, Samples: w.Samples}); !errors.Is(err, fault.ErrLineage) {
		t.Errorf("samples of another dataset: %v", err)
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
