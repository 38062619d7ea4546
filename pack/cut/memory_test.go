package cut

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/internal/limittest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// TestEvaluationNodesInPlan collects the nodes of evaluation batches that are far larger
// than training's: what that takes is known before, and is the bytes of one batch.
func TestEvaluationNodesInPlan(t *testing.T) {
	dir := t.TempDir()
	ds, out := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(vfs.Unsynced(vfs.OS), ds, datasettest.Params{Nodes: 4000, AvgDegree: 40, Dim: 4, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), vfs.Unsynced(vfs.OS), presample.Options{Dataset: ds, Out: out, Fanout: []int{1, 1}, EvalFanout: "all", Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	samples, err := mbfile.Open(vfs.OS, out)
	if err != nil {
		t.Fatal(err)
	}
	defer samples.Close()
	rank := make([]uint32, samples.Facts().Nodes)
	s := samples.Facts()
	most := int64(0)
	for i := s.TrainBatches; i < s.Batches(); i++ {
		most = max(most, samples.Info(i).Size)
	}
	if most < 100<<10 {
		t.Fatalf("the largest batch of evaluation has %d bytes", most)
	}
	memory := HeldMemory(s.Nodes) + RecordMemory(s) + most
	if n := limittest.Allocated(func() { _, err = evalNodes(t.Context(), samples, rank, 0, memory, func(int, uint32) {}) }); err != nil || n > most+s.Nodes/8+32<<10 {
		t.Errorf("%d bytes were allocated for batches of at most %d: %v", n, most, err)
	}
	memory--
	if _, err := evalNodes(t.Context(), samples, rank, 0, memory, func(int, uint32) {}); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("a byte less than is needed: %v", err)
	}

	// The simulation of the cache needs more than a byte, too.
	c := &Counts{Request: Request{Samples: samples, Workers: 1, Memory: 1, Reporter: progress.Discard}, costs: costs{edges: []int64{10}}}
	if _, err := c.Simulate(t.Context(), vfs.OS, dir, 0, nil); !errors.Is(err, fault.ErrBudget) || !strings.HasPrefix(err.Error(), "simulating the cache needs ") {
		t.Errorf("a simulation in a byte: %v", err)
	}
}

// What is planned for the ranks, the census, a segment and the cache of a simulation is what
// they take.
func TestFormulas(t *testing.T) {
	const nodes, batches, rows = 1_000_000, 5000, 200_000
	hotness := make([]uint32, nodes)
	for v := range hotness {
		hotness[v] = uint32(v*7919) % (batches + 1)
	}
	edges := []int64{500_000, 300_000, 100_000}
	all := make([]uint32, nodes)
	for v := range all {
		all[v] = uint32(v)
	}
	rank, _, _ := Rank(hotness)
	var kept []uint32
	var starts []int64
	for _, c := range []struct {
		what    string
		planned int64
		take    func()
	}{
		{"ranks", rankingMemory(nodes, batches) - 4*nodes, func() { Rank(hotness) }}, // the hotness is there
		{"held", HeldMemory(nodes) - budget.Reserve, func() {
			kept = make([]uint32, nodes) // ranks
			idset.New(nodes).Count()
		}},
		{"simulation", simulationMemory(nodes, rows, batches), func() {
			newBelady(make([]uint32, nodes), batches, rows)
			idset.New(nodes).Count() // the set of the circle, and its ranks
			idset.New(nodes).Count()
			starts = make([]int64, 2*(batches+1)) // where lists begin, and their checksums
		}},
		{"census", censusMemory(nodes), func() { newCensusTaker(nodes, batches, edges) }},
		{"segment", SegmentMemory(nodes, nodes), func() {
			s := newSegment(rank, edges)
			s.begin(2)
			s.add(0, all)
			s.add(1, all)
			s.finish()
		}},
		{"segment that shares few", SegmentMemory(nodes, 10), func() {
			s := newSegment(rank, edges)
			s.begin(2)
			s.add(0, all)
			s.add(1, all[:10])
			s.finish()
		}},
	} {
		took := limittest.Allocated(c.take)
		if took > c.planned+40<<10 || took < c.planned*3/4 {
			t.Errorf("%s: %d bytes are taken, %d planned", c.what, took, c.planned)
		}
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(starts)
}

// TestGraphBytesByHand: of a batch with 2 input nodes, an edge and a seed node, the bound has the blocks, the ranks and
// degrees, and the heads of the lists, which take more than a page for 300 bands.
func TestGraphBytesByHand(t *testing.T) {
	dir := t.TempDir()
	ds, out := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(vfs.Unsynced(vfs.OS), ds, datasettest.Params{Nodes: 300, AvgDegree: 4, Dim: 4, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), vfs.Unsynced(vfs.OS), presample.Options{Dataset: ds, Out: out, BatchSize: 1, Fanout: []int{1}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	samples, err := mbfile.Open(vfs.OS, out)
	if err != nil {
		t.Fatal(err)
	}
	defer samples.Close()
	f := samples.Facts()
	pages := func(graph int64) int64 { return int64(f.Batches()) * ((graph + 4095) / 4096) * 4096 }
	const most = 16 + 16 + 3 + 4 + 2*(5+1+3) + 2 // head, layer, numbers, label, two lists, degrees
	for _, bands := range []int{1, 6, 300, 600} {
		heads := int64(7 * (2*bands + 1))
		if got, _ := graphBytesOf(samples, bands); got != pages(most+heads) {
			t.Errorf("%d bands: %d bytes for %d batches, want %d", bands, got, f.Batches(), pages(most+heads))
		}
	}
	// A batch has an edge, or none at a node without neighbours.
	if _, blocks := graphBytesOf(samples, 1); blocks < int64(f.TrainBatches)*(16+16+2+4) || blocks > int64(f.TrainBatches)*(16+16+3+4) {
		t.Errorf("%d bytes of the blocks of %d batches", blocks, f.TrainBatches)
	}
}
