package presample

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

func TestDefaults(t *testing.T) {
	o := Options{Dataset: "D", Out: "S"}
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := o.params()
	if err != nil || p.BatchSize != 1024 || !slices.Equal(p.Fanout, []int{10, 15, 20}) || !slices.Equal(p.EvalFanout, p.Fanout) ||
		p.Epochs != 1 || p.TrainRatio != 1 || p.Order != "random" || p.Seed != 0 || p.Sampler != sampler.Version || p.Method != "" || p.BatchDependency != 0 || p.LayerDependency {
		t.Errorf("%+v, %v", p, err)
	}
	if o.Workers < 1 || o.Memory < 1 {
		t.Errorf("%d workers, %d bytes", o.Workers, o.Memory)
	}
}

// The least and the most partitions, and buffers of two and of all of them, are taken.
// A typed graph is sampled in one way, and others are refused by the flag's name.
func TestTypedRefuses(t *testing.T) {
	dir := vfstest.TempDir(t)
	d := create(t, dir, datasettest.Params{Nodes: 40, AvgDegree: 3, Typed: true}.Raw())
	for want, o := range map[string]Options{
		"--order overlap":    {Order: OrderOverlap},
		"--order sequential": {Order: OrderSequential, Partitions: 4, Buffer: 2},
		"--sampler labor":    {Sampler: SamplerLabor},
		"--topology cached":  {Topology: topology.Choice{Level: topology.Cached}},
	} {
		o.Dataset, o.Out = d.Dir(), filepath.Join(dir, "S")
		if _, err := Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestValidatePartitions(t *testing.T) {
	for _, n := range [][2]int{{2, 2}, {3, 2}, {3, 3}, {1 << 14, 2}, {1 << 14, 1 << 14}} {
		o := Options{Dataset: "D", Out: "S", Order: OrderSequential, Partitions: n[0], Buffer: n[1]}
		o.EnsureDefaults()
		if err := o.Validate(); err != nil {
			t.Errorf("%d partitions, a buffer of %d: %v", n[0], n[1], err)
		}
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for flag, spoil := range map[string]func(*Options){
		"--dataset":                      func(o *Options) { o.Dataset = "" },
		"--out":                          func(o *Options) { o.Out = "" },
		"--batch-size -1":                func(o *Options) { o.BatchSize = -1 },
		"--batch-size 536870912":         func(o *Options) { o.BatchSize = 1 << 29 },
		"--fanout: 0 layers":             func(o *Options) { o.Fanout = []int{} },
		"--fanout: 65 layers":            func(o *Options) { o.Fanout = make([]int, 65) },
		"--fanout: 0 neighbours":         func(o *Options) { o.Fanout = []int{5, 0} },
		"--fanout: 65537 neigh":          func(o *Options) { o.Fanout = []int{1, 1<<16 + 1} },
		"--fanout: -2 neighbours":        func(o *Options) { o.Fanout = []int{-2} },
		"--eval-fanout some":             func(o *Options) { o.EvalFanout = "some" },
		"--eval-fanout 5,5 has 2":        func(o *Options) { o.EvalFanout = "5,5" },
		"--eval-fanout 0,5,5":            func(o *Options) { o.EvalFanout = "0,5,5" },
		"--epochs -1":                    func(o *Options) { o.Epochs = -1 },
		"--epochs 2097152":               func(o *Options) { o.Epochs = 1 << 21 },
		"--train-ratio -0.5":             func(o *Options) { o.TrainRatio = -0.5 },
		"--train-ratio 1.01":             func(o *Options) { o.TrainRatio = 1.01 },
		"--train-ratio NaN":              func(o *Options) { o.TrainRatio = math.NaN() },
		"--order best is not one of":     func(o *Options) { o.Order = "best" },
		"--sampler ladies is not one of": func(o *Options) { o.Sampler = "ladies" },
		"--batch-dependency -1":          func(o *Options) { o.Sampler, o.BatchDependency = SamplerLabor, -1 },
		"--batch-dependency 1048":        func(o *Options) { o.Sampler, o.BatchDependency = SamplerLabor, 1<<20+1 },
		"--batch-dependency 2: n":        func(o *Options) { o.BatchDependency = 2 },
		"--layer-dependency: nee":        func(o *Options) { o.LayerDependency = true },
		"--partitions 4: only":           func(o *Options) { o.Partitions = 4 },
		"--buffer 4: only":               func(o *Options) { o.Order, o.Buffer = OrderOverlap, 4 },
		"--walk beta: only":              func(o *Options) { o.Order, o.Partitions, o.Buffer, o.Walk = OrderSequential, 8, 4, "beta" },
		"--partitions 0: --order":        func(o *Options) { o.Order = OrderSequential },
		"--partitions 1: --order":        func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderDispersed, 1, 1 },
		"--partitions 16385: --o":        func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderDispersed, 1<<14+1, 2 },
		"--buffer 1: --order seq":        func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderSequential, 8, 1 },
		"--buffer 9: --order seq":        func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderSequential, 8, 9 },
		"--walk  is not one of s":        func(o *Options) { o.Order, o.Partitions, o.Buffer = OrderDispersed, 8, 4 },
		"--walk far is not one of":       func(o *Options) { o.Order, o.Partitions, o.Buffer, o.Walk = OrderDispersed, 8, 4, "far" },
		"--sampler labor: --orde":        func(o *Options) { o.Order, o.Partitions, o.Buffer, o.Sampler = OrderSequential, 8, 4, SamplerLabor },
		"--workers -1":                   func(o *Options) { o.Workers = -1 },
		"--memory":                       func(o *Options) { o.Memory = -1 },
	} {
		o := Options{Dataset: "D", Out: "S"}
		o.EnsureDefaults()
		spoil(&o)
		if err := o.Validate(); !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
