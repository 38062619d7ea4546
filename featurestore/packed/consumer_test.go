package packed_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// remote plans a store that leaves the given number of rows to a consumer, with all of the other hot rows in RAM.
func (w *world) remote(t *testing.T, rows int64) packed.Layout {
	t.Helper()
	l, err := packed.Plan(w.reader, packed.PlanOptions{GPUCache: &budget.Size{Value: float64(rows * 4 * int64(w.reader.Facts().Dim))},
		Memory: 1 << 30, Slots: 1, EvalSlots: 1, Hold: featurestore.Hold{Memory: 1 << 20, Validations: 3}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// everyBatch loads all batches, and passes on their slots. before is called before each.
func everyBatch(t *testing.T, w *world, s *packed.Store, before func(*packed.Slot), loaded func(*packed.Slot)) {
	t.Helper()
	f := w.reader.Facts()
	train, err := s.NewSlot()
	if err != nil {
		t.Fatal(err)
	}
	defer train.Free()
	eval, err := s.NewEvalSlot()
	if err != nil {
		t.Fatal(err)
	}
	defer eval.Free()
	for i := range f.Epochs * f.BatchesPerEpoch {
		before(train)
		if err := load(t.Context(), s, train, i); err != nil {
			t.Fatal(err)
		}
		loaded(train)
	}
	for i := range f.Valid + f.Test {
		before(eval)
		if err := s.LoadEval(t.Context(), eval, i >= f.Valid, i%f.Valid); err != nil {
			t.Fatal(err)
		}
		loaded(eval)
	}
}

// TestRemote: the rows of a consumer, to a band edge or of the first ranks, are left out of every matrix, and the consumer's
// table completes it. The host does not hold these rows, and reads no more than with all of them.
func TestRemote(t *testing.T) {
	for name, w := range map[string]*world{"float32": small(t, "same"), "bfloat16": small(t, "bf16"), "shared rows": sharing(t), "held": holdingWorld(t, 20), "chunks": chunkedWorld(t, 256, 20, "int8")} {
		f, stack := w.reader.Facts(), newStack(t)
		plain := w.open(t, stack, w.remote(t, 0))
		if _, err := plain.Preload(t.Context(), progress.Discard); err != nil {
			t.Fatal(err)
		}
		var whole [][]float32
		var reads []int64
		everyBatch(t, w, plain, func(*packed.Slot) {}, func(sl *packed.Slot) {
			whole, reads = append(whole, slices.Clone(sl.X())), append(reads, sl.Counts().BytesRead)
		})
		if err := plain.Close(); err != nil {
			t.Fatal(err)
		}
		left := 0
		edges := w.reader.Index().Edges
		least := edges[len(edges)-1]
		for _, wanted := range []int64{1, least / 2, least, least + 1, edges[0] - 1, edges[0]} {
			l, rows := w.remote(t, wanted), wanted
			for _, e := range slices.Backward(edges) {
				if e <= wanted {
					rows = e
				}
			}
			before := device.HostBytes()
			s := w.open(t, stack, l)
			held := device.HostBytes() - before
			if n := l.RAMBytes + l.HeldBytes; l.GPURows != rows || held > n+device.PageSize || held < n {
				t.Fatalf("%s, %d rows: %d bytes of %d, %d rows", name, rows, held, n, l.GPURows)
			}
			if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
				t.Fatal(err)
			}
			var table []float32
			read, err := s.RemoteRows(t.Context(), progress.Discard, func(x []float32) error {
				if n := device.HostBytes() - before - held; n > l.KeepBytes || n == 0 {
					t.Errorf("%s, %d rows: a piece takes %d bytes of %d", name, rows, n, l.KeepBytes)
				}
				table = append(table, x...)
				return nil
			})
			if err != nil || int64(len(table)) != rows*int64(f.Dim) || read < rows*int64(f.RowBytes) {
				t.Fatalf("%s, %d rows: %d numbers, %d bytes read, %v", name, rows, len(table), read, err)
			}
			i := 0
			everyBatch(t, w, s, func(sl *packed.Slot) {
				for k := range binio.View[float32](sl.Matrix()) {
					binio.View[float32](sl.Matrix())[k] = float32(math.Inf(1))
				}
			}, func(sl *packed.Slot) {
				b, x := sl.Batch(), sl.X()
				n := 0
				for k, rank := range b.Input {
					if int64(rank) >= rows {
						continue
					}
					row := x[k*f.Dim : (k+1)*f.Dim]
					if !math.IsInf(float64(row[0]), 1) {
						t.Fatalf("%s, %d rows: row %d of batch %d was written", name, rows, k, i)
					}
					copy(row, table[int(rank)*f.Dim:])
					n++
				}
				c := sl.Counts()
				if left += n; c.GPURows != n || c.BytesRead != reads[i] {
					t.Fatalf("%s, %d rows, batch %d: %d rows left out, %+v; %d bytes read without", name, rows, i, n, c, reads[i])
				}
				if !slices.Equal(x, whole[i]) {
					t.Fatalf("%s, %d rows: batch %d differs", name, rows, i)
				}
				i++
			})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if left == 0 {
			t.Errorf("%s: no row is left to a consumer", name)
		}
	}
}

// TestRemotePieces: rows of more than a piece come in order, each once; an error and the end of the context end them; and
// a changed byte is found.
func TestRemotePieces(t *testing.T) {
	w := holdingWorld(t, 20)
	defer packed.SetPiece(3000)() // of two rows
	stack := newStack(t)
	s := w.open(t, stack, w.remote(t, 9))
	defer s.Close()
	var pieces []int
	var table []float32
	keep := func(x []float32) error {
		pieces, table = append(pieces, len(x)/256), append(table, x...)
		return nil
	}
	if _, err := s.RemoteRows(t.Context(), progress.Discard, keep); err != nil || !slices.Equal(pieces, []int{2, 2, 2, 2, 1}) {
		t.Fatalf("pieces of %v rows, %v", pieces, err)
	}
	hot, err := os.ReadFile(filepath.Join(w.pack, packfile.HotFile))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(table, binio.View[float32](hot[:9*1024])) {
		t.Error("the rows are others than the file's")
	}
	enough := errors.New("enough")
	pieces = nil
	if _, err := s.RemoteRows(t.Context(), progress.Discard, func(x []float32) error { return errors.Join(keep(x), enough) }); !errors.Is(err, enough) || len(pieces) != 1 {
		t.Errorf("%d pieces, %v", len(pieces), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.RemoteRows(ended, progress.Discard, keep); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	hot[8*1024+5] ^= 1
	if err := os.WriteFile(filepath.Join(w.pack, packfile.HotFile), hot, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RemoteRows(t.Context(), progress.Discard, keep); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), packfile.HotFile) {
		t.Errorf("a changed byte: %v", err)
	}
}

// TestRemoteRefused: the cache of policy min has no rows for a consumer; a share above all rows is all hot rows.
func TestRemoteRefused(t *testing.T) {
	half := &budget.Size{Value: 50, Unit: budget.UnitPercent}
	o := packed.PlanOptions{GPUCache: half, Memory: 1 << 30, Slots: 1}
	c, err := packed.Find(vfs.OS, buildMin(t, "same", "").pack)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--policy static") {
		t.Errorf("policy min: %v", err)
	}
	w := small(t, "same")
	if l := w.remote(t, 1<<30); l.GPURows != w.reader.Facts().HotRows || l.RAMBytes != 0 {
		t.Errorf("all rows: %d of %d, %d bytes in RAM", l.GPURows, w.reader.Facts().HotRows, l.RAMBytes)
	}
}
