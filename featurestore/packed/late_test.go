package packed_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// taker takes matrices from a store as an engine does: two at a time, on a stream that
// nobody waits for before the next batch is asked for.
type taker struct {
	t            *testing.T
	copies, main *cuda.Stream
	arena        *cuda.Arena
	began        *cuda.Event
	taken        [3]taken // of training batches in turn; of evaluation
}

// taken is a matrix on its way to the host.
type taken struct {
	x              cuda.Buffer
	out            *cuda.Pinned
	copied, marked *cuda.Event
	span           device.Span
	want           func(x []float32) // holds the matrix to what it should be; nil: there is none
}

func newTaker(t *testing.T, d *cuda.Device, bytes int64) *taker {
	k := &taker{t: t}
	var err error
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.copies, err = d.NewStream()
	ok(err)
	k.main, err = d.NewStream()
	ok(err)
	k.began, err = d.NewEvent()
	ok(err)
	ok(k.began.Record(k.main))
	k.arena, err = d.NewArena(3 * (bytes + cuda.Align))
	ok(err)
	for i := range k.taken {
		n := &k.taken[i]
		n.x, err = k.arena.Take(bytes)
		ok(err)
		n.out, err = d.NewPinned(bytes)
		ok(err)
		n.copied, err = d.NewEvent()
		ok(err)
		n.marked, err = d.NewEvent()
		ok(err)
	}
	return k
}

// free gives all back, whatever is under way on the store's stream.
func (k *taker) free() {
	for i := range k.taken {
		k.taken[i].out.Free()
		k.taken[i].copied.Free()
		k.taken[i].marked.Free()
	}
	k.began.Free()
	k.arena.Free()
	k.copies.Free()
	k.main.Free()
}

// take asks for the matrix of a slot, as number i, and returns when the slot may be used
// again.
func (k *taker) take(i int, copies *cuda.Stream, sl *packed.Slot, want func(x []float32)) error {
	n := &k.taken[i]
	span, err := sl.Fill(copies, n.x)
	if err != nil {
		return err
	}
	bytes := int64(4 * len(sl.Batch().Input) * sl.Dim())
	n.want, n.span = want, span
	return errors.Join(n.copied.Record(copies), k.main.Wait(n.copied), k.main.Wait(cuda.SpanOf(span).Ended()),
		k.main.CopyOut(n.out.Bytes()[:bytes], n.x), n.marked.Record(k.main), n.copied.Synchronize())
}

// look waits for a matrix and looks at it.
func (k *taker) look(i int) error {
	n := &k.taken[i]
	if n.want == nil {
		return nil
	}
	err := n.marked.Synchronize()
	n.want(n.out.Float32s())
	n.want = nil
	if err == nil && n.span != nil { // which goes with the store
		_, _, err = cuda.SpanOf(n.span).Since(k.began)
	}
	return err
}

// pipelined holds the batches of a pack to their samples, taken as an engine takes them.
// It returns the bytes that filling the caches took.
func (w *world) pipelined(t *testing.T, stack iostack.Stack, d *cuda.Device, share float64) (filled int64) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	edges := w.reader.Index().Edges
	edge := edges[len(edges)-1]
	rows := func(n int64) *budget.Size { return &budget.Size{Value: float64(n * int64(w.reader.Facts().RowBytes))} }
	near := int64(share * float64(edge))
	layout, err := packed.Plan(w.reader, packed.PlanOptions{Memory: 1 << 30, Slots: 2, EvalSlots: 1, GPU: d, GPUMemory: 1 << 30,
		GPUCache: rows(near), Cache: rows(edge - near), Direct: stack.Caps().Device, MostSlots: 2})
	ok(err)
	s, err := packed.Open(vfs.OS, w.reader, stack, layout)
	ok(err)
	filled, err = s.Preload(t.Context(), progress.Discard)
	ok(err)
	f := w.reader.Facts()
	most := 0
	for _, sizes := range []graph.Sizes{f.TrainSizes, f.EvalSizes} {
		if sizes.Src != nil {
			most = max(most, sizes.Src[0])
		}
	}
	ok(d.Attached(func() error {
		k := newTaker(t, d, int64(4*most*f.Dim))
		sl, err := s.NewSlot()
		ok(err)
		ev, err := s.NewEvalSlot()
		ok(err)
		n := f.Train
		if w.reader.Params().Policy == packfile.PolicyMin {
			n += 5 // around the circle
		}
		for i := range n {
			ok(load(t.Context(), s, sl, i%f.Train))
			ok(k.take(i%2, k.copies, sl, w.matrixOf(t, i%f.Train, sl.Batch(), nil)))
			ok(k.look((i + 1) % 2))
			if i%3 == 2 && f.Valid > 0 { // evaluation copies on the stream that computes
				ok(s.LoadEval(t.Context(), ev, false, i%f.Valid))
				ok(k.take(2, k.main, ev, w.matrixOf(t, f.Train+i%f.Valid, ev.Batch(), s)))
				ok(k.look(2))
			}
		}
		// The last batch is under way when all is given back.
		sl.Free()
		ev.Free()
		ok(s.Close())
		k.taken[(n+1)%2].span = nil
		ok(k.look((n + 1) % 2))
		ok(k.main.Synchronize())
		k.free()
		return nil
	}))
	return filled
}

// matrixOf returns what holds a matrix to the rows that batch i of the samples names, in the
// order of the batch as it was loaded. Batches of evaluation have a store.
func (w *world) matrixOf(t *testing.T, i int, b *graph.Batch, eval *packed.Store) func(x []float32) {
	f := w.reader.Facts()
	input := slices.Clone(b.Input)
	if eval != nil {
		var sampled graph.Batch
		if _, err := w.samples.Read(t.Context(), i, nil, &sampled); err != nil {
			t.Fatal(err)
		}
		left := make(map[uint32]bool) // nodes whose rows are not hot
		for _, v := range sampled.Input {
			left[v] = true
		}
		for _, r := range input {
			if int64(r) < f.HotRows {
				delete(left, w.node[r])
			}
		}
		return func(x []float32) {
			for k, r := range input {
				row := x[k*f.Dim : (k+1)*f.Dim]
				if int64(r) < f.HotRows && !slices.Equal(row, w.row(w.node[r])) {
					t.Fatalf("evaluation, batch %d: row %d is %v", i, k, row)
				}
				if int64(r) >= f.HotRows {
					found := false
					for v := range left {
						if slices.Equal(row, w.row(v)) {
							delete(left, v)
							found = true
							break
						}
					}
					if !found {
						t.Fatalf("evaluation, batch %d: row %d is %v, no node's", i, k, row)
					}
				}
			}
		}
	}
	return func(x []float32) {
		for k, r := range input {
			if row := x[k*f.Dim : (k+1)*f.Dim]; !slices.Equal(row, w.row(w.node[r])) {
				t.Fatalf("batch %d: row %d is %v, want %v", i, k, row, w.row(w.node[r]))
			}
		}
	}
}

// TestLate: whatever order the streams work in, matrices are right, and memory is given
// back when nothing is under way on it.
func TestLate(t *testing.T) {
	for i, w := range []*world{small(t, "same"), small(t, "bf16"), sharing(t), buildMin(t, "same", "none"), buildMin(t, "int8", "s2")} {
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("pack %d, direct %v", i, direct), func(t *testing.T) {
				cudatest.Late(t, 2*cudatest.Orders, func(t *testing.T, d *cuda.Device) {
					stack := newStack(t)
					if direct {
						stack = &toDevice{Stack: stack, gpu: d, landed: make(map[*iostack.Group][]landing)}
					}
					w.pipelined(t, stack, d, 0.5)
				})
			})
		}
	}
}

// TestLateFill fills the caches again when the last batch has not changed them yet.
func TestLateFill(t *testing.T) {
	w := buildMin(t, "same", "none")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
		s, sl := w.openMinOn(t, newStack(t), d, 0)
		f := w.reader.Facts()
		ok(d.Attached(func() error {
			k := newTaker(t, d, int64(4*f.TrainSizes.Src[0]*f.Dim))
			for _, first := range []int{0, 3, 0} {
				_, err := s.PreloadFor(t.Context(), first, progress.Discard)
				ok(err)
				for i := first; i < first+9; i++ {
					ok(load(t.Context(), s, sl, i))
					ok(k.take(i%2, k.copies, sl, w.matrixOf(t, i, sl.Batch(), nil)))
					ok(k.look((i + 1) % 2))
				}
			}
			ok(k.main.Synchronize())
			sl.Free()
			ok(s.Close())
			k.free()
			return nil
		}))
	})
}

// TestLatePreload fills a GPU cache that is larger than what is on its way at a time.
func TestLatePreload(t *testing.T) {
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 2400, AvgDegree: 4, Dim: 4000, Seed: 3}.Raw(),
		presample.Options{BatchSize: 400, Fanout: []int{4}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 100, Unit: budget.UnitPercent}, Memory: 1 << 30, Workers: 1})
	t.Cleanup(w.close)
	cudatest.Late(t, 3, func(t *testing.T, d *cuda.Device) {
		if n := w.pipelined(t, newStack(t), d, 1); n < 24<<20 {
			t.Errorf("the caches have %d bytes", n)
		}
	})
}
