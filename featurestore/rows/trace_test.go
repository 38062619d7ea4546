package rows_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	allstores "diskgnn/featurestore/all"
	"diskgnn/featurestore/residency"
	"diskgnn/featurestore/rows"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/faultio"
)

// plainLRU is what an LRU cache misses, batch by batch: rows of a batch stay while it runs,
// hits count as used before misses.
type plainLRU struct {
	frames int
	recent []uint32 // the last used at the end
}

func (c *plainLRU) batch(nodes []uint32) (missed []uint32) {
	for _, v := range nodes {
		if i := slices.Index(c.recent, v); i >= 0 {
			c.recent = append(slices.Delete(c.recent, i, i+1), v)
		} else {
			missed = append(missed, v)
		}
	}
	hits := len(nodes) - len(missed)
	for _, v := range missed[:min(len(missed), max(c.frames-hits, 0))] {
		if len(c.recent) == c.frames {
			c.recent = c.recent[1:]
		}
		c.recent = append(c.recent, v)
	}
	return missed
}

// What a batch hits, misses and reads is what the trace says: by a plain LRU, and for every
// policy by itself. Hits and misses are all accesses; bytes are those of the pages that
// cover each missed row.
func TestCountsFollowFromTheTrace(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 100}, Batch: 12, Epochs: 2, Fanout: []int{2, 3}}, sample)
	batches := w.Trace(t)
	const row, size = 400, 400 * 400
	for _, policy := range rows.Design().Policies {
		for _, percent := range []float64{0, 10, 60, 100} {
			c := find(t, w, percent, policy)
			st := storetest.Open(t, c, 1)
			st.FillFor(t, 0)
			frames := int(percent * 4)
			plain := plainLRU{frames: frames}
			p, err := residency.New(policy, residency.Config{Nodes: 400, Frames: frames})
			if err != nil {
				t.Fatal(err)
			}
			hits := 0
			for k := range 2*len(batches) + 3 {
				ref := featurestore.Ref{Index: k % len(batches)}
				nodes := batches[ref.Index]
				held, into := make([]int32, len(nodes)), make([]int32, len(nodes))
				p.Batch(nodes, held, into)
				var missed []uint32
				for i, v := range nodes {
					if held[i] < 0 {
						missed = append(missed, v)
					}
				}
				if lru := plain.batch(nodes); policy == residency.LRU && !slices.Equal(lru, missed) {
					t.Fatalf("batch %d misses %v, by a plain LRU %v", k, missed, lru)
				}
				if err := storetest.Load(t.Context(), st.Slots[0], ref); err != nil {
					t.Fatal(err)
				}
				w.Holds(t, ref, st.Slots[0].Batch(), st.Slots[0].X(), dtype.Float32)
				n := st.Slots[0].Counts()
				if n.RAMRows != len(nodes)-len(missed) || n.BytesRead-n.GraphRead != storetest.Covered(missed, row, size) {
					t.Fatalf("%s, %v %%, batch %d: %d hits and %d bytes of rows, want %d and %d", policy, percent, k, n.RAMRows, n.BytesRead-n.GraphRead, len(nodes)-len(missed), storetest.Covered(missed, row, size))
				}
				if n.UsefulBytes >= n.GraphRead+int64(len(missed))*row+1 || n.UsefulBytes < int64(len(missed))*row {
					t.Fatalf("%d useful bytes of %d rows and a graph of %d bytes", n.UsefulBytes, len(missed), n.GraphRead)
				}
				hits += n.RAMRows
			}
			if (hits == 0) != (percent == 0) {
				t.Errorf("%s, %v %%: %d hits", policy, percent, hits)
			}
		}
	}
}

// Batches that miss many times what is in flight at a time are read round by round.
func TestManyRounds(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 6, Dim: 35, DType: d}, Batch: 700, Epochs: 1}, sample)
		st := storetest.Open(t, find(t, w, 10, "sieve"), 2)
		st.FillFor(t, 0)
		for k := range 4 {
			sl, ref := st.Slots[k%2], featurestore.Ref{Index: k % st.Facts.Train}
			if err := storetest.Load(t.Context(), sl, ref); err != nil {
				t.Fatal(err)
			}
			w.Holds(t, ref, sl.Batch(), sl.X(), d)
			if n := len(sl.Batch().Input) - sl.Counts().RAMRows; n < 3*256 {
				t.Errorf("batch %d misses %d rows only", k, n)
			}
		}
	}
}

// watched is a stack that knows which reads are waited for, and ends a context once so many
// have been submitted.
type watched struct {
	iostack.Stack
	inFlight map[*iostack.Group]int
	left     int
	end      func()
}

func (w *watched) Submit(g *iostack.Group, reqs []iostack.Request) error {
	w.inFlight[g] += len(reqs)
	if w.left -= len(reqs); w.left < 0 {
		w.end()
	}
	return w.Stack.Submit(g, reqs)
}

func (w *watched) Wait(ctx context.Context, g *iostack.Group) error {
	delete(w.inFlight, g)
	return w.Stack.Wait(ctx, g)
}

// A read of any round that fails, and a context that ends in it, end the batch with no read
// in flight.
func TestRoundsAreGivenUp(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 6, Dim: 35}, Batch: 700, Epochs: 1}, sample)
	c := find(t, w, 10, "clock")
	for _, n := range []int{1, 100, 256, 257, 600, 900} {
		for want, fate := range map[error]faultio.Effect{syscall.EIO: faultio.Fail(syscall.EIO), context.Canceled: faultio.Hang()} {
			inner, _, err := all.Open("pread", iostack.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			in := &watched{faultio.Wrap(inner, faultio.On(faultio.Nth(n, faultio.Always()), fate)), map[*iostack.Group]int{}, n, func() {}}
			if want == context.Canceled {
				in.end = cancel
			}
			l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1})
			if err != nil {
				t.Fatal(err)
			}
			st, err := c.Open(in, l)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.Fill(ctx, 0, progress.Discard); err != nil {
				t.Fatal(err)
			}
			sl, err := st.View(0).NewSlot(false)
			if err != nil {
				t.Fatal(err)
			}
			if err := storetest.Load(ctx, sl, featurestore.Ref{}); !errors.Is(err, want) || len(in.inFlight) > 0 {
				t.Errorf("read %d: %v, want %v, in flight %v", n, err, want, in.inFlight)
			}
			cancel()
			sl.Free()
			if err := errors.Join(st.Close(), in.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A run that goes on anywhere, with batches decided ahead of it, hits and reads what one
// would that was never interrupted; another cache begins empty, and says so.
func TestResumedRunsReadTheSame(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 10, DType: dtype.Float16}, Batch: 10, Epochs: 2, Fanout: []int{2, 2}}, sample)
	const slots, steps = 3, 9
	load := func(st *storetest.Opened, k int) featurestore.Counts {
		sl, ref := st.Slots[k%slots], featurestore.Ref{Index: k % st.Facts.Train}
		if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
			t.Fatal(err)
		}
		w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float16)
		return sl.Counts()
	}
	begin := func(st *storetest.Opened, k int) {
		sl, ref := st.Slots[k%slots], featurestore.Ref{Index: k % st.Facts.Train}
		if err := errors.Join(sl.Start(ref), sl.LoadGraph(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for _, policy := range rows.Design().Policies {
		c := find(t, w, 60, policy) // more than a batch has: rows stay from batch to batch
		whole := storetest.Open(t, c, slots)
		whole.FillFor(t, 0)
		var want []featurestore.Counts
		for k := range 3 * steps {
			begin(whole, k)
			want = append(want, load(whole, k))
		}
		st := storetest.Open(t, c, slots)
		if read, lines := st.FillFor(t, 0); len(lines) > 0 {
			t.Errorf("reported %q, read %d", lines, read)
		}
		begun := 0
		for k := range 3 * steps {
			for ; begun <= min(k+k%slots, 3*steps-1); begun++ { // ahead of k, none to two batches
				begin(st, begun)
			}
			if got := load(st, k); got != want[k] {
				t.Fatalf("%s, batch %d: %+v, not interrupted %+v", policy, k, got, want[k])
			}
			if k%steps != steps-1 {
				continue
			}
			state, err := st.State()
			if err != nil {
				t.Fatal(err)
			}
			l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: slots})
			if err != nil || int64(len(state)) > l.StateBytes {
				t.Fatalf("%d bytes of state, %d were planned, %v", len(state), l.StateBytes, err)
			}
			for _, sl := range st.Slots { // what was under way is given up
				_ = sl.Wait(t.Context())
			}
			st, begun = storetest.Open(t, c, slots), k+1
			if err := st.LoadState(state); err != nil {
				t.Fatal(err)
			}
			read, lines := st.FillFor(t, (k+1)%st.Facts.Train)
			if len(lines) > 0 || read < 4096 {
				t.Errorf("%s, resumed at batch %d: read %d, reported %q", policy, k+1, read, lines)
			}
			other := storetest.Open(t, find(t, w, 20, policy), 1)
			if err := other.LoadState(state); err != nil {
				t.Fatal(err)
			}
			if _, lines := other.FillFor(t, (k+1)%st.Facts.Train); len(lines) != 1 || !strings.Contains(lines[0], "the cache begins empty") {
				t.Errorf("another cache: reported %q", lines)
			}
			for _, bad := range [][]byte{state[:len(state)-1], append(slices.Clone(state), 0), state[:20], state[:16]} {
				if err := other.LoadState(bad); err != nil {
					t.Errorf("another cache: %v", err)
				}
				if err := storetest.Open(t, c, 1).LoadState(bad); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "state of the store rows") {
					t.Errorf("a state of %d bytes: %v", len(bad), err)
				}
			}
		}
	}
}

// A wrong byte of a row that is read is an error that names file and range, whichever round
// it is in; so is a file that lost its end. What no batch reads does not matter.
func TestDamagedFeatures(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 6, Dim: 128}, Batch: 700, Epochs: 1}, sample)
	c := find(t, w, 5, "s3fifo")
	storetest.Open(t, c, 1).FillFor(t, 0) // which makes the checksums of the pages
	name := filepath.Join(w.Dataset, dataset.FeaturesFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	batch := w.Trace(t)[0]
	for _, k := range []int{0, 255, 256, 600, len(batch) - 1} {
		page := int64(batch[k]) * 512 / 4096 * 4096
		bad := slices.Clone(b)
		bad[page+4095] ^= 2 // of whatever row
		if err := os.WriteFile(name, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		st := storetest.Open(t, c, 1)
		st.FillFor(t, 0)
		err := storetest.Load(t.Context(), st.Slots[0], featurestore.Ref{})
		want := fmt.Sprintf("features.bin: bytes %d to %d do not match", page, page+4096)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), w.Dataset+" is damaged: make it again") {
			t.Errorf("node %d: %v, want %q", batch[k], err, want)
		}
	}
	if err := os.Truncate(name, int64(len(b)-1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := allstores.Builtin().Find(storetest.Disk, rows.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a short file is found: %v", err)
	}
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	stack, _, err := all.Open("pread", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	if _, err := c.Open(stack, l); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "it was truncated") {
		t.Errorf("a file that became short: %v", err)
	}
}

// The cache is as large as is wanted, or as memory allows, and its memory is what is said.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 2, Dim: 64}, Batch: 20, Epochs: 1}, sample)
	c, _, err := allstores.Builtin().Find(storetest.Disk, rows.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(memory int64, cache *budget.Size) (featurestore.Layout, error) {
		return c.Plan(featurestore.PlanOptions{Memory: memory, Cache: cache, Slots: 2, EvalSlots: 1})
	}
	whole, err := plan(1<<40, nil)
	if err != nil || whole.CacheRows != 3000 || whole.Policy != "s3fifo" {
		t.Fatalf("%+v, %v", whole, err)
	}
	need := func(l featurestore.Layout) int64 {
		return l.TableBytes + l.RAMBytes + l.KeepBytes + 2*l.SlotBytes + l.EvalSlotBytes
	}
	if l, err := plan(need(whole), nil); err != nil || l.CacheRows != 3000 {
		t.Errorf("with just enough memory: %d rows, %v", l.CacheRows, err)
	}
	tenth := &budget.Size{Value: 10, Unit: budget.UnitPercent}
	l, err := plan(1<<40, tenth)
	const rows, ranks = 19 * 4096, 3 * 4096 // of 300 × 256 and of 3000 × 4 bytes, whole pages
	if policy := (residency.Size{Nodes: 3000, Frames: 300}).Bytes("s3fifo"); err != nil || l.CacheRows != 300 || l.RAMBytes != rows+ranks+policy {
		t.Errorf("a tenth: %+v, %v", l, err)
	}
	// What filling takes besides is most while the pages are summed: 188 pages, and 6 MiB.
	if l.StateBytes != 32+64+14*300 || l.KeepBytes != 3*l.StateBytes+4*188+6<<20 {
		t.Errorf("a tenth: %d bytes of state, %d besides", l.StateBytes, l.KeepBytes)
	}
	less := (need(whole) - need(l)) / 2700 * 1000
	if l, err := plan(need(whole)-less, nil); err != nil || l.CacheRows < 1980 || l.CacheRows > 2020 || need(l) > need(whole)-less {
		t.Errorf("with the memory of 1000 rows less: %d rows, %v", l.CacheRows, err)
	}
	if _, err := plan(need(l)-1, tenth); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--ram-cache 10% (300 rows)") {
		t.Errorf("too little for a tenth: %v", err)
	}
	if io := c.(featurestore.Reads).Reads(); io.Workers != 512 {
		t.Errorf("%+v", io)
	}
}
