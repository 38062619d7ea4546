package rowcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/residency"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}

func find(t testing.TB, w *storetest.World, store string) featurestore.Candidate {
	t.Helper()
	c, _, err := all.Builtin().Find(storetest.Disk, store, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// kinds are the stores of the package, with the policies that differ.
var kinds = []struct{ store, policy string }{{"rows", "lru"}, {"rows", "s3fifo"}, {"ginex", ""}, {"gnndrive", ""}}

func percent(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }

// placement is where frames are, in percent of the rows.
type placement struct{ gpu, ram float64 }

// options are those of a store with so many frames, of a policy; without a device, all are
// in RAM.
func (p placement) options(d *cuda.Device, policy string) featurestore.PlanOptions {
	if d == nil {
		return featurestore.PlanOptions{Policy: policy, Cache: percent(p.gpu + p.ram)}
	}
	return featurestore.PlanOptions{Policy: policy, GPU: d, GPUCache: percent(p.gpu), Cache: percent(p.ram)}
}

// run is a training on a store with three slots, of which up to two batches are ahead.
type run struct {
	*storetest.Opened
	w     *storetest.World
	d     *cuda.Device // nil: the host computes
	begun int
}

func (r *run) ref(k int) featurestore.Ref { return featurestore.Ref{Index: k % r.Facts.Train} }

// batch completes batch k, which is the next, and returns its counts.
func (r *run) batch(t *testing.T, k int) featurestore.Counts {
	t.Helper()
	for ; r.begun <= k+k%3; r.begun++ {
		sl := r.Slots[r.begun%3]
		if err := errors.Join(sl.Start(r.ref(r.begun)), sl.LoadGraph(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	sl := r.Slots[k%3]
	if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
		t.Fatal(err)
	}
	x := sl.X()
	if r.d != nil {
		var err error
		if x, err = storetest.OnGPU(sl, r.d, len(sl.Batch().Input)*r.Facts.Dim); err != nil {
			t.Fatal(err)
		}
	}
	r.w.Holds(t, r.ref(k), sl.Batch(), x, r.Facts.DType)
	return sl.Counts()
}

// giveUp ends what is under way.
func (r *run) giveUp(t *testing.T) {
	for _, sl := range r.Slots {
		_ = sl.Wait(t.Context())
	}
}

// framesOf returns the frames that hold rows of each of n batches, around the circle of a
// trace, by a policy alone.
func framesOf(t *testing.T, policy string, frames int, trace [][]uint32, n int) (list [][]int32) {
	t.Helper()
	p, err := residency.New(policy, residency.Config{Nodes: 200, Frames: frames})
	if err != nil {
		t.Fatal(err)
	}
	for k := range n {
		nodes := trace[k%len(trace)]
		held, into := make([]int32, len(nodes)), make([]int32, len(nodes))
		p.Batch(nodes, held, into)
		list = append(list, slices.DeleteFunc(held, func(frame int32) bool { return frame == residency.Absent }))
	}
	return list
}

// below counts the frames below one.
func below(frames []int32, end int32) (n int) {
	for _, frame := range frames {
		if frame < end {
			n++
		}
	}
	return n
}

// Wherever frames are, each batch hits and reads what it does when all are in RAM and the CPU
// gathers, and has the same rows; also of a run that goes on at any batch, from the state of a
// run whose frames were elsewhere.
func TestPlacementChangesNothing(t *testing.T) {
	for _, p := range []datasettest.Params{{Nodes: 200, AvgDegree: 4, Dim: 10, DType: dtype.Float16}, {Nodes: 200, AvgDegree: 4, Dim: 8}} {
		w := storetest.NewWorld(t, storetest.Params{Params: p, Batch: 10, Epochs: 2, Fanout: []int{2, 2}}, sample)
		for _, kind := range kinds {
			c := find(t, w, kind.store)
			start := func(at placement, d *cuda.Device, state []byte, next int) *run {
				st := storetest.OpenWith(t, c, 3, at.options(d, kind.policy))
				if state != nil {
					if err := st.LoadState(state); err != nil {
						t.Fatal(err)
					}
				}
				if _, lines := st.FillFor(t, next%st.Facts.Train); len(lines) > 0 {
					t.Errorf("%v, %+v: reported %q", kind, at, lines)
				}
				return &run{Opened: st, w: w, d: d, begun: next}
			}
			const total, steps = 60, 7
			whole := start(placement{0, total}, nil, nil, 0)
			n := 2*whole.Facts.Train + 3
			var want []featurestore.Counts
			hits := 0
			for k := range n {
				want = append(want, whole.batch(t, k))
				hits += want[k].RAMRows
			}
			if hits == 0 {
				t.Errorf("%v: no hits", kind)
			}
			whole.giveUp(t)
			var frames [][]int32 // that hold rows of each batch
			if kind.store == "rows" {
				frames = framesOf(t, kind.policy, 2*total, w.Trace(t), n)
			}
			d := cudatest.Open(t)
			places := []placement{{0, total}, {20, 40}, {total, 0}}
			for i, at := range places {
				r := start(at, d, nil, 0)
				for k := range n {
					got := r.batch(t, k)
					if near := got.GPURows; len(frames) > 0 && near != below(frames[k], int32(2*at.gpu)) || at.gpu == 0 && near > 0 || at.ram == 0 && near < got.RAMRows {
						t.Fatalf("%v, %+v, batch %d: %d of %d hits are on the GPU", kind, at, k, near, got.RAMRows)
					}
					got.GPURows = 0
					if got != want[k] {
						t.Fatalf("%v, %+v, batch %d: %+v, in RAM %+v", kind, at, k, got, want[k])
					}
					if k%steps != steps-1 {
						continue
					}
					state, err := r.State()
					if err != nil {
						t.Fatal(err)
					}
					r.giveUp(t)
					at = places[(i+k)%len(places)]
					r = start(at, d, slices.Clone(state), k+1)
				}
				r.giveUp(t)
			}
		}
	}
}

// A batch that was submitted and given up changes no frame once the cache is filled again,
// however late the GPU's streams are.
func TestGivenUpBatchesChangeNothing(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 8}, Batch: 10, Epochs: 1, Fanout: []int{2, 2}}, sample)
	c := find(t, w, "rows")
	cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
		r := &run{Opened: storetest.OpenWith(t, c, 1, placement{0, 40}.options(d, "lru")), w: w, d: d}
		r.FillFor(t, 0)
		const kept, givenUp = 2, 5 // the run goes on after the batches that are kept
		load := func(k int) featurestore.Slot {
			if err := storetest.Load(t.Context(), r.Slots[0], r.ref(k)); err != nil {
				t.Fatal(err)
			}
			return r.Slots[0]
		}
		holds := func(k int) {
			sl := load(k)
			x, err := storetest.OnGPU(sl, d, len(sl.Batch().Input)*r.Facts.Dim)
			if err != nil {
				t.Fatal(err)
			}
			w.Holds(t, r.ref(k), sl.Batch(), x, r.Facts.DType)
		}
		var state []byte
		for k := range givenUp {
			if k == kept {
				b, err := r.State()
				if err != nil {
					t.Fatal(err)
				}
				state = slices.Clone(b)
			}
			holds(k)
		}
		err := d.Attached(func() error {
			copies, err := d.NewStream()
			if err != nil {
				return err
			}
			defer copies.Free()
			sl := load(givenUp)
			a, err := d.NewArena(4 * int64(len(sl.Batch().Input)*r.Facts.Dim))
			if err != nil {
				return err
			}
			defer a.Free()
			x, err := a.Take(4 * int64(len(sl.Batch().Input)*r.Facts.Dim))
			if err != nil {
				return err
			}
			span, err := sl.Fill(copies, x)
			if err := errors.Join(err, copies.Synchronize(), r.LoadState(state)); err != nil {
				return err
			}
			if read, lines := r.FillFor(t, kept); read == 0 || len(lines) > 0 {
				t.Errorf("filled again: read %d, reported %q", read, lines)
			}
			return span.Synchronize()
		})
		if err != nil {
			t.Fatal(err)
		}
		for k := range 5 {
			holds(kept + k)
		}
	})
}

// A cache that is filled again with more rows than are copied to the GPU at a time.
func TestLargeCacheIsFilledAgain(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 4000, AvgDegree: 3, Dim: 1500}, Batch: 1200, Epochs: 1, Fanout: []int{4}}, sample)
	c, d := find(t, w, "rows"), cudatest.Open(t)
	at := placement{90, 10}
	r := &run{Opened: storetest.OpenWith(t, c, 3, at.options(d, "lru")), w: w, d: d}
	r.FillFor(t, 0)
	n := r.Facts.Train
	for k := range n {
		r.batch(t, k)
	}
	state, err := r.State()
	if err != nil {
		t.Fatal(err)
	}
	again := &run{Opened: storetest.OpenWith(t, c, 3, at.options(d, "lru")), w: w, d: d, begun: n}
	if err := again.LoadState(state); err != nil {
		t.Fatal(err)
	}
	const row, staged = 6000, 8 << 20
	read, lines := again.FillFor(t, n%again.Facts.Train)
	if len(lines) > 0 || read < 2*staged || read > 3*4000*row {
		t.Fatalf("read %d, reported %q", read, lines)
	}
	for k := range n {
		if c := again.batch(t, n+k); c.RAMRows == 0 {
			t.Errorf("batch %d hits nothing", k)
		}
	}
	r.giveUp(t)
	again.giveUp(t)
}

// While batches follow each other nothing waits for the GPU, and none of its memory is taken.
func TestFillWaitsForNothing(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 8}, Batch: 10, Epochs: 2}, sample)
	calls := map[string]int{}
	counted := false
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if counted {
			calls[call]++
		}
		return nil
	})
	st := storetest.OpenWith(t, find(t, w, "rows"), 1, placement{10, 20}.options(d, "lru"))
	st.FillFor(t, 0)
	err := d.Attached(func() error {
		copies, err := d.NewStream()
		if err != nil {
			return err
		}
		defer copies.Free()
		a, err := d.NewArena(4 * int64(st.Facts.Inputs(false)*st.Facts.Dim))
		if err != nil {
			return err
		}
		defer a.Free()
		x, err := a.Take(4 * int64(st.Facts.Inputs(false)*st.Facts.Dim))
		if err != nil {
			return err
		}
		sl, next := st.Slots[0], 0
		work := func() {
			ref := featurestore.Ref{Index: next % st.Facts.Train}
			next++
			if err := storetest.Load(t.Context(), sl, ref); err != nil {
				t.Fatal(err)
			}
			counted = true
			if _, err := sl.Fill(copies, x); err != nil {
				t.Fatal(err)
			}
			counted = false
		}
		for range st.Facts.Train {
			work()
		}
		if batches := next; calls["copy in"] != 2*batches || calls["launch"] > 2*batches || calls["launch"] <= batches || len(calls) != 2 {
			t.Errorf("%d batches are %v", batches, calls)
		}
		if n := testing.AllocsPerRun(st.Facts.Train, func() {
			if err := storetest.Load(t.Context(), sl, featurestore.Ref{Index: next % st.Facts.Train}); err != nil {
				t.Fatal(err)
			}
			next++
		}); n > 16 { // as where the host computes
			t.Errorf("a batch takes %v allocations", n)
		}
		return copies.Synchronize()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Frames are on the GPU first, as many as are wanted or fit, and RAM has the others. What
// finds rows is in RAM for all of them.
func TestPlanOnGPU(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 2, Dim: 64}, Batch: 20, Epochs: 1}, sample)
	d := cudatest.Open(t)
	const row = 256
	for _, kind := range kinds {
		c := find(t, w, kind.store)
		f := c.Facts()
		plan := func(o featurestore.PlanOptions) (featurestore.Layout, error) {
			o.GPU, o.Slots, o.EvalSlots, o.Policy = d, 2, 1, kind.policy
			return c.Plan(o)
		}
		need := func(l featurestore.Layout) int64 { return l.Bytes(2, 1) }
		least, err := plan(featurestore.PlanOptions{Memory: 1 << 40, GPUMemory: 1 << 40, Least: true})
		// Misses of two training batches and one of evaluation, and of each row two numbers.
		rows := int64(2*f.Inputs(false) + f.Inputs(true))
		numbers := func(n int) int64 { return (8*int64(n) + 255) / 256 * 256 }
		if want := rows*row + 2*numbers(f.Inputs(false)) + numbers(f.Inputs(true)); err != nil || least.GPU != d || least.GPURows != 0 || least.CacheRows != 0 || least.GPUBytes != want {
			t.Fatalf("%v: %+v, %v; batches on their way take %d bytes", kind, least, err, want)
		}
		is := func(what string, o featurestore.PlanOptions, near, all int64) featurestore.Layout {
			t.Helper()
			l, err := plan(o)
			if err != nil || l.GPURows != near || l.CacheRows != all || l.GPURowsBytes != near*row || l.GPUBytes != least.GPUBytes+near*row || need(l) > o.Memory || l.GPUBytes > o.GPUMemory {
				t.Errorf("%v, %s: %d of %d rows on the GPU, want %d of %d; %d of %d bytes, and %d of %d of the GPU's, %v", kind, what, l.GPURows, l.CacheRows, near, all, need(l), o.Memory, l.GPUBytes, o.GPUMemory, err)
			}
			return l
		}
		const much = 1 << 40
		some := least.GPUBytes + 1000*row
		whole := is("all", featurestore.PlanOptions{Memory: much, GPUMemory: much}, 3000, 3000)
		is("what the GPU has room for", featurestore.PlanOptions{Memory: much, GPUMemory: some}, 1000, 3000)
		is("of it", featurestore.PlanOptions{Memory: much, GPUMemory: some, GPUCache: percent(10)}, 300, 3000)
		is("a tenth in RAM", featurestore.PlanOptions{Memory: much, GPUMemory: some, Cache: percent(10)}, 1000, 1300)
		is("all in RAM", featurestore.PlanOptions{Memory: much, GPUMemory: some, Cache: percent(100)}, 1000, 3000)
		is("more in RAM than there are", featurestore.PlanOptions{Memory: much, GPUMemory: some, Cache: percent(90)}, 1000, 3000)
		is("a tenth of each", featurestore.PlanOptions{Memory: much, GPUMemory: some, Cache: percent(10), GPUCache: percent(10)}, 300, 600)
		is("none on the GPU", featurestore.PlanOptions{Memory: much, GPUMemory: some, Cache: percent(10), GPUCache: percent(0)}, 0, 300)
		is("none", featurestore.PlanOptions{Memory: much, GPUMemory: some, Cache: percent(0), GPUCache: percent(0)}, 0, 0)

		// Rows on the GPU take RAM too: with half of what all need, there are some.
		half := need(least) + (need(whole)-need(least))/2
		for what, o := range map[string]featurestore.PlanOptions{"": {}, "none in RAM": {Cache: percent(0)}} {
			if kind.store == "ginex" { // whose superbatches take most of it
				break
			}
			o.Memory, o.GPUMemory = half, much
			if l, err := plan(o); err != nil || need(l) > half || l.GPURows == 0 || l.GPURows == 3000 || l.CacheRows != l.GPURows {
				t.Errorf("%v, half the memory, %s: %d of %d rows on the GPU, %d bytes of %d, %v", kind, what, l.GPURows, l.CacheRows, need(l), half, err)
			}
		}
		// All rows of a RAM cache are moved to a GPU that has room for them, if only so they fit.
		bare := need(is("all on the GPU", featurestore.PlanOptions{Memory: much, GPUMemory: much, Cache: percent(100)}, 3000, 3000))
		if kind.store == "ginex" { // of superbatches of one batch
			l, err := plan(featurestore.PlanOptions{Memory: bare, GPUMemory: much, Cache: percent(0), GPUCache: percent(100)})
			if err != nil {
				t.Fatal(err)
			}
			bare = need(l)
		}
		is("only on the GPU", featurestore.PlanOptions{Memory: bare, GPUMemory: much, Cache: percent(50)}, 3000, 3000)
		for want, o := range map[string]featurestore.PlanOptions{
			"batches in flight need":                                {Memory: much, GPUMemory: least.GPUBytes - 1},
			"--gpu-cache 50% (375.0 KiB) does not fit":              {Memory: much, GPUMemory: some, GPUCache: percent(50)},
			"the index of --gpu-cache 100% (3000 rows) and 2 slots": {Memory: need(least) + 4096, GPUMemory: much, GPUCache: percent(100)},
			"--ram-cache 50% (1500 rows) and 2 slots need":          {Memory: need(least) + 4096, GPUMemory: much, Cache: percent(50)},
		} {
			if _, err := plan(o); !errors.Is(err, fault.ErrBudget) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%v: %v, want %q", kind, err, want)
			}
		}
	}
}
