package presample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
)

// arranged is arrange, written with slices of slices.
func arranged(c cutting, local []uint32, key uint64) []uint32 {
	src := rng.New(key)
	shift := int(src.Uint64n(uint64(len(local))))
	circle := slices.Concat(local[shift:], local[:shift])
	number := c.groups * c.runs
	var runs [][][]uint32 // of blocks
	for r := range number {
		run := circle[r*len(circle)/number : (r+1)*len(circle)/number]
		rng.Shuffle(&src, run)
		runs = append(runs, slices.Collect(slices.Chunk(run, c.block)))
	}
	rng.Shuffle(&src, runs)
	var order []uint32
	for group := range slices.Chunk(runs, c.runs) {
		for b := range len(local) {
			for _, run := range group {
				if b < len(run) {
					order = append(order, run[b]...)
				}
			}
		}
	}
	return order
}

func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 600).Draw(t, "nodes")
		c := newCutting(n, rapid.IntRange(1, 100).Draw(t, "batch"))
		local := rapid.Permutation(identity(make([]uint32, n))).Draw(t, "local")
		key := rapid.Uint64().Draw(t, "key")
		order := make([]uint32, n)
		c.arrange(order, local, make([]uint32, n), key)
		if d := cmp.Diff(arranged(c, local, key), order); d != "" {
			t.Fatal(d)
		}
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, identity(make([]uint32, n))) {
			t.Fatalf("no permutation: %v", got)
		}
	})
}

func TestCutting(t *testing.T) {
	for _, c := range []struct {
		n, batch int
		want     cutting
	}{
		{1, 1024, cutting{n: 1, groups: 1, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		{1024 * groupBatches * 5, 1024, cutting{n: 1024 * groupBatches * 5, groups: 5, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		// Eleven batches make one group, twelve two: not one more than there are counts.
		{1024 * 11, 1024, cutting{n: 1024 * 11, groups: 1, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		{1024*11 + 1, 1024, cutting{n: 1024*11 + 1, groups: 2, runs: mixedBlocks, block: 1024 / mixedBlocks}},
		{100, 1, cutting{n: 100, groups: (100 + groupBatches/2) / groupBatches, runs: 1, block: 1}},
	} {
		if got := newCutting(c.n, c.batch); got != c.want {
			t.Errorf("%d nodes in batches of %d: %+v, want %+v", c.n, c.batch, got, c.want)
		}
	}
}

// topologyOf returns the topology of a dataset made in the directory.
func topologyOf(t interface {
	datasettest.TB
	Cleanup(func())
}, dir string, raw dataset.Raw) *dataset.Topology {
	t.Helper()
	topology, err := create(t, dir, raw).Topology(context.Background(), progress.Discard, 1)
	if err != nil {
		t.Fatalf("open the topology: %v", err)
	}
	t.Cleanup(func() { _ = topology.Close() })
	return topology
}

// communitiesOf is walker.communities with maps.
func communitiesOf(g *graph.CSC, key uint64) []uint32 {
	label := identity(make([]uint32, g.NumNodes()))
	for round := range mostRounds {
		key := rng.Join(key, uint64(round))
		next, moved := slices.Clone(label), 0
		for v := range next {
			draw := rng.Join(key, uint64(v))
			if draw&1 == 0 {
				continue
			}
			list := g.Neighbors(uint32(v))
			step := max((len(list)+mostVotes-1)/mostVotes, 1)
			votes := map[uint32]int{}
			for i := 0; i < len(list); i += step {
				votes[label[list[i]]]++
			}
			most, lot := 0, uint64(0)
			for l, n := range votes {
				if draw := rng.Join(draw, uint64(l)); n > most || n == most && draw > lot {
					next[v], most, lot = l, n, draw
				}
			}
			if next[v] != label[v] {
				moved++
			}
		}
		if label = next; moved <= len(label)/settled {
			break
		}
	}
	return label
}

func TestLocalityProperties(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		tmp, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		raw := datasettest.Params{
			Nodes: rapid.IntRange(1, 300).Draw(t, "nodes"), AvgDegree: rapid.Float64Range(0, 100).Draw(t, "degree"), Seed: rapid.Uint64().Draw(t, "graph"),
		}.Raw()
		topology := topologyOf(t, tmp, raw)
		key := rapid.Uint64().Draw(t, "key")
		w := walker{topology, rapid.IntRange(1, 3).Draw(t, "workers")}
		label, _, err := w.communities(context.Background(), key)
		if d := cmp.Diff(communitiesOf(&topology.CSC, key), label); err != nil || d != "" {
			t.Fatalf("communities: %v %s", err, d)
		}
		nodes := rapid.SliceOfDistinct(rapid.Uint32Range(0, uint32(topology.NumNodes()-1)), func(v uint32) uint32 { return v }).Draw(t, "training")
		order, err := locality(context.Background(), topology, nodes, key, w.workers)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, identity(make([]uint32, len(nodes)))) {
			t.Fatalf("no permutation of %d: %v", len(nodes), order)
		}
	})
}

// TestLocalityTellsPartsApart: even nodes and odd nodes are two cliques; node 8
// has no neighbours.
func TestLocalityTellsPartsApart(t *testing.T) {
	raw := datasettest.Params{Nodes: 9, AvgDegree: 0, Seed: 1}.Raw()
	raw.Indptr, raw.Indices = []int64{0}, nil
	for v := range uint32(9) {
		for u := v % 2; u < 8 && v < 8; u += 2 {
			if u != v {
				raw.Indices = append(raw.Indices, u)
			}
		}
		raw.Indptr = append(raw.Indptr, int64(len(raw.Indices)))
	}
	topology := topologyOf(t, t.TempDir(), raw)
	nodes := []uint32{0, 1, 2, 3, 4, 8, 5, 6, 7}
	for key := range uint64(10) {
		order, err := locality(t.Context(), topology, nodes, key, 2)
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		for i := range order[1:] {
			if a, b := nodes[order[i]], nodes[order[i+1]]; a == 8 || b == 8 || a%2 != b%2 {
				changes++
			}
		}
		// The parts change once between the cliques, and around the lonely node.
		if changes > 3 {
			t.Errorf("key %d: %v", key, order)
		}
	}
}

func overlapOptions(t *testing.T, dir string) Options {
	o := testOptions(t, dir)
	o.Order, o.TrainRatio = OrderOverlap, 0.7
	return o
}

func TestOverlapSameBytes(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	for _, workers := range []int{1, 5} {
		for _, memory := range []int64{256 << 20, 8 << 30} {
			o.Workers, o.Memory = workers, memory
			o.Out = filepath.Join(dir, fmt.Sprint(workers, memory))
			mustRun(t, o)
			if d := cmp.Diff(want, files(t, o.Out)); d != "" {
				t.Errorf("%d workers, %d bytes: %.300s", workers, memory, d)
			}
		}
	}
}

func TestOverlapShards(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	o.Out = filepath.Join(dir, "merged")
	dirs, _, err := sampleShards(o, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := merge(disk, o.Out, dirs); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, files(t, o.Out)); d != "" {
		t.Errorf("%.300s", d)
	}
}

func TestOverlapEpochs(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	r := open(t, o.Out)
	f := r.Facts()
	var batch graph.Batch
	epochs := make([][]uint32, f.Epochs)
	for e := range epochs {
		for b := range f.BatchesPerEpoch {
			i := e*f.BatchesPerEpoch + b
			if _, err := r.Read(t.Context(), i, nil, &batch); err != nil {
				t.Fatal(err)
			}
			epochs[e] = append(epochs[e], batch.Input[:len(batch.Labels)]...)
		}
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("two epochs in the same order")
	}
	for _, e := range epochs {
		slices.Sort(e)
		if !slices.Equal(e, epochs[0]) || len(slices.Compact(slices.Clone(e))) != len(e) {
			t.Errorf("an epoch visits %v", e)
		}
	}
}

func TestOverlapCancelAndResume(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	mustRun(t, o)
	want := files(t, o.Out)
	for _, at := range []int{1, 9, 15} {
		o.Out = filepath.Join(dir, fmt.Sprint("cancel", at))
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(int64(at))
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at batch %d: %v", at, err)
		}
		mustRun(t, o)
		if d := cmp.Diff(want, files(t, o.Out)); d != "" {
			t.Fatalf("cancelled at batch %d: %.300s", at, d)
		}
	}
}

func TestOverlapRefusals(t *testing.T) {
	dir := t.TempDir()
	o := overlapOptions(t, dir)
	o.EnsureDefaults()
	p, err := o.params()
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(disk, o.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadSeeds(t.Context(), d, p, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkMemory(1<<32, 32<<30); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("two words for each of 2³² nodes in 32 GiB: %v", err)
	}
	topology, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer topology.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.localize(ctx, topology, 2, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
