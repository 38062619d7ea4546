package gnndrive_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/gnndrive"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

func find(t testing.TB, w *storetest.World, percent float64) featurestore.Candidate {
	t.Helper()
	c, _, err := all.Builtin().Find(storetest.Disk, gnndrive.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Cached(c, percent, "")
}

// Rows of several types, with buffers that have room for no batch, for less than the batches
// under way, and for all rows.
func TestConformance(t *testing.T) {
	small := func(dim int, d dtype.Type) storetest.Params {
		return storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: dim, DType: d}, Batch: 5, Epochs: 1}
	}
	for name, c := range map[string]struct {
		params  storetest.Params
		percent float64
	}{
		"half of the rows": {small(9, dtype.Float32), 50},
		"a few":            {small(1500, dtype.BFloat16), 10},
		"none":             {small(3, dtype.Float16), 0},
		"typed":            {storetest.Params{Params: datasettest.Params{Nodes: 80, AvgDegree: 3, Dim: 9, Typed: true}, Batch: 5, Epochs: 1}, 30},
		"all":              {small(100, dtype.Float32), 100},
	} {
		c.params.Drive = name == "a few"
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return find(t, w, c.percent)
			}, storetest.GPUReads)
		})
	}
}

// buffer is GNNDrive's: a reference count for every node in it, and a list of those without.
type buffer struct {
	slots   int
	refs    map[uint32]int
	standby []uint32
	loaded  [][]uint32 // nodes of batches that were not released
}

// load returns what a batch reads, in its order.
func (b *buffer) load(batch []uint32) (missed []uint32) {
	if len(b.loaded) == 3 {
		for _, v := range b.loaded[0] {
			if b.refs[v]--; b.refs[v] == 0 {
				b.standby = append(b.standby, v)
			}
		}
		b.loaded = b.loaded[1:]
	}
	kept := map[uint32]bool{}
	for _, v := range batch {
		if _, ok := b.refs[v]; ok {
			if i := slices.Index(b.standby, v); i >= 0 {
				b.standby = slices.Delete(b.standby, i, i+1)
			}
			b.refs[v]++
			kept[v] = true
		} else {
			missed = append(missed, v)
		}
	}
	for _, v := range missed {
		if len(b.refs) == b.slots {
			if len(b.standby) == 0 {
				continue
			}
			delete(b.refs, b.standby[0])
			b.standby = b.standby[1:]
		}
		b.refs[v] = 1
		kept[v] = true
	}
	b.loaded = append(b.loaded, slices.DeleteFunc(slices.Clone(batch), func(v uint32) bool { return !kept[v] }))
	return missed
}

// What a batch hits and reads is what the buffer says of the trace, also while the two
// batches before it are still being read, whose rows it does not read again.
func TestReadsAreTheBuffersOfTheTrace(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 100}, Batch: 12, Epochs: 2, Fanout: []int{2, 3}}, sample)
	trace := w.Trace(t)
	const row, size, slots = 400, 400 * 400, 3
	for _, percent := range []float64{0, 10, 40, 80, 100} {
		st := storetest.Open(t, find(t, w, percent), slots)
		st.FillFor(t, 0)
		plain := buffer{slots: int(4 * percent), refs: map[uint32]int{}}
		hits, n := 0, 2*len(trace)+3
		for i := range n + slots - 1 {
			if i < n {
				if err := errors.Join(st.Slots[i%slots].Start(featurestore.Ref{Index: i % len(trace)}), st.Slots[i%slots].LoadGraph(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			k := i - slots + 1
			if k < 0 {
				continue
			}
			sl, ref := st.Slots[k%slots], featurestore.Ref{Index: k % len(trace)}
			if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
				t.Fatal(err)
			}
			w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float32)
			missed := plain.load(trace[ref.Index])
			if n := sl.Counts(); n.RAMRows != len(trace[ref.Index])-len(missed) || n.BytesRead-n.GraphRead != storetest.Covered(missed, row, size) {
				t.Fatalf("%v %%, batch %d: %d hits and %d bytes of rows, want %d and %d", percent, k, n.RAMRows, n.BytesRead-n.GraphRead, len(trace[ref.Index])-len(missed), storetest.Covered(missed, row, size))
			}
			hits += sl.Counts().RAMRows
		}
		if (hits == 0) != (percent == 0) {
			t.Errorf("%v %%: %d hits", percent, hits)
		}
	}
}

// A run that goes on anywhere, with a batch decided ahead of it, hits and reads what one that
// was not interrupted does.
func TestResumedRunsReadTheSame(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 10, DType: dtype.Float16}, Batch: 10, Epochs: 2, Fanout: []int{2, 2}}, sample)
	c := find(t, w, 40)
	run := func(state []byte, from, n int) (list []featurestore.Counts, _ []byte) {
		st := storetest.Open(t, c, 2)
		at := func(i int) (featurestore.Slot, featurestore.Ref) {
			return st.Slots[i%2], featurestore.Ref{Index: (from + i) % st.Facts.Train}
		}
		begin := func(i int) {
			sl, ref := at(i)
			if err := errors.Join(sl.Start(ref), sl.LoadGraph(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if state != nil {
			if err := st.LoadState(state); err != nil {
				t.Fatal(err)
			}
		}
		if _, lines := st.FillFor(t, from%st.Facts.Train); len(lines) > 0 {
			t.Errorf("from batch %d: reported %q", from, lines)
		}
		begin(0)
		for i := range n {
			begin(i + 1)
			sl, ref := at(i)
			if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
				t.Fatal(err)
			}
			w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float16)
			list = append(list, sl.Counts())
		}
		sl, _ := at(n)
		_ = sl.Wait(t.Context()) // what was under way is given up
		state, err := st.State()
		if err != nil {
			t.Fatal(err)
		}
		return list, bytes.Clone(state)
	}
	const steps, parts = 5, 6
	whole, _ := run(nil, 0, steps*parts)
	var state []byte
	for i := range parts {
		var got []featurestore.Counts
		if got, state = run(state, i*steps, steps); !slices.Equal(got, whole[i*steps:][:steps]) {
			t.Errorf("from batch %d: %+v, not interrupted %+v", i*steps, got, whole[i*steps:][:steps])
		}
	}
}

// There is one policy, and fewer reads are in flight than of single rows.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c := find(t, w, 10)
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30})
	if err != nil || l.Policy != "standby" || l.CacheRows != 30 || l.Ahead != 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	if _, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Policy: "lru"}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--cache-policy lru: the store gnndrive has standby") {
		t.Errorf("another policy: %v", err)
	}
	// Two rounds of 40 pages, beside what a batch has; 512 reads of single rows take 2 MiB.
	rows := c.Facts().TrainSizes.Src[0]
	if l.SlotBytes < int64(80*4096+rows*9*4) || l.SlotBytes > 1<<20 {
		t.Errorf("a slot of %d rows takes %d bytes", rows, l.SlotBytes)
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
