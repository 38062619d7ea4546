package hyperion_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	allstores "diskgnn/featurestore/all"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/residency"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// order returns the nodes that the batches of a trace use, those first whose reads are most
// bytes, each row's by themselves; of equals the lowest id.
func order(trace [][]uint32, row int, size int64) (nodes []uint32) {
	bytes := map[uint32]int64{}
	for _, batch := range trace {
		for _, v := range batch {
			bytes[v] += storetest.Covered([]uint32{v}, row, size)
		}
	}
	for v := range bytes {
		nodes = append(nodes, v)
	}
	slices.SortFunc(nodes, func(a, b uint32) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
	return nodes
}

// distinct returns the bytes of all pages of some rows, each once.
func distinct(nodes []uint32, row int, size int64) (bytes int64) {
	pages := map[int64]bool{}
	for _, v := range nodes {
		for b := int64(v) * int64(row); b < int64(v+1)*int64(row); b++ {
			pages[b/4096] = true
		}
	}
	for p := range pages {
		bytes += min(4096, size-p*4096)
	}
	return bytes
}

// What a batch hits and reads follows from the counts of the trace, whichever batch comes
// when; filling reads the pages of the rows that are held, those of several rows once but where
// a request ends. Batches of evaluation use the cache too.
func TestReadsAreOfRowsNotHeld(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 100}, Batch: 12, Epochs: 2, Fanout: []int{2, 3}}, sample)
	trace := w.Trace(t)
	const row, size, joinedBytes = 400, 400 * 400, 64 << 10
	ranked := order(trace, row, size)
	storetest.Open(t, find(t, w, 0), 1).FillFor(t, 0) // makes the table of the pages' sums
	for _, percent := range []float64{0, 10, 40, 100} {
		held := ranked[:min(int(percent*4), len(ranked))]
		st := storetest.Open(t, find(t, w, percent), 1)
		read, _ := st.FillFor(t, 7)
		want := distinct(held, row, size) + binio.SumsBytes(size, binio.Page)
		if again := read - want; again < 0 || again%4096 != 0 || again > size/joinedBytes*4096 {
			t.Errorf("%v%%: filling read %d bytes, the rows are on %d", percent, read, want)
		}
		if read, _ := st.FillFor(t, 0); read != 0 {
			t.Errorf("%v%%: filling once more read %d bytes", percent, read)
		}
		for i := range slices.Backward(trace) {
			ref := featurestore.Ref{Index: i}
			if err := storetest.Load(t.Context(), st.Slots[0], ref); err != nil {
				t.Fatal(err)
			}
			missed := slices.DeleteFunc(slices.Clone(trace[i]), func(v uint32) bool { return slices.Contains(held, v) })
			c := st.Slots[0].Counts()
			if c.RAMRows != len(trace[i])-len(missed) || c.GPURows != 0 || c.BytesRead-c.GraphRead != storetest.Covered(missed, row, size) || c.Requests != int64(1+len(missed)) {
				t.Fatalf("%v%%, batch %d: %+v, %d of %d rows are not held, on %d bytes", percent, i, c, len(missed), len(trace[i]), storetest.Covered(missed, row, size))
			}
		}
		if state, err := st.State(); state != nil || err != nil {
			t.Errorf("a checkpoint has %d bytes of the cache, %v", len(state), err)
		}
		sl, err := st.View(0).NewSlot(true)
		if err != nil {
			t.Fatal(err)
		}
		if err := storetest.Load(t.Context(), sl, featurestore.Ref{Split: featurestore.Test}); err != nil {
			t.Fatal(err)
		}
		if n := sl.Counts().RAMRows; (n > 0) != (percent > 0) {
			t.Errorf("%v%%: evaluation hits %d rows", percent, n)
		}
		sl.Free()
	}
}

// The GPU has the rows that save most, RAM the next.
func TestRowsOfTheGPU(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 100}, Batch: 12, Epochs: 2, Fanout: []int{2, 3}}, sample)
	trace := w.Trace(t)
	ranked := order(trace, 400, 400*400)
	stack, _, err := all.Open("pread", iostack.Options{Workers: 2})
	must(t, err)
	defer stack.Close()
	for _, c := range []struct{ gpu, ram float64 }{{0, 20}, {5, 20}, {20, 0}, {100, 0}} {
		l, err := find(t, w, c.ram).Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, GPU: cudatest.Open(t), GPUMemory: 1 << 30, GPUCache: percent(c.gpu)})
		must(t, err)
		if l.GPURows != int64(4*c.gpu) || l.CacheRows != int64(4*c.gpu+4*c.ram) || l.GPURowsBytes != 400*l.GPURows {
			t.Errorf("%+v: %+v", c, l)
		}
		st, err := find(t, w, c.ram).Open(stack, l)
		must(t, err)
		_, err = st.Fill(t.Context(), 0, progress.Discard)
		must(t, err)
		sl, err := st.View(0).NewSlot(false)
		must(t, err)
		near, held := ranked[:min(int(l.GPURows), len(ranked))], ranked[:min(int(l.CacheRows), len(ranked))]
		for i, batch := range trace {
			must(t, storetest.Load(t.Context(), sl, featurestore.Ref{Index: i}))
			of := func(set []uint32) (n int) {
				for _, v := range batch {
					if slices.Contains(set, v) {
						n++
					}
				}
				return n
			}
			if got := sl.Counts(); got.GPURows != of(near) || got.RAMRows != of(held) {
				t.Errorf("%+v, batch %d: %+v, of its rows the GPU has %d and both %d", c, i, got, of(near), of(held))
			}
		}
		sl.Free()
		must(t, st.Close())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched is a stack that notes what becomes of the features' reads, and can refuse one.
type watched struct {
	iostack.Stack
	submitted []int // reads of each micro-batch since the last completion
	group     *iostack.Group
	completed [][]int
	refuse    int // which micro-batch, counted from 1; 0: none
}

var errRefused = errors.New("refused")

func (w *watched) Submit(g *iostack.Group, reqs []iostack.Request) error {
	if strings.HasSuffix(reqs[0].File.Name(), "features.bin") {
		if w.refuse--; w.refuse == 0 {
			return errRefused
		}
		w.submitted, w.group = append(w.submitted, len(reqs)), g
	}
	return w.Stack.Submit(g, reqs)
}

func (w *watched) Wait(ctx context.Context, g *iostack.Group) error {
	if g == w.group && len(w.submitted) > 0 {
		w.completed = append(w.completed, w.submitted)
		w.submitted = nil
	}
	return w.Stack.Wait(ctx, g)
}

// A batch's reads are submitted in micro-batches of 512 and completed at once, where there is
// memory for their pages; else in rounds of as many as there is memory for.
func TestOneCompletion(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 12, Dim: 16}, Batch: 400, Epochs: 1, Fanout: []int{6, 6}}, sample)
	inputs := len(w.Trace(t)[0])
	if inputs < 1500 {
		t.Fatalf("a batch of %d input nodes", inputs)
	}
	c, _, err := allstores.Builtin().Find(storetest.Disk, hyperion.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	must(t, err)
	none := &budget.Size{Value: 0, Unit: budget.UnitPercent}
	plan := func(memory int64) featurestore.Layout {
		l, err := c.Plan(featurestore.PlanOptions{Memory: memory, Slots: 1, Cache: none})
		must(t, err)
		return l
	}
	whole := plan(1 << 30)
	least, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, Least: true})
	must(t, err)
	micro := func(n int) (list []int) {
		for ; n > 0; n -= 512 {
			list = append(list, min(n, 512))
		}
		return list
	}
	for name, k := range map[string]struct {
		layout featurestore.Layout
		round  int
		note   bool
	}{
		"one completion": {whole, inputs, false},
		"in rounds":      {plan(least.Bytes(1, 0) + 200*(4096+24)), 512 + 200, true},
		"least":          {least, 512, true},
	} {
		t.Run(name, func(t *testing.T) {
			inner, _, err := all.Open("pread", iostack.Options{Workers: 4})
			must(t, err)
			stack := &watched{Stack: inner}
			defer stack.Close()
			st, err := c.Open(stack, k.layout)
			must(t, err)
			_, err = st.Fill(t.Context(), 0, progress.Discard)
			must(t, err)
			sl, err := st.View(0).NewSlot(false)
			must(t, err)
			must(t, storetest.Load(t.Context(), sl, featurestore.Ref{}))
			var want [][]int
			for n := inputs; n > 0; n -= k.round {
				want = append(want, micro(min(n, k.round)))
			}
			if !slices.EqualFunc(stack.completed, want, slices.Equal) {
				t.Errorf("micro-batches %v, want %v", stack.completed, want)
			}
			if k.note != strings.Contains(k.layout.Note, " of a batch's missed rows complete at once") || !strings.HasPrefix(k.layout.Note, "the cache holds rows, ") {
				t.Errorf("%q", k.layout.Note)
			}
			w.Holds(t, featurestore.Ref{}, sl.Batch(), sl.X(), c.Facts().DType)
			stack.refuse = 3
			if err := storetest.Load(t.Context(), sl, featurestore.Ref{}); !errors.Is(err, errRefused) || len(stack.submitted) != 0 {
				t.Errorf("a micro-batch is refused: %v, %d before it are in flight", err, len(stack.submitted))
			}
			sl.Free()
			must(t, st.Close())
		})
	}
}

// A cache that could not be filled is filled once more.
func TestFillAgain(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w, 30)
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30})
	must(t, err)
	inner, _, err := all.Open("pread", iostack.Options{Workers: 4})
	must(t, err)
	stack := &watched{Stack: inner, refuse: 1}
	defer stack.Close()
	st, err := c.Open(stack, l)
	must(t, err)
	if _, err := st.Fill(t.Context(), 0, progress.Discard); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	if read, err := st.Fill(t.Context(), 0, progress.Discard); err != nil || read < 36*90 {
		t.Errorf("filled once more: %d bytes, %v", read, err)
	}
	sl, err := st.View(0).NewSlot(false)
	must(t, err)
	must(t, storetest.Load(t.Context(), sl, featurestore.Ref{}))
	w.Holds(t, featurestore.Ref{}, sl.Batch(), sl.X(), c.Facts().DType)
	sl.Free()
	must(t, st.Close())
}

// Features that became shorter are found at once.
func TestTruncated(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w, 10)
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30})
	must(t, err)
	must(t, os.Truncate(filepath.Join(w.Dataset, "features.bin"), int64(4*9*300-1)))
	stack, _, err := all.Open("pread", iostack.Options{})
	must(t, err)
	defer stack.Close()
	if _, err := c.Open(stack, l); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "it was truncated") || !strings.Contains(err.Error(), w.Dataset+" is damaged: make it again") {
		t.Errorf("a file that became short: %v", err)
	}
}

// The cache is as large as is wanted, or as memory allows beside the pages of reads, which
// take a quarter of it at most; its memory is what is said.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 12, Dim: 64}, Batch: 400, Epochs: 1, Fanout: []int{6, 6}}, sample)
	c, _, err := allstores.Builtin().Find(storetest.Disk, hyperion.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	must(t, err)
	plan := func(memory int64, cache *budget.Size) (featurestore.Layout, error) {
		return c.Plan(featurestore.PlanOptions{Memory: memory, Cache: cache, Slots: 2, EvalSlots: 1})
	}
	whole, err := plan(1<<40, nil)
	if err != nil || whole.CacheRows != 3000 || whole.Policy != "" || whole.StateBytes != 0 {
		t.Fatalf("%+v, %v", whole, err)
	}
	if l, err := plan(whole.Bytes(2, 1), nil); err != nil || l != whole {
		t.Errorf("with just enough memory: %+v, %v", l, err)
	}
	l, err := plan(1<<40, percent(10))
	const rows, ranks = 19 * 4096, 3 * 4096 // of 300 × 256 and of 3000 × 4 bytes, whole pages
	if policy := (residency.Size{Nodes: 3000, Frames: 300}).Bytes("static"); err != nil || l.CacheRows != 300 || l.RAMBytes != rows+ranks+policy {
		t.Errorf("a tenth: %+v, %v", l, err)
	}
	least, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1, Least: true})
	must(t, err)
	memory := least.Bytes(2, 1) + 400_000
	some, err := plan(memory, nil)
	must(t, err)
	pages := 2*(some.SlotBytes-least.SlotBytes) + some.EvalSlotBytes - least.EvalSlotBytes
	if n := some.Bytes(2, 1); n > memory || n < memory-8192 || pages > 100_000 || pages < 80_000 {
		t.Errorf("%d bytes of %d, %d more for reads: %+v", n, memory, pages, some)
	}
	if _, err := plan(l.Bytes(2, 1)-1, percent(10)); err != nil {
		t.Errorf("less memory for reads: %v", err)
	}
	if _, err := plan(least.Bytes(2, 1)+300*256, percent(10)); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--ram-cache 10% (300 rows)") {
		t.Errorf("too little for a tenth: %v", err)
	}
	if _, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, GPU: cudatest.Open(t), GPUMemory: 1 << 20, GPUCache: percent(100)}); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("a GPU without room: %v", err)
	}
	if io := c.(featurestore.Reads).Reads(); io.Workers != 512 || c.InOrder() {
		t.Errorf("%+v, in order: %t", io, c.InOrder())
	}
	small := storetest.NewWorld(t, storetest.Params{Compress: true}, sample)
	if _, _, err := allstores.Builtin().Find(storetest.Disk, hyperion.Name, stores.Places{Dataset: small.Dataset, Samples: small.Samples}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "import it again without --compress, or pack it") {
		t.Errorf("compressed features: %v", err)
	}
}
