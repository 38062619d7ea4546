package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// gpuShare returns the options of a store for a device with a share of the rows, or with none under the trait
// NoGPURows.
func (s *suite) gpuShare(t testing.TB, d *cuda.Device, percent float64) featurestore.PlanOptions {
	t.Helper()
	o := featurestore.PlanOptions{Memory: 1 << 40, GPU: d, GPUMemory: 1 << 30, GPUCache: &budget.Size{Value: percent, Unit: budget.UnitPercent}}
	if percent == 0 || !s.has(NoGPURows) {
		return o
	}
	if _, err := s.c.Plan(o); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a cache on the GPU, which the store has not: %v", err)
	}
	o.GPUCache = nil
	return o
}

// rowsOnGPU: Fill makes the same matrices in device memory for any division of the held rows between GPU
// and RAM.
func (s *suite) rowsOnGPU(t *testing.T) {
	d := cudatest.Open(t)
	for _, percent := range []float64{0, 10, 100} {
		s.each(t, s.gpuShare(t, d, percent), func(t *testing.T, st *opened, _ iostack.Stack) {
			_, err := st.Fill(t.Context(), 0, progress.Discard)
			must(t)(err)
			for _, ref := range refs(s.facts, splits...) {
				sl := st.slot(ref)
				must(t)(Load(t.Context(), sl, ref))
				x, err := OnGPU(sl, d, len(sl.Batch().Input)*s.facts.Dim)
				must(t)(err)
				s.w.Holds(t, ref, sl.Batch(), x, s.facts.DType)
			}
		})
	}
}

// OnGPU calls Fill for a slot's batch on a device, and returns a copy of the matrix of n floats.
func OnGPU(sl featurestore.Slot, d *cuda.Device, n int) (x []float32, err error) {
	err = d.Attached(func() error {
		a, err := d.NewArena(int64(4 * n))
		if err != nil {
			return err
		}
		defer a.Free()
		on, err := a.Take(int64(4 * n))
		if err != nil {
			return err
		}
		stream, err := d.NewStream()
		if err != nil {
			return err
		}
		defer stream.Free()
		x = make([]float32, n)
		span, err := sl.Fill(stream, on)
		if err == nil && span != nil {
			err = stream.Wait(cuda.SpanOf(span).Ended())
		}
		if err == nil {
			err = stream.CopyOut(binio.Bytes(x), on)
		}
		if err = errors.Join(err, stream.Synchronize()); err != nil {
			return err
		}
		return Landed(sl)
	})
	return x, err
}

// Landed returns the error of Landed of a slot that implements featurestore.Landing; for other slots nil.
func Landed(sl featurestore.Slot) error {
	if l, ok := sl.(featurestore.Landing); ok {
		return l.Landed()
	}
	return nil
}

// taker takes matrices from slots as an engine does: two at a time, on a stream, without waiting for it
// before the next batch.
type taker struct {
	copies, main *cuda.Stream
	arena        *cuda.Arena
	taken        [3]taken // training batches in turn; evaluation
}

// taken is a matrix that is being copied to the host.
type taken struct {
	x              cuda.Buffer
	out            *cuda.Pinned
	copied, marked *cuda.Event
	check          func(x []float32) // nil: no matrix is being copied
}

func newTaker(t testing.TB, d *cuda.Device, bytes int64) *taker {
	t.Helper()
	k := new(taker)
	var err error
	k.copies, err = d.NewStream()
	must(t)(err)
	k.main, err = d.NewStream()
	must(t)(err)
	k.arena, err = d.NewArena(3 * (bytes + cuda.Align))
	must(t)(err)
	for i := range k.taken {
		n := &k.taken[i]
		n.x, err = k.arena.Take(bytes)
		must(t)(err)
		n.out, err = d.NewPinned(bytes)
		must(t)(err)
		n.copied, err = d.NewEvent()
		must(t)(err)
		n.marked, err = d.NewEvent()
		must(t)(err)
	}
	return k
}

func (k *taker) free() {
	for i := range k.taken {
		k.taken[i].out.Free()
		k.taken[i].copied.Free()
		k.taken[i].marked.Free()
	}
	k.arena.Free()
	k.copies.Free()
	k.main.Free()
}

// take takes the matrix of a slot, of the given bytes, as number i. It returns when the slot may be used
// again.
func (k *taker) take(i int, copies *cuda.Stream, sl featurestore.Slot, bytes int, check func(x []float32)) error {
	n := &k.taken[i]
	span, err := sl.Fill(copies, n.x)
	if err != nil {
		return err
	}
	n.check = check
	if err := errors.Join(n.copied.Record(copies), k.main.Wait(n.copied)); err != nil {
		return err
	}
	if span != nil {
		if err := k.main.Wait(cuda.SpanOf(span).Ended()); err != nil {
			return err
		}
	}
	if err := errors.Join(k.main.CopyOut(n.out.Bytes()[:bytes], n.x), n.marked.Record(k.main), n.copied.Synchronize()); err != nil {
		return err
	}
	return Landed(sl)
}

// look waits for a matrix and checks it.
func (k *taker) look(i int) error {
	n := &k.taken[i]
	if n.check == nil {
		return nil
	}
	err := n.marked.Synchronize()
	n.check(n.out.Float32s())
	n.check = nil
	return err
}

// lateStreams: matrices are right for any order of work of the device's streams, also if the store is
// filled again or closed before the last batch has been gathered.
func (s *suite) lateStreams(t *testing.T) {
	cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
		in := stack(t)
		defer in.Close()
		s.trained(t, d, in, s.gpuShare(t, d, 10))
	})
}

// trained takes batches from a store as an engine does, and checks them.
func (s *suite) trained(t *testing.T, d *cuda.Device, in iostack.Stack, o featurestore.PlanOptions) {
	st, err := open(s.c, in, o)
	must(t)(err)
	rows := 0
	for _, sizes := range [][]int{s.facts.TrainSizes.Src, s.facts.EvalSizes.Src} {
		if len(sizes) > 0 {
			rows = max(rows, sizes[0])
		}
	}
	must(t)(d.Attached(func() error {
		k := newTaker(t, d, int64(4*rows*s.facts.Dim))
		take := func(i int, copies *cuda.Stream, ref featurestore.Ref) {
			sl := st.slot(ref)
			must(t)(Load(t.Context(), sl, ref))
			list := s.w.holdsGraph(t, ref, sl.Batch())
			must(t)(k.take(i, copies, sl, 4*len(list)*s.facts.Dim, func(x []float32) { s.w.hasRows(t, ref, list, x, s.facts.DType) }))
		}
		others := refs(s.facts, featurestore.Valid, featurestore.Test)
		for _, first := range []int{0, s.facts.Train - 2} {
			_, err := st.Fill(t.Context(), first, progress.Discard)
			must(t)(err)
			for i := range 7 {
				take(i%2, k.copies, featurestore.Ref{Index: (first + i) % s.facts.Train})
				must(t)(k.look((i + 1) % 2))
				if i%3 == 2 && len(others) > 0 { // evaluation copies on the stream that computes
					take(2, k.main, others[i%len(others)])
					must(t)(k.look(2))
				}
			}
		}
		must(t)(st.close())
		must(t)(errors.Join(k.look(0), k.look(1), k.main.Synchronize()))
		k.free()
		return nil
	}))
}

// everyCallFails: the error of any call of the device before Close reaches the caller, and no object is
// left on the device.
func (s *suite) everyCallFails(t *testing.T) {
	for n, failed := 0, true; failed; n++ {
		failed = false
		calls, closing := 0, false
		d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
			if calls++; calls-1 != n || closing {
				return nil
			}
			failed = true
			return &cuda.Fault{Why: fmt.Sprintf("call %d, %s, fails", n, call), OutOfMemory: true}
		})
		if err := s.workOnGPU(t, d, &closing); failed != (err != nil) {
			t.Fatalf("call %d fails: %v, and the store says %v", n, failed, err)
		}
	}
}

// workOnGPU opens a store for a device, fills it, loads a batch of every split, and closes it. It sets
// closing before Close.
func (s *suite) workOnGPU(t *testing.T, d *cuda.Device, closing *bool) (err error) {
	in := stack(t)
	defer in.Close()
	return s.workWith(d, in, s.gpuShare(t, d, 10), closing)
}

func (s *suite) workWith(d *cuda.Device, in iostack.Stack, o featurestore.PlanOptions, closing *bool) (err error) {
	st, err := open(s.c, in, o)
	if err != nil {
		return err
	}
	defer func() {
		*closing = true
		err = errors.Join(err, st.close())
	}()
	if _, err := st.Fill(context.Background(), 0, progress.Discard); err != nil {
		return err
	}
	for _, split := range splits {
		if s.facts.Batches(split) == 0 {
			continue
		}
		ref := featurestore.Ref{Split: split}
		sl := st.slot(ref)
		if err := Load(context.Background(), sl, ref); err != nil {
			return err
		}
		if _, err := OnGPU(sl, d, len(sl.Batch().Input)*s.facts.Dim); err != nil {
			return err
		}
	}
	return nil
}

// budgetOfGPU: a store and its slots take the device memory of the layout, which is within the limit. A
// limit that is too small is refused.
func (s *suite) budgetOfGPU(t *testing.T) {
	in := stack(t)
	defer in.Close()
	o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, EvalSlots: 1, MostSlots: 1, GPUMemory: 1 << 30, GPU: cudatest.Open(t)}
	whole, err := s.c.Plan(o)
	must(t)(err)
	if s.has(NoGPURows) {
		if whole.GPUBytes+whole.GPUSlotBytes+whole.GPURows != 0 {
			t.Errorf("a store without a cache on the GPU: %+v", whole)
		}
		return
	}
	refused := 0
	for k := range 9 {
		o.GPUMemory = (whole.GPUBytes + whole.GPUSlotBytes) * int64(k) / 8
		o.GPU = cudatest.OpenFaulty(t, cuda.Options{DeviceBytes: max(1, o.GPUMemory)}, func(string) *cuda.Fault { return nil })
		l, err := s.c.Plan(o)
		if errors.Is(err, fault.ErrBudget) {
			refused++
			continue
		}
		must(t)(err)
		st, err := s.c.Open(in, l)
		must(t)(err)
		sl, err := st.View(0).NewSlot(false)
		must(t)(err)
		if held, _ := o.GPU.Held(); held != l.GPUBytes+l.GPUSlotBytes || held > o.GPUMemory {
			t.Errorf("%d bytes of the device's %d are held, %d and %d planned", held, o.GPUMemory, l.GPUBytes, l.GPUSlotBytes)
		}
		sl.Free()
		must(t)(st.Close())
	}
	if refused == 0 || refused == 9 {
		t.Errorf("%d of 9 sizes were refused", refused)
	}
}

func withoutRows(o featurestore.PlanOptions) featurestore.PlanOptions {
	o.GPUCache = &budget.Size{Unit: budget.UnitPercent}
	return o
}
