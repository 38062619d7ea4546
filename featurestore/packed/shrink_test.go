package packed_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/featurestore/packed"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// matrices loads every batch of a pack once and returns their matrices, until one
// cannot be loaded.
func matrices(ctx context.Context, r *packfile.Reader, s *packed.Store) (list [][]byte, err error) {
	keep := func(sl *packed.Slot) { list = append(list, slices.Clone(binio.Bytes(sl.X()))) }
	sl, err := s.NewSlot()
	if err != nil {
		return nil, err
	}
	defer sl.Free()
	for i := range r.Facts().Train {
		if err := load(ctx, s, sl, i); err != nil {
			return list, err
		}
		keep(sl)
	}
	ev, err := s.NewEvalSlot()
	if err != nil {
		return list, err
	}
	defer ev.Free()
	for i := range r.Facts().Valid + r.Facts().Test {
		test, k := i >= r.Facts().Valid, i
		if test {
			k -= r.Facts().Valid
		}
		if err := s.LoadEval(ctx, ev, test, k); err != nil {
			return list, err
		}
		keep(ev)
	}
	return list, nil
}

// TestShrink cuts every file of packs, to several sizes, at several moments after the
// pack was opened: before the store is, before the caches are filled, before a batch
// first reads the file, and before it is opened again. Rows are those of the nodes, or
// there is an error; no row is taken from where none was read.
func TestShrink(t *testing.T) {
	stack := newStack(t)
	for _, w := range []*world{small(t, "same"), sharing(t), buildMin(t, "same", "none")} {
		through := len(w.reader.Index().Edges) - 1 // the least cache: most is read
		want, err := shrunk(t, w, stack, through, 0, func() {})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(w.pack)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if n := e.Name(); n == stage.MetaFile || n == stage.RunFile || n == packfile.IndexFile {
				continue // in memory since the pack was opened
			}
			name := filepath.Join(w.pack, e.Name())
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			noticed := false
			for _, size := range []int{0, binio.Page, 2 * binio.Page, len(b) - 1} {
				if size < 0 || size >= len(b) {
					continue
				}
				for moment := range 4 {
					got, err := shrunk(t, w, stack, through, moment, func() {
						if err := os.Truncate(name, int64(size)); err != nil {
							t.Error(err)
						}
					})
					what := fmt.Sprintf("%s cut to %d of %d bytes, moment %d", e.Name(), size, len(b), moment)
					noticed = noticed || err != nil
					switch {
					case err != nil && !errors.Is(err, fault.ErrCorrupt):
						t.Errorf("%s: an error of another kind: %v", what, err)
					case err == nil && len(got) != len(want):
						t.Errorf("%s: %d matrices of %d, and no error", what, len(got), len(want))
					}
					for i := range got {
						if !slices.Equal(got[i], want[i]) {
							t.Errorf("%s: batch %d has wrong rows", what, i)
							break
						}
					}
					restore(t, name, b)
				}
			}
			if !noticed {
				t.Errorf("%s: no cutting was noticed", e.Name())
			}
		}
	}
}

// restore writes a file again, in place: one that is emptied first, a file system may
// make durable.
func restore(t *testing.T, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shrunk loads all batches and calls cut at the given moment.
func shrunk(t *testing.T, w *world, stack iostack.Stack, through, moment int, cut func()) (_ [][]byte, err error) {
	t.Helper()
	r, err := packfile.Open(vfs.OS, w.pack)
	if err != nil {
		t.Fatal(err)
	}
	at := func(m int) {
		if m == moment {
			cut()
		}
	}
	at(0)
	cache := budget.Size{Value: float64(r.Index().Edges[through] * int64(r.Facts().RowBytes))}
	l, err := packed.Plan(r, packed.PlanOptions{Cache: &cache, Memory: 1 << 30, Slots: 1, EvalSlots: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := packed.Open(vfs.OS, r, stack, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.KeepIdle(0)
	at(1)
	if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
		return nil, err
	}
	at(2)
	if moment < 3 {
		return matrices(t.Context(), r, s)
	}
	list, err := matrices(t.Context(), r, s)
	if err != nil {
		return list, err
	}
	cut()
	if r.Params().Policy == packfile.PolicyMin { // the circle begins anew
		if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
			return list, err
		}
	}
	again, err := matrices(t.Context(), r, s)
	if err == nil {
		again = append(again, list[len(again):]...)
	}
	return again, err
}
