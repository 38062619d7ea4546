package packed_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// buildMin makes a small pack of policy min with more than one refill record.
func buildMin(t testing.TB, d, codec string) *world {
	t.Helper()
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 40, Seed: 3}.Raw(),
		presample.Options{BatchSize: 2, Epochs: 4, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1},
		pack.Options{Policy: packfile.PolicyMin, Cache: &budget.Size{Value: 20, Unit: budget.UnitPercent}, DType: d, Compress: codec, Memory: 1 << 30, Workers: 1})
	t.Cleanup(w.close)
	if f := w.reader.Facts(); f.Train <= packfile.RefillBatches || f.ColdRows == 0 || f.EvalRows == 0 || f.Valid == 0 {
		t.Fatalf("the pack leaves something empty: %+v", f)
	}
	return w
}

// openMin opens a store on a pack of policy min, with a slot.
func (w *world) openMin(t fataler, stack iostack.Stack) (*packed.Store, *packed.Slot) {
	t.Helper()
	return w.openMinOn(t, stack, nil, 0)
}

// openMinOn opens one for a GPU that holds so much of the cache.
func (w *world) openMinOn(t fataler, stack iostack.Stack, gpu *cuda.Device, share float64) (*packed.Store, *packed.Slot) {
	t.Helper()
	o := packed.PlanOptions{Memory: 1 << 30, Slots: 1, EvalSlots: 1, Stored: w.stored}
	near := int64(0)
	if gpu != nil {
		near = int64(share * float64(w.reader.Facts().HotRows))
		o.GPU, o.GPUMemory, o.GPUCache = gpu, 1<<30, &budget.Size{Value: float64(near * int64(w.reader.Facts().RowBytes))}
		o.Direct, o.MostSlots = stack.Caps().Device, 1
	}
	layout, err := packed.Plan(w.reader, o)
	if err != nil {
		t.Fatal(err)
	}
	if layout.CacheRows != w.reader.Facts().HotRows || layout.GPURows != near || (layout.GPU == nil) != (gpu == nil) {
		t.Fatal("planned", layout)
	}
	s := w.open(t, stack, layout)
	sl := newSlot(t, s)
	return s, sl
}

// open opens a store on the pack.
func (w *world) open(t fataler, stack iostack.Stack, l packed.Layout) *packed.Store {
	t.Helper()
	s, err := packed.Open(vfs.OS, w.reader, stack, l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func preload(t *testing.T, s *packed.Store) {
	t.Helper()
	if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
		t.Fatal(err)
	}
}

func newSlot(t fataler, s *packed.Store) *packed.Slot {
	t.Helper()
	sl, err := s.NewSlot()
	if err != nil {
		t.Fatal(err)
	}
	return sl
}

// ready fills the levels of a store, and makes a slot.
func ready(t *testing.T, s *packed.Store) *packed.Slot {
	t.Helper()
	preload(t, s)
	return newSlot(t, s)
}

// load takes a training batch through all steps.
func load(ctx context.Context, s *packed.Store, sl *packed.Slot, i int) error {
	err := s.Start(sl, i)
	if err == nil {
		err = s.LoadGraph(ctx, sl)
	}
	if err != nil {
		return errors.Join(err, s.Wait(ctx, sl))
	}
	if err := s.Wait(ctx, sl); err != nil {
		return err
	}
	return s.Assemble(ctx, sl)
}

// checkMin holds every batch of two rounds of a pack of policy min against its sample,
// and the evaluation's in between. With a GPU, that holds so much of the cache.
func (w *world) checkMin(t fataler, stack iostack.Stack, gpu *cuda.Device, share float64) {
	t.Helper()
	ctx := context.Background()
	s, sl := w.openMinOn(t, stack, gpu, share)
	defer s.Close()
	defer sl.Free()
	if _, err := s.Preload(ctx, progress.Discard); err != nil {
		t.Fatal(err)
	}
	var want graph.Batch
	var buf []byte
	for round := range 2 {
		for i := range w.reader.Facts().Train {
			if err := load(ctx, s, sl, i); err != nil {
				t.Fatal(round, i, err)
			}
			var err error
			if buf, err = w.samples.Read(ctx, i, buf, &want); err != nil {
				t.Fatal(err)
			}
			w.holds(t, &want, sl.Batch(), w.matrix(t, sl, gpu), func(i int) uint32 { return w.node[sl.Batch().Input[i]] })
			if sl.UsefulBytes > sl.BytesRead {
				t.Fatal("more useful bytes than read:", sl.UsefulBytes, sl.BytesRead)
			}
		}
		w.checkEval(t, s, gpu)
	}
}

// TestMinResume fills the cache for every batch in turn: it must be what it is when
// training comes there from the beginning, or from the end of the circle.
func TestMinResume(t *testing.T) {
	stack := newStack(t)
	for _, c := range []struct{ dtype, codec string }{{"same", "none"}, {"bf16", "none"}, {"same", "s2"}, {"int8", "zstd"}} {
		w := buildMin(t, c.dtype, c.codec)
		s, sl := w.openMin(t, stack)
		resumed, other := w.openMin(t, stack)
		preload(t, s)
		n := w.reader.Facts().Train
		for i := range n + 5 {
			if i%n == 0 && i > 0 {
				// The rows go home with the first batch.
				if _, err := s.PreloadFor(t.Context(), 0, progress.Discard); err != nil {
					t.Fatal(err)
				}
			}
			if c.codec != "none" && i%7 != 0 && i%n > 2 {
				if err := load(t.Context(), s, sl, i%n); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if _, err := resumed.PreloadFor(t.Context(), i%n, progress.Discard); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.Cache(), resumed.Cache()) {
				t.Fatalf("%v: another cache when training goes on with batch %d", c, i)
			}
			if err := load(t.Context(), s, sl, i%n); err != nil {
				t.Fatal(err)
			}
			if err := load(t.Context(), resumed, other, i%n); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.Cache(), resumed.Cache()) {
				t.Fatalf("%v: another cache after batch %d", c, i)
			}
		}
		for _, sl := range []*packed.Slot{sl, other} {
			sl.Free()
		}
		_, _ = s.Close(), resumed.Close()
	}
}

// TestMinOnGPU: the batches are right whose cache is changed by the GPU that holds a part of
// it, none, or all, at whichever batch training goes on, and around the circle.
func TestMinOnGPU(t *testing.T) {
	gpu := cudatest.Open(t)
	for _, c := range []struct{ dtype, codec string }{{"same", "none"}, {"bf16", "none"}, {"int8", "zstd"}} {
		w := buildMin(t, c.dtype, c.codec)
		n := w.reader.Facts().Train
		for _, share := range []float64{0, 0.4, 1} {
			for _, stack := range []iostack.Stack{newStack(t), &toDevice{Stack: newStack(t), gpu: gpu, landed: make(map[*iostack.Group][]landing)}} {
				w.checkMin(t, stack, gpu, share)
				s, sl := w.openMinOn(t, stack, gpu, share)
				for first := 0; first < n; first += 1 + n/12 {
					if _, err := s.PreloadFor(t.Context(), first, progress.Discard); err != nil {
						t.Fatal(err)
					}
					for i := first; i < first+6; i++ {
						if err := load(t.Context(), s, sl, i%n); err != nil {
							t.Fatal(err)
						}
						w.matrixOf(t, i%n, sl.Batch(), nil)(matrix(t, sl, gpu))
					}
				}
				// Far around: rows of the table were moved by what the last record says.
				for i := n - 2; i < 2*n+3; i++ {
					if i == n-2 {
						if _, err := s.PreloadFor(t.Context(), i, progress.Discard); err != nil {
							t.Fatal(err)
						}
					}
					if err := load(t.Context(), s, sl, i%n); err != nil {
						t.Fatal(err)
					}
					w.matrixOf(t, i%n, sl.Batch(), nil)(matrix(t, sl, gpu))
				}
				sl.Free()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestMinAround goes around the circle without filling the cache again.
func TestMinAround(t *testing.T) {
	w := buildMin(t, "same", "none")
	stack := newStack(t)
	s, sl := w.openMin(t, stack)
	defer s.Close()
	defer sl.Free()
	preload(t, s)
	n := w.reader.Facts().Train
	var after []byte
	for i := range 2*n + 1 {
		if err := load(t.Context(), s, sl, i%n); err != nil {
			t.Fatal(err)
		}
		if i%n != 0 {
			continue
		}
		if i > 0 && !bytes.Equal(after, s.Cache()) {
			t.Fatal("another cache after a round")
		}
		after = bytes.Clone(s.Cache())
	}
}

// TestMinOrder: batches come in the pack's order, and after an interruption the cache is
// filled again.
func TestMinOrder(t *testing.T) {
	w := buildMin(t, "same", "none")
	stack := newStack(t)
	s, sl := w.openMin(t, stack)
	defer s.Close()
	defer sl.Free()
	if err := load(t.Context(), s, sl, 0); err == nil {
		t.Error("a batch is assembled before the cache is filled")
	}
	if _, err := s.PreloadFor(t.Context(), 7, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if err := load(t.Context(), s, sl, 8); err == nil {
		t.Error("a batch is left out")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := load(ctx, s, sl, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := load(t.Context(), s, sl, 7); err != nil {
		t.Error(err)
	}
	if _, err := s.PreloadFor(ctx, 70, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := load(t.Context(), s, sl, 8); err == nil {
		t.Error("a batch is assembled after the cache was given up")
	}
}

// TestMinEveryRead is everyRead of a training that goes on in its middle.
func TestMinEveryRead(t *testing.T) {
	w := buildMin(t, "same", "none")
	// A graph is read from the page on where its blocks begin, and the bytes before are not used.
	everyRead(t, faultio.Flip(-4, 0x10), func(stack iostack.Stack) error {
		s, sl := w.openMin(t, stack)
		_, err := s.PreloadFor(t.Context(), packfile.RefillBatches+2, progress.Discard)
		sl.Free()
		return errors.Join(err, s.Close())
	})
}

// TestMinDamage changes and cuts the files of refill records.
func TestMinDamage(t *testing.T) {
	w := buildMin(t, "bf16", "none")
	stack := newStack(t)
	fill := func() error {
		r, err := packfile.Open(vfs.OS, w.pack)
		if err != nil {
			return err
		}
		l, err := packed.Plan(r, packed.PlanOptions{Memory: 1 << 30, Slots: 1})
		if err != nil {
			return err
		}
		s, err := packed.Open(vfs.OS, r, stack, l)
		if err != nil {
			return err
		}
		_, err = s.PreloadFor(t.Context(), packfile.RefillBatches, progress.Discard)
		return errors.Join(err, s.Close())
	}
	for _, name := range []string{packfile.RefillFile, packfile.RefillSums} {
		path := filepath.Join(w.pack, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at <= len(b); at += 13 {
			bad := bytes.Clone(b)
			if at+13 > len(b) {
				bad = bad[:len(b)-1]
			} else {
				bad[at] ^= 0x20
			}
			if err := os.WriteFile(path, bad, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := fill(); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "refill") {
				t.Errorf("%s, byte %d: %v", name, at, err)
			}
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill(); err != nil {
		t.Error(err)
	}
}

// A cache that RAM and the GPU share has the pack's size together.
func TestMinPlanOnGPU(t *testing.T) {
	w := buildMin(t, "same", "none")
	gpu := cudatest.Open(t)
	rows := func(n int64) *budget.Size { return &budget.Size{Value: float64(n * int64(w.reader.Facts().RowBytes))} }
	for _, c := range []struct {
		ram, gpu *budget.Size
		onGPU    int64
		kind     error
	}{
		{nil, nil, 18, nil},
		{nil, rows(5), 5, nil},
		{rows(13), rows(5), 5, nil},
		{rows(18), rows(5), 5, nil}, // more than is needed
		{rows(12), rows(5), 0, fault.ErrBudget},
		{rows(0), nil, 18, nil},
		{nil, rows(0), 0, nil},
		{rows(19), rows(0), 0, fault.ErrUsage},
	} {
		o := packed.PlanOptions{Cache: c.ram, Memory: 1 << 30, Slots: 1, GPU: gpu, GPUMemory: 1 << 30, GPUCache: c.gpu, MostSlots: 1}
		l, err := packed.Plan(w.reader, o)
		if !errors.Is(err, c.kind) || err == nil && (l.CacheRows != 18 || l.GPURows != c.onGPU) {
			t.Errorf("%v in RAM, %v on the GPU: %+v, %v; want %d there, %v", c.ram, c.gpu, l, err, c.onGPU, c.kind)
		}
	}
}

func TestMinPlan(t *testing.T) {
	w := buildMin(t, "same", "none")
	row := float64(w.reader.Facts().RowBytes)
	pct := func(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }
	for _, c := range []struct {
		cache  *budget.Size
		memory int64
		kind   error
	}{
		{nil, 1 << 30, nil},
		{pct(20), 1 << 30, nil},
		{&budget.Size{Value: 18 * row}, 1 << 30, nil},
		{pct(10), 1 << 30, fault.ErrBudget},
		{pct(30), 1 << 30, fault.ErrUsage},
		{nil, 4096, fault.ErrBudget},
	} {
		l, err := packed.Plan(w.reader, packed.PlanOptions{Cache: c.cache, Memory: c.memory, Slots: 1})
		if !errors.Is(err, c.kind) || err == nil && l.CacheRows != 18 {
			t.Errorf("cache %v: %+v, %v; want %v", c.cache, l, err, c.kind)
		}
	}
}

// TestMinKeeps: by hand, the memory of a cache that changes: 16 bytes for every entry and, if rows are decompressed and
// widened, the most rows that a batch admits, in packed form.
func TestMinKeeps(t *testing.T) {
	for _, c := range []struct {
		dtype, codec string
		kept         bool
	}{{"same", "none", false}, {"bf16", "none", false}, {"same", "s2", false}, {"int8", "s2", true}} {
		w := buildMin(t, c.dtype, c.codec)
		want, most := 16*w.reader.Facts().HotRows, 0
		for i := range w.reader.Index().Train {
			most = max(most, w.reader.Index().Train[i].Bands[1])
		}
		if c.kept {
			want += int64(most * w.reader.Facts().RowBytes)
		}
		if got := plan(t, w).KeepBytes; got != want || most == 0 {
			t.Errorf("%s, %s: %d bytes, want %d", c.dtype, c.codec, got, want)
		}
	}
}
