package packed_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/faultio"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// chunkedWorld is a pack with chunks of validation batches, and rows of evaluation in eval.bin, in hot.bin and
// in the least cache.
func chunkedWorld(t testing.TB, dim, batch int, dtype string) *world {
	t.Helper()
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: dim, Seed: 3}.Raw(),
		presample.Options{BatchSize: batch, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, Bands: []float64{50, 20}, DType: dtype, Memory: 1 << 30, Workers: 1, EvalChunks: true})
	t.Cleanup(w.close)
	return w
}

// missing returns, for a validation batch, the range of rows of its matrix that a layout has not in memory, by
// hand: nodes of eval.bin by place, then hot ones by descending rank.
func (w *world) missing(t testing.TB, l packed.Layout, batch int) (begin, end int) {
	t.Helper()
	f := w.reader.Facts()
	rank := make([]int64, f.Nodes)
	for r, v := range w.node {
		rank[v] = int64(r)
	}
	places := map[uint32]bool{}
	var own []uint32
	for i := range f.Valid + f.Test {
		nodes, _, err := w.samples.Inputs(t.Context(), f.Train+i, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range nodes {
			if rank[v] >= f.HotRows {
				places[v] = true
			}
		}
		if i == batch {
			own = nodes
		}
	}
	var eval []uint32
	for v := range places {
		eval = append(eval, v)
	}
	slices.Sort(eval)
	for _, v := range own {
		if place, ok := slices.BinarySearch(eval, v); ok && int64(place) < l.HeldEval {
			begin++
		}
		if rank[v] >= l.CacheRows+l.HeldHot {
			end++
		}
	}
	return begin, end
}

// TestEvalChunkReads: a validation batch reads one range of its chunk, whole pages, from the row on that
// begins a page: every row that is not in memory, and no more. More memory never reads more, and holds hot
// rows first.
func TestEvalChunkReads(t *testing.T) {
	stack := newStack(t)
	for _, c := range []struct {
		dim, row, period int
		dtype            string
	}{{256, 1024, 4, "same"}, {25, 100, 1024, "same"}, {9, 18, 2048, "bf16"}, {512, 516, 1024, "int8"}, {1024, 4096, 1, "same"}} {
		w := chunkedWorld(t, c.dim, 20, c.dtype)
		f := w.reader.Facts()
		none := planHolding(t, w, 0, 9)
		beyond, rb := f.HotRows-none.CacheRows, int64(f.RowBytes)
		all := (f.EvalRows+beyond)*rb + 3*4096
		if f.RowBytes != c.row || beyond < 20 || f.EvalRows < 50 || f.Valid < 2 {
			t.Fatalf("%+v", f)
		}
		read := int64(1 << 40)
		for _, memory := range []int64{0, 4 * 4096, beyond*rb/2 + 3*4096, beyond*rb + 3*4096, all - 5*rb, all} {
			l := planHolding(t, w, memory, 9)
			if l.HeldBytes > memory || l.HeldEval > 0 && l.HeldHot < beyond {
				t.Fatalf("in %d bytes: %+v", memory, l)
			}
			s := w.open(t, stack, l)
			if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
				t.Fatal(err)
			}
			sl, err := s.NewEvalSlot()
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for i := range f.Valid {
				if err := s.LoadEval(t.Context(), sl, false, i); err != nil {
					t.Fatal(err)
				}
				begin, end := w.missing(t, l, i)
				want, requests, useful := int64(0), int64(1), int64(w.reader.Index().Valid[i].GraphBytes())
				if begin < end {
					begin -= begin % c.period
					useful += int64(end-begin) * rb
					want, requests = binio.AlignUp(int64(end-begin)*rb, binio.Page), 2
				}
				got := sl.Counts()
				if got.BytesRead-got.GraphRead != want || got.Requests != requests || got.UsefulBytes != useful || got.RAMRows != len(sl.Batch().Input)-max(0, end-begin) {
					t.Errorf("rows of %d bytes in %d bytes, batch %d: %+v, want %d bytes for rows %d to %d", rb, memory, i, got, want, begin, end)
				}
				sum += want
			}
			if sum > read {
				t.Errorf("in %d bytes, %d bytes are read, in less memory %d", memory, sum, read)
			}
			read = sum
			sl.Free()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			w.hold = featurestore.Hold{Memory: memory, Validations: 9}
			w.check(t, stack, len(w.reader.Index().Edges)-1, nil, 0)
		}
		if read != 0 {
			t.Errorf("with all rows in memory, %d bytes are read", read)
		}
	}
}

// TestEvalChunksWithoutCache: a store for evaluation alone has no cache. Rows that are in no chunk, as a
// trainer always holds them, come from hot.bin.
func TestEvalChunksWithoutCache(t *testing.T) {
	stack := newStack(t)
	for _, dtype := range []string{"same", "int8"} {
		w := chunkedWorld(t, 25, 20, dtype)
		for _, hold := range []int64{0, 5 * 4096, 1 << 30} {
			s, err := packed.Open(vfs.OS, w.reader, stack, packed.PlanEval(w.reader, hold))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
				t.Fatal(err)
			}
			w.hold.Memory = hold
			w.checkEval(t, s, nil)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEvalChunksPay: chunks have no more bytes than their rows. So a file is held only if batches use more rows
// of it than it has, and one validation never pays for its own rows.
func TestEvalChunksPay(t *testing.T) {
	w := chunkedWorld(t, 256, 400, "same") // one batch of each split
	f := w.reader.Facts()
	index := w.reader.Index()
	index.Test = nil
	e := &index.Valid[0]
	beyond := f.HotRows - index.Edges[len(index.Edges)-1]
	e.Rows, e.Inputs = int(f.EvalRows/4), int(f.EvalRows/4)+int(f.HotRows)
	e.Cold = e.Rows + int(beyond/4)
	for validations := range 6 {
		wantEval, wantHot := int64(0), int64(0)
		if validations == 5 {
			wantEval, wantHot = f.EvalRows, beyond
		}
		if l := planHolding(t, w, 1<<30, validations); l.HeldEval != wantEval || l.HeldHot != wantHot {
			t.Errorf("%d validations of a quarter of the rows: %d of %d rows of eval.bin are held, %d of %d of hot.bin", validations, l.HeldEval, f.EvalRows, l.HeldHot, beyond)
		}
	}
}

// TestEvalChunksForged: an index, facts and graphs that do not fit together are refused, though all checksums
// are right.
func TestEvalChunksForged(t *testing.T) {
	w := chunkedWorld(t, 25, 20, "same")
	facts, form := w.reader.Facts(), w.reader.Form()
	reencode := func(f *forgery, change func(x *packfile.Index)) {
		x, err := packfile.DecodeIndex(f.files[packfile.IndexFile], form)
		if err != nil {
			t.Fatal(err)
		}
		change(x)
		if f.files[packfile.IndexFile], err = x.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	least := w.reader.Index().Edges[2]
	for name, c := range map[string]func(f *forgery){
		"":                     func(*forgery) {},
		"more rows":            func(f *forgery) { f.set("eval_cold_rows", facts.EvalColdRows+1) },
		"without a parameter":  func(f *forgery) { delete(f.params, "eval_chunks") },
		"of an older version":  func(f *forgery) { f.meta.Format.Version = 4 },
		"without in the index": func(f *forgery) { reencode(f, func(x *packfile.Index) { x.EvalChunks = false }) },
		"of an older version, without a parameter": func(f *forgery) {
			delete(f.params, "eval_chunks")
			f.meta.Format.Version = 2
		},
		"a cold row too few": func(f *forgery) {
			reencode(f, func(x *packfile.Index) { x.Valid[1].Cold-- })
			f.set("eval_cold_rows", facts.EvalColdRows-1)
		},
		"a cold row too many": func(f *forgery) {
			reencode(f, func(x *packfile.Index) { x.Valid[1].Cold++ })
			f.set("eval_cold_rows", facts.EvalColdRows+1)
		},
		"an edge above a row": func(f *forgery) { reencode(f, func(x *packfile.Index) { x.Edges[2] = least + 30 }) },
	} {
		f := forge(t, w.pack)
		c(f)
		out := filepath.Join(t.TempDir(), "P")
		f.write(t, out)
		r, err := packfile.Open(vfs.OS, out)
		if err == nil {
			var b graph.Batch
			graphs := f.files[packfile.EvalGraphFile]
			for i := range r.Index().Valid {
				e := &r.Index().Valid[i]
				err = errors.Join(err, r.DecodeEvalGraph(e, packfile.Everything, graphs[e.GraphOffset:][:e.GraphBytes()], &b))
			}
		}
		if (err == nil) != (name == "") || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestEvalChunkGivenUp: a batch that was given up leaves nothing that the next one could take for its own.
func TestEvalChunkGivenUp(t *testing.T) {
	w := chunkedWorld(t, 25, 20, "same")
	boom := errors.New("boom")
	s := w.open(t, faultio.Wrap(newStack(t), faultio.On(faultio.Nth(1, faultio.File("eval-cold.bin")), faultio.Fail(boom))), planHolding(t, w, 0, 9))
	defer s.Close()
	if _, err := s.Preload(t.Context(), progress.Discard); err != nil {
		t.Fatal(err)
	}
	slot, err := s.View(0).NewSlot(true)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Free()
	valid := featurestore.Ref{Split: featurestore.Valid}
	for _, want := range []error{nil, boom, nil} {
		if err := errors.Join(slot.Start(valid), slot.LoadGraph(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := slot.Wait(t.Context()); !errors.Is(err, want) {
			t.Fatal(err)
		}
		clear(slot.Matrix())
		if err := slot.Start(valid); err != nil {
			t.Fatal(err)
		}
		if err := slot.Wait(t.Context()); err != nil { // given up before its graph
			t.Fatal(err)
		}
	}
}

// TestEvalChunkSums: the tables of checksums in memory count the pages of chunks.
func TestEvalChunkSums(t *testing.T) {
	w := chunkedWorld(t, 256, 20, "same")
	table := func() int64 {
		c, err := packed.Find(vfs.OS, w.pack)
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, EvalSlots: 1, Least: true})
		if err != nil {
			t.Fatal(err)
		}
		return l.TableBytes
	}
	f := w.reader.Facts()
	chunks, _ := w.reader.File("eval-cold.bin")
	if want := ((f.HotRows+f.EvalRows)*1024 + chunks.Size) / 4096 * 4; table() != want || chunks.Size == 0 {
		t.Errorf("%d bytes of checksums, want %d", table(), want)
	}
}
