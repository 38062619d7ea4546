package phases_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/presample"
)

func TestMain(m *testing.M) { os.Exit(vfstest.Main(m)) }

const (
	nodes, dim = 200, 1024
	row        = 2 * dim
)

// sample draws samples of a buffer of four of nine partitions, which all stores take.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2, Order: presample.OrderDispersed, Walk: "sweep", Partitions: 9, Buffer: 4}, progress.Discard)
	return err
}

// world is a world with both stores.
type world struct{ *storetest.World }

func newWorld(t *testing.T) world {
	return world{storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: nodes, AvgDegree: 4, Dim: dim, DType: dtype.Float16},
		Batch: 7, Epochs: 2, Fanout: []int{2, 2}}, sample)}
}

func (w world) find(t *testing.T, store string) featurestore.Candidate {
	t.Helper()
	c, _, err := all.Builtin().Find(storetest.Disk, store, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// of returns the size of n rows.
func of(n int) *budget.Size { return &budget.Size{Value: float64(n * row), Unit: budget.UnitBytes} }

// open opens a store with near of n rows on a device, or without a device all of them in RAM.
func (w world) open(t *testing.T, store string, d *cuda.Device, near, n int) *storetest.Opened {
	t.Helper()
	o := featurestore.PlanOptions{Cache: of(n)}
	if d != nil {
		o = featurestore.PlanOptions{GPU: d, GPUCache: of(near), Cache: of(n - near)}
	}
	return storetest.OpenWith(t, w.find(t, store), 3, o)
}

// rows are the rows in memory: room for some batches, and for one of 24 rows beside the buffer of four partitions.
var rows = map[string]int{agnes.Name: 120, marius.Name: 5 * 24}

// Wherever frames are, each batch has the same rows, and hits and reads as with all frames in RAM; also of a run that
// continues at any batch. More frames on the GPU do not have fewer hits.
func TestPlacementChangesNothing(t *testing.T) {
	w, d := newWorld(t), cudatest.Open(t)
	for store, total := range rows {
		load := func(st *storetest.Opened, k int, gpu bool) featurestore.Counts {
			sl, ref := st.Slots[k%3], featurestore.Ref{Index: k % st.Facts.Train}
			if err := storetest.Load(t.Context(), sl, ref); err != nil {
				t.Fatal(store, err)
			}
			x := sl.X()
			if gpu {
				var err error
				if x, err = storetest.OnGPU(sl, d, len(sl.Batch().Input)*dim); err != nil {
					t.Fatal(store, err)
				}
			}
			w.Holds(t, ref, sl.Batch(), x, dtype.Float16)
			return sl.Counts()
		}
		whole := w.open(t, store, nil, 0, total)
		n := 2*whole.Facts.Train + 3
		before := make([]int, n) // hits on the GPU, with fewer frames there
		whole.FillFor(t, 0)
		var want []featurestore.Counts
		for k := range n {
			want = append(want, load(whole, k, false))
		}
		places := []int{0, 30, 61, total}
		for i, near := range places {
			st := w.open(t, store, d, near, total)
			st.FillFor(t, 0)
			some := false
			for k := range n {
				got := load(st, k, true)
				hits := got.GPURows
				if hits < before[k] || near == 0 && hits > 0 || near == total && hits != got.RAMRows {
					t.Fatalf("%s, %d rows on the GPU, batch %d: %d hits of %d there, with fewer rows %d", store, near, k, hits, got.RAMRows, before[k])
				}
				some = some || hits > before[k]
				before[k] = hits
				if got.GPURows = 0; got != want[k] {
					t.Fatalf("%s, %d rows on the GPU, batch %d: %+v, in RAM %+v", store, near, k, got, want[k])
				}
			}
			if !some && i > 0 {
				t.Errorf("%s: no more hits on the GPU with %d rows than with %d", store, near, places[i-1])
			}
			for from := range whole.Facts.Train {
				st.FillFor(t, from)
				for k := range 4 {
					got := load(st, from+k, true)
					if store == agnes.Name && got.GPURows != before[from+k] { // rooms follow from the first batch of the run
						t.Fatalf("%s, %d rows on the GPU, batch %d from %d on: %d hits there, want %d", store, near, k, from, got.GPURows, before[from+k])
					}
					if got.GPURows = 0; got != want[from+k] {
						t.Fatalf("%s, %d rows on the GPU, batch %d from %d on: %+v, in RAM %+v", store, near, k, from, got, want[from+k])
					}
				}
			}
		}
	}
}

// A goroutine assembles batches as far ahead of their gathers as slots allow: no batch has rows of a later phase,
// however late the GPU's streams are.
func TestAssembledAhead(t *testing.T) {
	w := newWorld(t)
	for store, total := range rows {
		cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
			st := w.open(t, store, d, total/3, total)
			st.FillFor(t, 0)
			n := 2 * st.Facts.Train
			ref := func(k int) featurestore.Ref { return featurestore.Ref{Index: k % st.Facts.Train} }
			free, assembled := make(chan int, 3), make(chan error)
			for i := range 3 {
				free <- i
			}
			go func() {
				for k := range n {
					assembled <- storetest.Load(t.Context(), st.Slots[<-free], ref(k))
				}
			}()
			for k := range n {
				if err := <-assembled; err != nil {
					t.Fatal(err)
				}
				sl := st.Slots[k%3]
				x, err := storetest.OnGPU(sl, d, len(sl.Batch().Input)*dim)
				if err != nil {
					t.Fatal(err)
				}
				w.Holds(t, ref(k), sl.Batch(), x, dtype.Float16)
				free <- k % 3
			}
		})
	}
}

// The GPU has the rows that it is asked for, or all that it has room for; RAM has the rows that it is asked for beside
// them, or all that memory allows.
func TestPlanOnGPU(t *testing.T) {
	w, d := newWorld(t), cudatest.Open(t)
	for _, s := range []struct {
		store              string
		least, unit        int64 // rows
		nearest, rows, add int64 // the most frames, the rows of all; host memory for rows on the GPU
	}{
		{agnes.Name, 0, 1, nodes, nodes, 0},
		{marius.Name, 4 * 23, 23, 8 * 24, 8 * 23, 32 << 20},
	} {
		c := w.find(t, s.store)
		f := c.Facts()
		if s.least == 0 {
			s.least = int64(f.Inputs(false))
		}
		o := featurestore.PlanOptions{Memory: 1 << 40, GPU: d, GPUMemory: 1 << 30, Slots: 2, EvalSlots: 1, MostSlots: 2}
		plan := func() featurestore.Layout {
			t.Helper()
			l, err := c.Plan(o)
			if err != nil {
				t.Fatal(s.store, err)
			}
			return l
		}
		if l := plan(); l.GPU == nil || l.GPURows != s.nearest || l.CacheRows != s.rows || l.GPURowsBytes != s.nearest*row {
			t.Errorf("%s, all on the GPU: %+v", s.store, l)
		}
		o.GPUCache = of(0)
		none := plan()
		if none.GPURows != 0 || none.CacheRows != s.rows {
			t.Errorf("%s, all in RAM: %+v", s.store, none)
		}
		o.GPUCache = of(20)
		some := plan()
		if add := some.RAMBytes - none.RAMBytes; some.GPURows != 20 || some.CacheRows != s.rows || add != s.add || some.GPUBytes < none.GPUBytes+20*row {
			t.Errorf("%s, 20 rows on the GPU: %d bytes more in RAM, %+v", s.store, add, some)
		}
		o.GPUCache, o.GPUMemory = nil, none.GPUBytes+50*row+row/2
		if l := plan(); l.GPURows != 50 {
			t.Errorf("%s, room for 50 rows: %+v", s.store, l)
		}
		o.GPUCache, o.Cache = of(20), of(int(s.least)-20)
		if l := plan(); l.GPURows != 20 || l.CacheRows != s.least {
			t.Errorf("%s, the least rows: %+v", s.store, l)
		}
		o.Cache = of(int(s.least) - 21)
		if _, err := c.Plan(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), fmt.Sprintf("is too small: beside 20 rows on the GPU, the store %s needs at least %d rows in RAM", s.store, s.least-20)) {
			t.Errorf("%s, a row less: %v", s.store, err)
		}
		o.Cache, o.Memory = nil, some.Bytes(2, 1)-3*s.unit*row
		if l := plan(); l.GPURows != 20 || l.CacheRows >= s.rows || l.CacheRows < s.rows-4*s.unit || l.Bytes(2, 1) > o.Memory {
			t.Errorf("%s, little memory: %+v", s.store, l)
		}
		o.GPUMemory = 100
		if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%s, a GPU without room for batches: %v", s.store, err)
		}
	}
}
