package packed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/presample"
)

// holdingWorld is a pack with rows of evaluation in eval.bin, in hot.bin and in the least cache: rows of
// 1024 bytes, so that a page has four.
func holdingWorld(t testing.TB, batch int) *world {
	t.Helper()
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 256, Seed: 3}.Raw(),
		presample.Options{BatchSize: batch, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, Bands: []float64{50, 20}, DType: "same", Memory: 1 << 30, Workers: 1})
	t.Cleanup(w.close)
	return w
}

// planHolding is the layout of the least cache with memory for held rows.
func planHolding(t testing.TB, w *world, memory int64, validations int) packed.Layout {
	t.Helper()
	edges, f := w.reader.Index().Edges, w.reader.Facts()
	l, err := packed.Plan(w.reader, packed.PlanOptions{Cache: &budget.Size{Value: float64(edges[len(edges)-1] * int64(f.RowBytes))},
		Memory: 1 << 30, Slots: 1, EvalSlots: 1, Hold: featurestore.Hold{Memory: memory, Validations: validations}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestHoldMemory: held rows stay within every memory, more memory holds more rows and never reads more, and
// all other memory is as without.
func TestHoldMemory(t *testing.T) {
	w := holdingWorld(t, 20)
	f := w.reader.Facts()
	none := planHolding(t, w, 0, 9)
	beyond := f.HotRows - none.CacheRows
	if none.HeldBytes != 0 || beyond < 50 || f.EvalRows < 50 {
		t.Fatalf("%+v, %d hot rows beyond the cache, %d rows of evaluation", none, beyond, f.EvalRows)
	}
	all := (f.EvalRows+beyond)*1024 + 3*device.PageSize
	stack, held, read := newStack(t), int64(-1), int64(1<<40)
	for _, memory := range []int64{0, 1, 4096, 4 * 4096, 50 * 1024, all / 2, all - 1024, all, 1 << 30} {
		l := planHolding(t, w, memory, 9)
		rows := l.HeldEval + l.HeldHot
		if l.HeldBytes > memory || rows < held || l.HeldEval < f.EvalRows && l.HeldHot > 0 {
			t.Fatalf("in %d bytes: %+v", memory, l)
		}
		if whole := memory >= all; whole != (l.HeldEval == f.EvalRows && l.HeldHot == beyond) || whole != (l.EvalSlotBytes < none.EvalSlotBytes) {
			t.Errorf("in %d of %d bytes, %d and %d rows are held, in slots of %d bytes", memory, all, l.HeldEval, l.HeldHot, l.EvalSlotBytes)
		}
		before := device.HostBytes()
		s := w.open(t, stack, l)
		if n := device.HostBytes() - before; n > l.RAMBytes+l.HeldBytes+device.PageSize || n < l.HeldBytes {
			t.Errorf("%d bytes are held of %d and %d", n, l.RAMBytes, l.HeldBytes)
		}
		filled, err := s.Preload(t.Context(), progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		pages := func(rows int64) int64 { return binio.AlignUp(rows*1024, binio.Page) }
		if want := min(pages(l.CacheRows+l.HeldHot), f.HotRows*1024) + min(pages(l.HeldEval), f.EvalRows*1024); filled != want {
			t.Errorf("filling read %d bytes instead of %d", filled, want)
		}
		sl, err := s.NewEvalSlot()
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for i := range f.Valid + f.Test {
			if err := s.LoadEval(t.Context(), sl, i >= f.Valid, i%f.Valid); err != nil {
				t.Fatal(err)
			}
			c := sl.Counts()
			sum += c.BytesRead
			if memory >= all && (c.BytesRead != c.GraphRead || c.Requests != 1 || c.RAMRows != len(sl.Batch().Input)) {
				t.Errorf("with all rows in memory, a batch of %d reads %+v", len(sl.Batch().Input), c)
			}
		}
		if sum > read {
			t.Errorf("in %d bytes, %d bytes are read, in less memory %d", memory, sum, read)
		}
		held, read = rows, sum
		sl.Free()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		w.hold = featurestore.Hold{Memory: memory, Validations: 9}
		w.check(t, stack, len(w.reader.Index().Edges)-1, nil, 0)
	}
}

// TestHoldPays: a file is held if the batches of the whole job read more bytes from it than it has.
func TestHoldPays(t *testing.T) {
	w := holdingWorld(t, 400) // one batch of each split
	f := w.reader.Facts()
	if f.Valid != 1 || f.Test != 1 {
		t.Fatalf("%d validation batches, %d test batches", f.Valid, f.Test)
	}
	for validations, want := range []bool{false, true, true} {
		l := planHolding(t, w, 1<<30, validations)
		if (l.HeldEval > 0) != want || (l.HeldHot > 0) != want {
			t.Errorf("%d validations: %d rows of eval.bin and %d of hot.bin are held", validations, l.HeldEval, l.HeldHot)
		}
	}
	// A batch reads a page for each of its rows, at most: of two small batches, not the whole of a large file.
	index := w.reader.Index()
	index.Valid[0].Rows, index.Test[0].Rows = int(f.EvalRows/8), int(f.EvalRows/8)-1
	if l := planHolding(t, w, 1<<30, 1); l.HeldEval > 0 || l.HeldHot == 0 {
		t.Errorf("%d rows of eval.bin and %d of hot.bin are held for batches of few rows", l.HeldEval, l.HeldHot)
	}
	if l := planHolding(t, w, 1<<30, 2); l.HeldEval != f.EvalRows {
		t.Errorf("%d rows of eval.bin are held for batches of few rows, loaded thrice", l.HeldEval)
	}
}

// TestHoldDamage changes a byte in every page of the files with held rows: Fill finds it.
func TestHoldDamage(t *testing.T) {
	w := holdingWorld(t, 20)
	stack := newStack(t)
	l := planHolding(t, w, 1<<30, 9)
	for _, name := range []string{"eval.bin", "hot.bin"} {
		path := filepath.Join(w.pack, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 5; at < len(good); at += binio.Page {
			bad := append([]byte(nil), good...)
			bad[at] ^= 4
			if err := os.WriteFile(path, bad, 0o666); err != nil {
				t.Fatal(err)
			}
			s := w.open(t, stack, l)
			if _, err = s.Preload(t.Context(), progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Errorf("byte %d of %s: %v", at, name, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, good, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
