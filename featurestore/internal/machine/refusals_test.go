package machine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample"
)

var update = flag.Bool("update", false, "write the golden file anew")

func TestMain(m *testing.M) { os.Exit(vfstest.Main(m)) }

// sample draws samples for all stores, or of partitions.
func sample(partitions int) storetest.Sampler {
	return func(dataset, out string, p storetest.Params) error {
		o := presample.Options{Dataset: dataset, Out: out, BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 1}
		if partitions > 0 {
			o.Order, o.Partitions, o.Buffer = presample.OrderDispersed, partitions, partitions/2
		}
		_, err := presample.Run(context.Background(), storetest.Disk, o, progress.Discard)
		return err
	}
}

// flags are values of flags with the options that they set.
func flags(d *cuda.Device) []struct {
	text string
	set  func(o *featurestore.PlanOptions)
} {
	size := func(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }
	return []struct {
		text string
		set  func(o *featurestore.PlanOptions)
	}{
		{"--cache-policy fifo", func(o *featurestore.PlanOptions) { o.Policy = "fifo" }},
		{"--cache-policy lru", func(o *featurestore.PlanOptions) { o.Policy = "lru" }},
		{"--fault-threads 4", func(o *featurestore.PlanOptions) { o.FaultThreads = 4 }},
		{"--accumulator 1000", func(o *featurestore.PlanOptions) { o.Accesses = 1000 }},
		{"--gpus 2", func(o *featurestore.PlanOptions) { o.GPU, o.Peers = d, []device.GPU{d} }},
		{"--gpu-cache 0%", func(o *featurestore.PlanOptions) { o.GPU, o.GPUCache = d, size(0) }},
		{"--gpu-cache 10%", func(o *featurestore.PlanOptions) { o.GPU, o.GPUCache = d, size(10) }},
		{"--ram-cache 0%", func(o *featurestore.PlanOptions) { o.Cache = size(0) }},
		{"--ram-cache 50%", func(o *featurestore.PlanOptions) { o.Cache = size(50) }},
	}
}

// TestRefusals: testdata/refusals.txt is the table of the flags that a store takes, and of the messages for
// the flags that it refuses. They are errors of kind fault.ErrUsage.
func TestRefusals(t *testing.T) {
	p := storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 9}, Batch: 20, Epochs: 1}
	whole := storetest.NewWorld(t, p, sample(0))
	parts := storetest.NewWorld(t, p, sample(8))
	d := cudatest.Open(t)
	var table strings.Builder
	for _, s := range all.Builtin() {
		if s.On == nil {
			continue // it reads no dataset
		}
		w := whole
		if s.OwnSamples {
			w = parts
		}
		c, _, err := all.Builtin().Find(storetest.Disk, s.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range flags(d) {
			o := featurestore.PlanOptions{Memory: 1 << 40, GPUMemory: 1 << 40, Slots: 2, EvalSlots: 1, MostSlots: 2}
			f.set(&o)
			says := "taken"
			if _, err := c.Plan(o); err != nil {
				if says = err.Error(); !errors.Is(err, fault.ErrUsage) {
					t.Errorf("%s %s: %v", s.Name, f.text, err)
				}
			}
			fmt.Fprintf(&table, "%-9s %-19s  %s\n", s.Name, f.text, says)
		}
	}
	const golden = "testdata/refusals.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), table.String()); diff != "" {
		t.Errorf("another table (-update writes it anew):\n%s", diff)
	}
}
