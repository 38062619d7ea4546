package pack_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// wide has rows of 8,000 bytes, beside which what a pack adds for pages is little.
var wide = datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 2000, Seed: 5}

// least returns the disk budget that a refusal names as the least possible.
func least(t *testing.T, o pack.Options) float64 {
	t.Helper()
	o.MaxDisk = &budget.Size{Value: 1}
	o.Out = filepath.Join(t.TempDir(), "P")
	_, err := pack.Run(t.Context(), disk, o, progress.Discard)
	var refusal *cut.DiskError
	if !errors.Is(err, fault.ErrBudget) || !errors.As(err, &refusal) {
		t.Fatalf("a pack of one byte: %v", err)
	}
	for _, part := range []string{"the least possible ", fmt.Sprintf("(%d bytes", refusal.Need), "int8", "epochs"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("a pack of one byte: %v, without %q", err, part)
		}
	}
	if _, err := os.Stat(o.Out + ".partial/" + packfile.GraphFile(0)); err == nil {
		t.Error("work was done before the refusal")
	}
	return float64(refusal.Need)
}

// shared returns options that pack wide under the given share of what lies between
// the least possible and no budget.
func shared(t *testing.T, share float64) pack.Options {
	t.Helper()
	ds, samples := inputs(t, wide)
	o := options(ds, samples, filepath.Join(t.TempDir(), "all"))
	o.Cache, o.Bands = &budget.Size{Value: 10, Unit: budget.UnitPercent}, []float64{30, 20}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	low := least(t, o)
	o.MaxDisk = &budget.Size{Value: low + share*(float64(res.DiskBytes)-low)}
	o.Out = filepath.Join(t.TempDir(), "P")
	return o
}

// TestBudget keeps to all budgets, and refuses a byte less than the least.
func TestBudget(t *testing.T) {
	o := shared(t, 0)
	low := o.MaxDisk.Value
	o.MaxDisk.Value--
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("a byte less than the least possible: %v", err)
	}
	lengths := map[int]bool{}
	for times := 1.0; times < 8; times *= 1.13 {
		o.Out = filepath.Join(t.TempDir(), "P")
		o.MaxDisk.Value = low * times
		res, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, b := range contents(t, o.Out) {
			size += len(b)
		}
		if float64(size) > o.MaxDisk.Value {
			t.Errorf("%d bytes of %.0f: %+v", size, o.MaxDisk.Value, res)
		}
		lengths[res.Segments] = true
	}
	if len(lengths) < 4 {
		t.Errorf("numbers of segments: %v", lengths)
	}
}

// TestBandsBeforeSegments gives up large caches before it shares a row.
func TestBandsBeforeSegments(t *testing.T) {
	o := shared(t, 1)
	o.MaxDisk.Value += 200_000 // what padding takes at most
	edges, before := 3, false
	for n := 0; ; n++ {
		o.Out = filepath.Join(t.TempDir(), "P")
		res, err := pack.Run(t.Context(), disk, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 && (len(res.CacheRows) != 3 || res.SSDRows != 0) {
			t.Fatalf("with as much as without a budget: %+v", res)
		}
		if res.SSDRows > 0 {
			break
		}
		if len(res.CacheRows) > edges {
			t.Errorf("%.0f bytes are less and allow more caches: %v", o.MaxDisk.Value, res.CacheRows)
		}
		edges = len(res.CacheRows)
		before = before || edges < 3
		o.MaxDisk.Value -= float64(2 * res.RowBytes)
	}
	if !before {
		t.Error("rows were shared before a cache was given up")
	}
}

// TestSegmentsSameBytes packs segments with different workers, memory and ranges.
func TestSegmentsSameBytes(t *testing.T) {
	o := shared(t, 0.3)
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil || res.SSDRows == 0 || res.ColdRows == 0 || res.Segments < 2 {
		t.Fatalf("the budget does not exercise segments: %+v, %v", res, err)
	}
	want := contents(t, o.Out)
	for _, workers := range []int{1, 5} {
		for _, memory := range []int64{256 << 20, 8 << 30} {
			for _, rows := range []int64{0, 7} {
				o.Out = filepath.Join(t.TempDir(), "P")
				o.Workers, o.Memory, o.RangeRows = workers, memory, rows
				if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
					t.Fatal(err)
				}
				same(t, o.Out, contents(t, o.Out), want)
			}
		}
	}
	r, err := packfile.Open(vfs.OS, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(t.Context(), vfs.OS, progress.Discard); err != nil {
		t.Error(err)
	}
}

// TestSegmentsFailures fails every so many write operations of a run with segments,
// alone and with all later ones, and goes on.
func TestSegmentsFailures(t *testing.T) {
	o := shared(t, 0.3)
	o.RangeRows = 25
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	want := contents(t, o.Out)
	for _, after := range []bool{false, true} {
		failing(t, o, want, 17, func(n int) *vfs.FailAt { return &vfs.FailAt{N: n, After: after} })
	}
}

// TestTinySegment packs the hand-drawn graph of TestTinyByValue in one segment. With a
// cache of the nodes 0 and 1, the batches of the seeds 0, 1 and 4 need
//
//	2 7   3   3 4 5 6 7
//
// beside it: 3 and 7 are shared, the others stay in the chunks.
func TestTinySegment(t *testing.T) {
	raw := datasettest.Tiny(t)
	const times = 2000 // rows of three elements are nothing beside a page
	row := make([][]byte, len(raw.Labels))
	var wide []byte
	for v := range row {
		row[v] = slices.Repeat(raw.Features[v*12:(v+1)*12], times)
		wide = append(wide, row[v]...)
	}
	raw.Features, raw.Dim = wide, 3*times
	dir := t.TempDir()
	ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(disk, ds, raw); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), disk, presample.Options{Dataset: ds, Out: samples, BatchSize: 1, Fanout: []int{9}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	o := options(ds, samples, filepath.Join(dir, "P"))
	o.Cache, o.Bands = &budget.Size{Value: 25, Unit: budget.UnitPercent}, []float64{}
	o.MaxDisk = &budget.Size{Value: least(t, o)}
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if res.HotRows != 2 || res.SSDRows != 2 || res.ColdRows != 4 || res.EvalRows != 5 || res.Segments != 1 {
		t.Errorf("rows: %+v", res)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(o.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	holds := func(what string, b []byte, nodes ...int) {
		t.Helper()
		for i, v := range nodes {
			if string(b[i*len(row[0]):][:len(row[0])]) != string(row[v]) {
				t.Errorf("%s: row %d is not node %d's", what, i, v)
			}
		}
	}
	// The batch of seed 4 uses both; the one that comes before the other tells
	// whether 3 or 7 does.
	ssd := []int{3, 7}
	if string(read(packfile.SSDFile(0))[:12]) == string(row[7][:12]) {
		ssd = []int{7, 3}
	}
	holds("ssd-00000.bin", read(packfile.SSDFile(0)), ssd...)
	r, err := packfile.Open(vfs.OS, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	place := map[int]uint32{ssd[0]: 0, ssd[1]: 1}
	rank := []uint32{0, 1, 4, 2, 5, 6, 7, 3}
	for i := range r.Facts().Train {
		e := &r.Index().Train[i]
		var b graph.Batch
		var plan packfile.Plan
		if err := r.DecodeTrainGraph(i, packfile.Everything, read(packfile.GraphFile(0))[e.GraphOffset:][:e.GraphBytes()], &b, &plan); err != nil {
			t.Fatal(err)
		}
		var chunk, both []int
		var hot []uint32
		switch e.Inputs {
		case 4:
			chunk, both, hot = []int{2}, []int{7}, []uint32{1, 0} // seed 0
		case 3:
			both, hot = []int{3}, []uint32{1, 0} // seed 1
		case 5:
			chunk, both = []int{4, 5, 6}, ssd // seed 4
		}
		holds(fmt.Sprint("chunk ", i), read(packfile.ColdFile(0))[e.ChunkOffset:], chunk...)
		var names, places []uint32
		for _, v := range chunk {
			names = append(names, rank[v])
		}
		for _, v := range both {
			names, places = append(names, rank[v]), append(places, place[v])
		}
		if names = append(names, hot...); !slices.Equal(b.Input, names) || !slices.Equal(plan.SSD, places) {
			t.Errorf("batch %d: ranks %v, places %v; want %v, %v", i, b.Input, plan.SSD, names, places)
		}
		if e.Bands[0] != len(chunk) || e.SSD[0] != len(both) {
			t.Errorf("batch %d: bands of %v and %v rows", i, e.Bands, e.SSD)
		}
	}
}
