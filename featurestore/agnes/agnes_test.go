package agnes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/presampled"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	stacks "diskgnn/iostack/all"
	"diskgnn/presample"
)

// cached is the store with room for so many rows more than the largest batch has.
type cached struct {
	featurestore.Candidate
	more int
}

func (c cached) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Cache == nil && !o.Least {
		f := c.Facts()
		rows := min(int64(f.Inputs(false)+c.more), f.Nodes)
		o.Cache = &budget.Size{Value: float64(rows * int64(f.RowBytes)), Unit: budget.UnitBytes}
	}
	return c.Candidate.Plan(o)
}

// find finds the store, whose hyperbatches have so many batches at most; 0: as many as it takes.
func find(t testing.TB, w *storetest.World, more, longest int) featurestore.Candidate {
	t.Helper()
	if longest == 0 {
		c, _, err := all.Builtin().Find(storetest.Disk, agnes.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
		if err != nil {
			t.Fatal(err)
		}
		return cached{c, more}
	}
	s, err := presampled.Find(storetest.Disk, w.Dataset, w.Samples)
	if err != nil {
		t.Fatal(err)
	}
	c, err := agnes.WithLongest(s, s.Dataset(), longest)
	if err != nil {
		t.Fatal(err)
	}
	return cached{c, more}
}

// Rows of several types, and hyperbatches of one batch, of some, and of an epoch.
func TestConformance(t *testing.T) {
	small := func(epochs, dim int, d dtype.Type) storetest.Params {
		return storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: dim, DType: d}, Batch: 5, Epochs: epochs}
	}
	for name, c := range map[string]struct {
		params        storetest.Params
		more, longest int
	}{
		"one batch":          {small(2, 9, dtype.Float32), 0, 0},
		"some":               {small(1, 100, dtype.Float32), 12, 0},
		"two at most":        {small(2, 7, dtype.BFloat16), 100, 2},
		"typed":              {storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 100, Typed: true}, Batch: 5, Epochs: 2}, 12, 0},
		"all batches":        {small(1, 5, dtype.Float32), 100, 0},
		"rows on two blocks": {small(1, 6000, dtype.Float32), 12, 0},
	} {
		c.params.Drive = name == "rows on two blocks"
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return find(t, w, c.more, c.longest)
			}, storetest.ReadsAhead)
		})
	}
}

// step is what a batch reads of rows, how many of them it uses first, and how many others have one of the first
// frames.
type step struct {
	bytes       int64
	first, near int
}

// oracle is what the batches of a sample epoch come to, by sets of nodes.
func oracle(epoch [][]uint32, rows, near, longest int, row, size int64) (steps []step) {
	for len(epoch) > 0 {
		needs, n := map[uint32]bool{}, 0
		for n < len(epoch) && n < longest {
			both := map[uint32]bool{}
			for _, b := range epoch[:n+1] {
				for _, v := range b {
					both[v] = true
				}
			}
			if len(both) > rows {
				break
			}
			needs, n = both, n+1
		}
		blocks := map[int64]bool{}
		for v := range needs {
			for at := int64(v) * row; at < int64(v+1)*row; at += row - 1 { // its first byte and its last
				blocks[at>>20] = true
			}
		}
		bytes := int64(0)
		for b := range blocks {
			bytes += min(1<<20, size-b<<20)
		}
		frames := slices.Sorted(maps.Keys(needs))
		for _, b := range epoch[:n] {
			s := step{bytes: bytes}
			bytes = 0
			for _, v := range b {
				if needs[v] {
					s.first++
					delete(needs, v)
				} else if slices.Index(frames, v) < near {
					s.near++
				}
			}
			steps = append(steps, s)
		}
		epoch = epoch[n:]
	}
	return steps
}

// What a batch reads is what the formula says of its hyperbatch: each block once, with the first
// batch. Hits and misses are all accesses, and misses all rows that the hyperbatch needs. A GPU has the rows of the
// smallest nodes of the hyperbatch.
func TestReadsAreTheFormulasOfTheTrace(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 150, AvgDegree: 4, Dim: 15001}, Batch: 5, Epochs: 2, Fanout: []int{2, 2}}, sample)
	trace := w.Trace(t)
	const row = 4 * 15001
	const size = 150 * row // 8.6 blocks
	d := cudatest.Open(t)
	for _, k := range []struct{ more, longest, near int }{{0, 0, 0}, {0, 0, 20}, {10, 0, 0}, {40, 0, 0}, {40, 0, 35}, {1000, 0, 0}, {1000, 0, 100}, {1000, 0, 150}, {1000, 1, 0}, {30, 2, 0}, {30, 2, 31}} {
		c := find(t, w, k.more, k.longest)
		f := c.Facts()
		most := k.longest
		if most == 0 {
			most = 1024
		}
		var want []step
		for e := range f.Epochs {
			want = append(want, oracle(trace[e*f.BatchesPerEpoch:][:f.BatchesPerEpoch], min(f.Inputs(false)+k.more, 150), k.near, most, row, size)...)
		}
		var o featurestore.PlanOptions
		if k.near > 0 {
			rows := func(n int) *budget.Size { return &budget.Size{Value: float64(n * row), Unit: budget.UnitBytes} }
			o = featurestore.PlanOptions{GPU: d, GPUCache: rows(k.near), Cache: rows(min(f.Inputs(false)+k.more, 150) - k.near)}
		}
		st := storetest.OpenWith(t, c, 1, o)
		st.FillFor(t, 0)
		sl, hits := st.Slots[0], 0
		for i := range 2*len(trace) + 3 {
			ref := featurestore.Ref{Index: i % len(trace)}
			if err := storetest.Load(t.Context(), sl, ref); err != nil {
				t.Fatal(err)
			}
			x := sl.X()
			if k.near > 0 {
				var err error
				if x, err = storetest.OnGPU(sl, d, len(sl.Batch().Input)*f.Dim); err != nil {
					t.Fatal(err)
				}
			}
			w.Holds(t, ref, sl.Batch(), x, dtype.Float32)
			n, is := sl.Counts(), want[ref.Index]
			if got := (step{n.BytesRead - n.GraphRead, len(trace[ref.Index]) - n.RAMRows, n.GPURows}); got.first != is.first || got.near != is.near || got.bytes < is.bytes || got.bytes >= is.bytes+4096 {
				t.Fatalf("%+v, batch %d: %+v, want %+v", k, i, got, is)
			}
			if useful := n.UsefulBytes - int64(is.first)*row; useful <= 0 || useful > n.GraphRead {
				t.Fatalf("batch %d: %d useful bytes of %d rows, a graph of %d", i, n.UsefulBytes, is.first, n.GraphRead)
			}
			hits += n.RAMRows
		}
		if (hits == 0) != (k.more == 0 || k.longest == 1) && k.more > 10 {
			t.Errorf("%+v: %d hits", k, hits)
		}
	}
}

// A run that goes on anywhere, with batches decoded ahead of it, hits and reads what one that
// was not interrupted does. Its checkpoints hold nothing.
func TestResumedRunsReadTheSame(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 10, DType: dtype.Float16}, Batch: 10, Epochs: 2, Fanout: []int{2, 2}}, sample)
	for _, k := range []struct{ more, longest int }{{1000, 0}, {40, 0}, {0, 0}, {1000, 3}} {
		t.Run(fmt.Sprintf("%+v", k), func(t *testing.T) { storetest.ResumesAnywhere(t, w, find(t, w, k.more, k.longest)) })
	}
}

// The rows take what memory there is, room for a batch at least, and the buffer follows them.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 500, AvgDegree: 2, Dim: 30000}, Batch: 20, Epochs: 2}, sample)
	c := find(t, w, 0, 0).(cached).Candidate
	f := c.Facts()
	o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1}
	need := func(l featurestore.Layout) int64 { return l.Bytes(o.Slots, o.EvalSlots) }
	whole, err := c.Plan(o)
	if err != nil || whole.CacheRows != 500 || whole.Policy != "" || whole.Ahead != 1 || whole.StateBytes != 0 || !strings.HasPrefix(whole.Note, "hyperbatches of up to 12 batches and 500 rows; reads up to 3 blocks of 1.0 MiB at a time") {
		t.Fatalf("%+v, %v", whole, err)
	}
	o.Least = true
	least, err := c.Plan(o)
	if err != nil || least.CacheRows != int64(f.Inputs(false)) || !strings.Contains(least.Note, "; reads up to 2 blocks") {
		t.Fatalf("%+v, %v", least, err)
	}
	// By hand: 120,000 bytes a row, in whole pages, a third block, and a bit for each row, in words.
	pages := func(bytes int64) int64 { return (bytes + 4095) / 4096 * 4096 }
	if got, want := whole.RAMBytes-least.RAMBytes, pages(500*120000)-pages(least.CacheRows*120000)+1<<20+8*(8-(least.CacheRows+63)/64); got != want {
		t.Errorf("all rows take %d bytes more than %d of them, want %d", got, least.CacheRows, want)
	}
	o.Least = false
	last := least.CacheRows
	for _, share := range []int64{0, 10, 50, 99} {
		o.Memory = need(least) + (need(whole)-need(least))*share/100
		l, err := c.Plan(o)
		if err != nil || need(l) > o.Memory || need(l) < o.Memory-120000-1<<20 || l.CacheRows < last || l.CacheRows == 500 {
			t.Errorf("%d%%: %d rows, %d bytes of %d, %v", share, l.CacheRows, need(l), o.Memory, err)
		}
		last = l.CacheRows
	}
	o.Memory = need(least) - 1
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("less than the least: %v", err)
	}
	o.Memory, o.Cache = 1<<40, &budget.Size{Value: 1, Unit: budget.UnitPercent}
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--ram-cache 1% (5 rows) is too small: the store agnes needs at least ") {
		t.Errorf("less than a batch: %v", err)
	}
	o.Cache.Value = 90
	l, err := c.Plan(o)
	if err != nil || l.CacheRows != 450 {
		t.Errorf("%+v, %v", l, err)
	}
	o.Memory = need(l) - 1
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--ram-cache 90% (450 rows)") {
		t.Errorf("a cache beyond memory: %v", err)
	}
}

// Compressed features are refused with what to do.
func TestCompressed(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Compress: true}, sample)
	if _, _, err := all.Builtin().Find(storetest.Disk, agnes.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "import it again without --compress") {
		t.Errorf("%v", err)
	}
}

// Features that were cut are refused before the first batch.
func TestTruncated(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w, 0, 0)
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(storetest.Disk, w.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.FeaturesPath(), 4096); err != nil {
		t.Fatal(err)
	}
	stack, _, err := stacks.Open("pread", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	if _, err := c.Open(stack, l); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("%v", err)
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
