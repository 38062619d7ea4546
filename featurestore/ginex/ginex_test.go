package ginex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

// need returns what a layout takes, with its slots.
func need(l featurestore.Layout, o featurestore.PlanOptions) int64 {
	return l.TableBytes + l.RAMBytes + l.KeepBytes + l.WindowBytes + l.QueueBytes + int64(o.Slots)*l.SlotBytes + int64(o.EvalSlots)*l.EvalSlotBytes
}

// sized is the store with a cache of some share of the rows, and the most memory with which
// superbatches are no longer than that many batches.
type sized struct {
	featurestore.Candidate
	percent float64
	batches int
}

func (c sized) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Least {
		return c.Candidate.Plan(o)
	}
	if o.Cache == nil {
		o.Cache = &budget.Size{Value: c.percent, Unit: budget.UnitPercent}
	}
	for {
		l, err := c.Candidate.Plan(o)
		if err != nil || l.Superbatch <= c.batches {
			return l, err
		}
		o.Memory = need(l, o) - 1
	}
}

func find(t testing.TB, w *storetest.World) featurestore.Candidate {
	t.Helper()
	c, _, err := all.Builtin().Find(storetest.Disk, ginex.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rows of several types, caches from none to all rows, and superbatches of one batch, of some,
// of an epoch of several, and of all batches that there are.
func TestConformance(t *testing.T) {
	small := func(epochs, dim int, d dtype.Type) storetest.Params {
		return storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: dim, DType: d}, Batch: 5, Epochs: epochs}
	}
	for name, c := range map[string]struct {
		params  storetest.Params
		percent float64
		batches int
	}{
		"an epoch of two":     {small(2, 9, dtype.Float32), 20, 1 << 30},
		"all batches":         {small(1, 100, dtype.Float32), 10, 1 << 30},
		"superbatches of two": {small(2, 7, dtype.BFloat16), 30, 2},
		"superbatches of one": {small(1, 1500, dtype.Float16), 15, 1},
		"no cache":            {small(1, 3, dtype.Float16), 0, 3},
		"typed":               {storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 2}, 20, 2},
		"all rows":            {small(2, 5, dtype.Float32), 100, 3},
	} {
		c.params.Drive = name == "superbatches of one"
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return sized{find(t, w), c.percent, c.batches}
			}, storetest.GPUReads)
		})
	}
}

// oracle is what Ginex reads for each batch of a superbatch: it begins with the first distinct
// nodes, each of which counts for the batch that first uses it, and then keeps, of the rows it
// has and those of the batch, the ones with the nearest next uses.
func oracle(batches [][]uint32, frames int) (read [][]uint32) {
	cached, unread := map[uint32]bool{}, map[uint32]bool{}
	for _, b := range batches {
		for _, v := range b {
			if len(cached) < frames {
				cached[v], unread[v] = true, true
			}
		}
	}
	for i, b := range batches {
		var missed []uint32
		for _, v := range b {
			if !cached[v] || unread[v] {
				missed = append(missed, v)
			}
			delete(unread, v)
		}
		read = append(read, missed)
		// The nearest next uses: batch by batch, each batch's nodes ascending.
		candidates := map[uint32]bool{}
		for _, v := range b {
			candidates[v] = true
		}
		for v := range cached {
			candidates[v] = true
		}
		kept := map[uint32]bool{}
		take := func(nodes []uint32) {
			for _, v := range slices.Sorted(slices.Values(nodes)) {
				if candidates[v] && len(kept) < len(cached) {
					kept[v] = true
				}
			}
		}
		for _, later := range batches[i+1:] {
			take(later)
		}
		var never []uint32
		for v := range candidates {
			never = append(never, v)
		}
		take(never)
		cached = kept
	}
	return read
}

// What a batch reads is what the offline oracle says of its superbatch: the rows' pages, each
// row by itself, and beside its own graph those of the batches that are recorded.
func TestReadsAreTheOraclesOfTheTrace(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 100}, Batch: 12, Epochs: 2, Fanout: []int{2, 3}}, sample)
	trace := w.Trace(t)
	const row, size = 400, 400 * 400
	for _, c := range []struct {
		percent float64
		batches int
	}{{0, 3}, {10, 1 << 30}, {10, 4}, {3, 5}, {60, 3}, {100, 1 << 30}, {20, 1}} {
		found := sized{find(t, w), c.percent, c.batches}
		f := found.Facts()
		l, err := found.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		n := (f.BatchesPerEpoch + l.Superbatch - 1) / l.Superbatch
		var want [][]uint32
		for epoch := range f.Epochs {
			for i := range n {
				lo, hi := i*f.BatchesPerEpoch/n, (i+1)*f.BatchesPerEpoch/n
				want = append(want, oracle(trace[epoch*f.BatchesPerEpoch:][lo:hi], int(4*c.percent))...)
			}
		}
		st := storetest.Open(t, found, 1)
		st.FillFor(t, 0)
		sl, hits := st.Slots[0], 0
		for k := range 2*len(trace) + 3 {
			ref := featurestore.Ref{Index: k % len(trace)}
			if err := storetest.Load(t.Context(), sl, ref); err != nil {
				t.Fatal(err)
			}
			w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float32)
			missed := want[ref.Index]
			if n := sl.Counts(); n.RAMRows != len(trace[ref.Index])-len(missed) || n.BytesRead-n.GraphRead != storetest.Covered(missed, row, size) {
				t.Fatalf("%+v, batch %d: %d hits and %d bytes of rows, want %d and %d", c, k, n.RAMRows, n.BytesRead-n.GraphRead, len(trace[ref.Index])-len(missed), storetest.Covered(missed, row, size))
			}
			hits += sl.Counts().RAMRows
		}
		if c.percent >= 10 && c.batches > 1 && hits == 0 {
			t.Errorf("%+v: no hits", c)
		}
	}
}

// A run that goes on anywhere, with batches decided ahead of it, hits and reads what one that
// was not interrupted does. Its checkpoints hold nothing of the cache.
func TestResumedRunsReadTheSame(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 10, DType: dtype.Float16}, Batch: 10, Epochs: 2, Fanout: []int{2, 2}}, sample)
	for _, batches := range []int{1 << 30, 4, 1} {
		t.Run(fmt.Sprint("superbatches of ", batches), func(t *testing.T) { storetest.ResumesAnywhere(t, w, sized{find(t, w), 15, batches}) })
	}
}

// More memory makes longer superbatches, up to an epoch; a cache whose size is not given
// leaves them a quarter. What a layout says suffices.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 2, Dim: 64}, Batch: 20, Epochs: 2}, sample)
	c := find(t, w)
	f := c.Facts()
	o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1}
	whole, err := c.Plan(o)
	if err != nil || whole.CacheRows != 3000 || whole.Superbatch != f.BatchesPerEpoch || whole.Policy != "belady" || whole.Ahead != 1 || whole.StateBytes != 0 {
		t.Fatalf("%+v, %v", whole, err)
	}
	o.Least = true
	least, err := c.Plan(o)
	if err != nil || least.CacheRows != 0 || least.Superbatch != 1 {
		t.Fatalf("%+v, %v", least, err)
	}
	o.Least = false
	for _, share := range []int64{0, 1, 20, 50, 99} {
		o.Memory = need(least, o) + (need(whole, o)-need(least, o))*share/100
		l, err := c.Plan(o)
		if err != nil || need(l, o) > o.Memory {
			t.Errorf("%d bytes of %d, %v", need(l, o), o.Memory, err)
		}
		bare := l.RAMBytes - l.CacheRows*256 // without the rows
		if quarter := (o.Memory - need(least, o)) / 4; bare-least.RAMBytes > quarter+20*l.CacheRows+4096 {
			t.Errorf("superbatches of %d take %d bytes, more than %d", l.Superbatch, bare-least.RAMBytes, quarter)
		}
		if (share == 0) != (l.CacheRows == 0) {
			t.Errorf("with %d%%: %d rows", share, l.CacheRows)
		}
	}
	tenth := &budget.Size{Value: 10, Unit: budget.UnitPercent}
	o.Memory, o.Cache = 1<<40, tenth
	last := f.BatchesPerEpoch + 1
	for last > 1 {
		l, err := c.Plan(o)
		if err != nil || l.CacheRows != 300 || l.Superbatch >= last || need(l, o) > o.Memory {
			t.Fatalf("after superbatches of %d: %+v, %v", last, l, err)
		}
		last, o.Memory = l.Superbatch, need(l, o)-1
	}
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--ram-cache 10% (300 rows)") {
		t.Errorf("less than superbatches of one batch take: %v", err)
	}
	o.Policy = "lru"
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--cache-policy lru: the store ginex has belady") {
		t.Errorf("another policy: %v", err)
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
