package mmap_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	allstores "diskgnn/featurestore/all"
	"diskgnn/featurestore/mmap"
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

// held finds the store with a page cache for a share of the rows.
type held struct {
	featurestore.Candidate
	percent float64
	threads int
}

func (c held) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	if o.Cache == nil && !o.Least {
		o.Cache = percent(c.percent)
	}
	o.FaultThreads = c.threads
	return c.Candidate.Plan(o)
}

func percent(p float64) *budget.Size { return &budget.Size{Value: p, Unit: budget.UnitPercent} }

func find(t testing.TB, w *storetest.World) featurestore.Candidate {
	t.Helper()
	c, _, err := allstores.Builtin().Find(storetest.Disk, mmap.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}

// Rows of every type and of odd sizes, within a page, over pages and over many of them, in a
// page cache of all pages and of few, gathered by one thread and by many.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		params  datasettest.Params
		percent float64
		threads int
	}{
		"float32":    {datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 9}, 100, 0},
		"100 floats": {datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 100}, 10, 1},
		"6 bytes":    {datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 3, DType: dtype.Float16}, 100, 3},
		"bfloat16":   {datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 7, DType: dtype.BFloat16, Classes: 11, MultiLabel: true}, 0, 2},
		"typed":      {datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 100, Typed: true}, 10, 1},
		"over pages": {datasettest.Params{Nodes: 300, AvgDegree: 3, Dim: 1500}, 1, 5},
	} {
		t.Run(name, func(t *testing.T) {
			w := storetest.NewWorld(t, storetest.Params{Params: c.params, Batch: 5, Epochs: 1}, sample)
			storetest.Run(t, w, func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return held{find(t, w), c.percent, c.threads}
			}, storetest.NoGPURows, storetest.PageCache)
		})
	}
}

// opened is a store with a slot for training.
type opened struct {
	featurestore.Store
	slot   featurestore.Slot
	layout featurestore.Layout
}

// open opens a store and fills it.
func open(t *testing.T, c featurestore.Candidate) *opened {
	t.Helper()
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	stack, _, err := all.Open("pread", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(stack, l)
	if err != nil {
		t.Fatal(err)
	}
	sl, err := s.View(0).NewSlot(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sl.Free()
		if err := errors.Join(s.Close(), stack.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Fill(t.Context(), 0, progress.Discard); err != nil {
		t.Fatal(err)
	}
	return &opened{s, sl, l}
}

// What cannot be is refused by the flag's name, or with what to do.
func TestRefusals(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w)
	if _, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, GPU: cudatest.Open(t), GPUCache: percent(10)}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--gpu-cache 10%") {
		t.Errorf("a cache on the GPU: %v", err)
	}
	if _, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 10, Slots: 1}); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "give more --memory") {
		t.Errorf("without memory: %v", err)
	}
	small := storetest.NewWorld(t, storetest.Params{Compress: true}, sample)
	if _, _, err := allstores.Builtin().Find(storetest.Disk, mmap.Name, stores.Places{Dataset: small.Dataset, Samples: small.Samples}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "import it again without --compress, or pack it") {
		t.Errorf("compressed features: %v", err)
	}
}

// A file that is truncated before it is opened, or while it is mapped, within a page or by
// many, is an error that names it: rows are never zeros.
func TestTruncated(t *testing.T) {
	for name, size := range map[string]int64{"within a page": 3000*400 - 1, "by many pages": 4096, "to nothing": 0} {
		t.Run(name, func(t *testing.T) {
			w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 3, Dim: 100}, Batch: 200, Epochs: 1}, sample)
			c, path := find(t, w), filepath.Join(w.Dataset, "features.bin")
			st := open(t, c)
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "is damaged: make it again") {
					t.Errorf("%s: %v", what, err)
				}
			}
			check("truncated while it is mapped", storetest.Load(t.Context(), st.slot, featurestore.Ref{}))
			check("once more", storetest.Load(t.Context(), st.slot, featurestore.Ref{Index: 1}))
			stack, _, err := all.Open("pread", iostack.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer stack.Close()
			_, err = c.Open(stack, st.layout)
			check("truncated before", err)
		})
	}
}

// A file that is written to in place while it is mapped is an error that names it; one that loses
// its name is an error before a commit.
func TestChangedWhileMapped(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	path := filepath.Join(w.Dataset, "features.bin")
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	st := open(t, find(t, w))
	unchanged := st.Store.(featurestore.Mapped).Unchanged
	if err := errors.Join(storetest.Load(t.Context(), st.slot, featurestore.Ref{}), unchanged()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+"-"); err != nil {
		t.Fatal(err)
	}
	if err := unchanged(); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("renamed: %v", err)
	}
	if err := os.Rename(path+"-", path); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{1}, 5)
	if err := errors.Join(err, f.Close(), storetest.Load(t.Context(), st.slot, featurestore.Ref{Index: 1})); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("written to: %v", err)
	}
}

// A context that ends while rows are gathered ends that. The slot can be used again, and
// waiting for a batch once more changes nothing.
func TestCancelWhileGathering(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	st := open(t, find(t, w))
	if err := errors.Join(st.slot.Start(featurestore.Ref{}), st.slot.LoadGraph(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{context.Canceled, nil} { // and once it was given up, nothing is left to do
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if want == nil {
			ctx = t.Context()
		}
		if err := st.slot.Wait(ctx); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	ref := featurestore.Ref{Index: 1}
	if err := storetest.Load(t.Context(), st.slot, ref); err != nil {
		t.Fatal(err)
	}
	w.Holds(t, ref, st.slot.Batch(), st.slot.X(), dtype.Float32)
	before := st.slot.Counts()
	if err := st.slot.Wait(t.Context()); err != nil || st.slot.Counts() != before {
		t.Errorf("waited for once more: %+v, before %+v, %v", st.slot.Counts(), before, err)
	}
}

// The page cache is as large as is wanted or as memory allows, between the pages of some rows
// and those of all, and what is said of it is so.
func TestPlan(t *testing.T) {
	page := os.Getpagesize()
	const nodes, row = 20000, 400
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: nodes, AvgDegree: 1, Dim: row / 4}, Batch: 20, Epochs: 1}, sample)
	c := find(t, w)
	plan := func(memory int64, cache *budget.Size) (featurestore.Layout, error) {
		return c.Plan(featurestore.PlanOptions{Memory: memory, Cache: cache, Slots: 2, EvalSlots: 1})
	}
	whole, err := plan(1<<40, nil)
	if err != nil || whole.CacheRows != nodes || !whole.Unchecked || whole.FaultThreads != 16 || !strings.Contains(whole.Note, "unchecked") || !strings.Contains(whole.Note, "room for all") {
		t.Fatalf("%+v, %v", whole, err)
	}
	const pages, ranks, sets = 1954, 20, 1 // 8,000,000 bytes; 80,000 bytes; twice 62 words of 4 bytes
	if page == 4096 && whole.RAMBytes != (pages+ranks+sets)*4096 {
		t.Errorf("all rows take %d bytes", whole.RAMBytes)
	}
	need := func(l featurestore.Layout) int64 {
		return l.TableBytes + l.RAMBytes + l.KeepBytes + 2*l.SlotBytes + l.EvalSlotBytes
	}
	if l, err := plan(need(whole), nil); err != nil || l.CacheRows != nodes {
		t.Errorf("with just enough memory: %d rows, %v", l.CacheRows, err)
	}
	if l, err := plan(need(whole)-1, nil); err != nil || whole.RAMBytes-l.RAMBytes != int64(page) || l.CacheRows >= nodes {
		t.Errorf("with a byte less: %d rows, %d bytes of %d, %v", l.CacheRows, l.RAMBytes, whole.RAMBytes, err)
	}
	half, err := plan(1<<40, percent(50))
	if want := int64(nodes*row/2+page-1) / int64(page) * int64(page); err != nil || whole.RAMBytes-half.RAMBytes != int64(nodes*row+page-1)/int64(page)*int64(page)-want ||
		half.CacheRows != want/row || !strings.Contains(half.Note, "dropped before the page cache has more than") {
		t.Errorf("half: %+v, %v", half, err)
	}
	if _, err := plan(need(half)-1, percent(50)); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--ram-cache 50%") {
		t.Errorf("too little for half: %v", err)
	}
	least, err := c.Plan(featurestore.PlanOptions{Least: true, FaultThreads: 3, Memory: 1 << 40})
	if page == 4096 && least.CacheRows != 64*2*4096/row || err != nil || least.FaultThreads != 3 { // rows of 400 bytes lie on two pages at most
		t.Errorf("the least: %+v, %v", least, err)
	}
	if none, err := plan(1<<40, percent(0)); err != nil || none.RAMBytes != least.RAMBytes {
		t.Errorf("nothing wanted: %+v, %v", none, err)
	}
}
