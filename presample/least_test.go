package presample

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// star is a graph all of whose nodes are neighbours of the first, which is theirs.
func star(nodes int) dataset.Raw {
	raw := datasettest.Params{Nodes: nodes, Seed: 3}.Raw()
	raw.Indptr, raw.Indices = []int64{0}, nil
	for v := range nodes {
		if v == 0 {
			for u := 1; u < nodes; u++ {
				raw.Indices = append(raw.Indices, uint32(u))
			}
		} else {
			raw.Indices = append(raw.Indices, 0)
		}
		raw.Indptr = append(raw.Indptr, int64(len(raw.Indices)))
	}
	return raw
}

// With the least memory that a plan names samples are drawn to the end, and a byte less is refused
// before any is. Of any less memory the refusal names enough.
func TestLeastMemorySuffices(t *testing.T) {
	dir := vfstest.TempDir(t)
	graphs := map[string]string{}
	for name, raw := range map[string]dataset.Raw{
		"hubs":      datasettest.Params{Nodes: 3000, AvgDegree: 12, Seed: 1}.Raw(),
		"star":      star(3000),
		"no edges":  datasettest.Params{Nodes: 500, Seed: 1}.Raw(),
		"dense":     datasettest.Params{Nodes: 400, AvgDegree: 150, Seed: 2}.Raw(),
		"two label": datasettest.Params{Nodes: 2000, AvgDegree: 5, Classes: 9, MultiLabel: true, Seed: 4}.Raw(),
		"typed":     datasettest.Params{Nodes: 3000, AvgDegree: 12, Seed: 1, Typed: true}.Raw(),
	} {
		graphs[name] = create(t, filepath.Join(dir, name), raw).Dir()
	}
	n, below := 0, 0
	for graph, o := range map[string]Options{
		"hubs/plain":          {Fanout: []int{5, 10}},
		"hubs/all":            {Fanout: []int{2, 3}, EvalFanout: "all"},
		"hubs/workers":        {Fanout: []int{10, 10, 10}, Workers: 7, BatchSize: 100},
		"hubs/epochs":         {Fanout: []int{5, 10}, Epochs: 5, BatchSize: 17, TrainRatio: 0.3},
		"hubs/cached":         {Fanout: []int{5, 10}, EvalFanout: "all", Topology: topology.Choice{Level: topology.Cached}},
		"hubs/overlap":        {Fanout: []int{5, 10}, Order: sampler.Overlap},
		"hubs/labor":          {Fanout: []int{5, 10}, Sampler: mbfile.Labor},
		"star/all":            {Fanout: []int{mbfile.AllNeighbours, mbfile.AllNeighbours}, BatchSize: 600},
		"star/few":            {Fanout: []int{20, 20}, BatchSize: 50, Workers: 3},
		"no edges/plain":      {Fanout: []int{5}},
		"dense/many":          {Fanout: []int{100, 100, 100}, BatchSize: 30, Workers: 2},
		"typed/all":           {Fanout: []int{2, 3}, EvalFanout: "all"},
		"typed/workers":       {Fanout: []int{5, 10}, Workers: 3},
		"two label/dispersed": {Fanout: []int{5, 10}, Order: sampler.Dispersed, Partitions: 8, Buffer: 4, BatchSize: 100},
		"two label/sequence":  {Fanout: []int{5, 10}, Order: sampler.Sequential, Partitions: 8, Buffer: 4, EvalFanout: "all"},
	} {
		name, _, _ := strings.Cut(graph, "/")
		o.Dataset = graphs[name]
		if o.BatchSize == 0 {
			o.BatchSize = 64
		}
		if o.Workers == 0 {
			o.Workers = 1
		}
		o.Memory = 1 << 30
		o.Out = filepath.Join(dir, "plan")
		p, err := MakePlan(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Errorf("%s: %v", graph, err)
			continue
		}
		run := func(memory int64) error {
			n++
			o.Out, o.Memory = filepath.Join(dir, fmt.Sprint("out", n)), memory
			_, err := Run(t.Context(), disk, o, progress.Discard)
			return err
		}
		if err := run(p.LeastBytes); err != nil {
			t.Errorf("%s: with the least of %d bytes: %v", graph, p.LeastBytes, err)
		}
		if err := run(p.LeastBytes - 1); !errors.Is(err, fault.ErrBudget) || strings.Contains(err.Error(), "batch ") && !strings.Contains(err.Error(), "any batch") {
			t.Errorf("%s: with a byte less: %v", graph, err)
		}
		for _, memory := range []int64{1, p.LeastBytes - 1<<20, p.LeastBytes - 1} {
			err := run(memory)
			var refusal *memoryError
			if !errors.Is(err, fault.ErrBudget) || !errors.As(err, &refusal) || !strings.Contains(err.Error(), fmt.Sprintf("; --memory %dMiB is enough for any batch", refusal.mebibytes)) {
				t.Errorf("%s: with %d bytes: %v", graph, memory, err)
				continue
			}
			if err := run(refusal.mebibytes << 20); err != nil || refusal.mebibytes<<20 < p.LeastBytes {
				t.Errorf("%s: with the %d MiB that are enough for any batch, %d bytes are the least: %v", graph, refusal.mebibytes, p.LeastBytes, err)
			}
		}
		if p.LeastBytes < boundOf(t, o) {
			below++
		}
	}
	if below == 0 {
		t.Error("bounds by fanout are never more than what is expected")
	}
}

// For an epoch more, memory that is enough for any batch has the index of that epoch's batches.
func TestBoundOfEpochs(t *testing.T) {
	d := create(t, vfstest.TempDir(t), datasettest.Params{Nodes: 1000, AvgDegree: 5, Seed: 1}.Raw())
	n := d.Facts().Train
	o := Options{Dataset: d.Dir(), Out: "S", BatchSize: 64, Fanout: []int{5}, Workers: 1, Memory: 1 << 30}
	index := func(batches int64) int64 {
		l := mbfile.Layout{Nodes: 1000, Layers: 1, Train: int(batches), BatchesPerFile: 1}
		return l.Memory()
	}
	for order, batches := range map[string]int64{
		"random": (n + 63) / 64, OrderSequential: n, // of partitions, any number of nodes may be left for a batch
	} {
		if o.Order = order; order == OrderSequential {
			o.Partitions, o.Buffer = 8, 4
		}
		o.Epochs = 5
		five := boundOf(t, o)
		o.Epochs = 6
		if got, want := boundOf(t, o)-five, index(6*batches)-index(5*batches); got != want || got <= 0 {
			t.Errorf("%s: %d bytes more, want %d", order, got, want)
		}
		o.Partitions, o.Buffer = 0, 0
	}
}

// boundOf returns the memory that is enough for any batch.
func boundOf(t *testing.T, o Options) int64 {
	t.Helper()
	s, err := begin(disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s.surely()
}

// A run that was interrupted goes on with the memory that it began with.
func TestLeastMemoryWhenResumed(t *testing.T) {
	dir := vfstest.TempDir(t)
	d := create(t, dir, datasettest.Params{Nodes: 3000, AvgDegree: 12, Seed: 1}.Raw())
	o := Options{Dataset: d.Dir(), Out: filepath.Join(dir, "S"), BatchSize: 32, Fanout: []int{5, 10}, EvalFanout: "all", Workers: 1, Memory: 1 << 30}
	p, err := MakePlan(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = p.LeastBytes
	s, err := begin(disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.topology.Close()
	whole, err := s.allot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range whole {
		before, err := s.probe(t.Context(), &p)
		if err != nil {
			t.Fatal(err)
		}
		p.lo, p.probed = p.hi-1, nil
		if after, err := s.probe(t.Context(), &p); err != nil || *after != *before {
			t.Errorf("phase %d: %+v when its last batch is left, %+v before; %v", i, after, before, err)
		}
	}
}
