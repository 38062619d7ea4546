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
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
	"diskgnn/iostack/pread"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// small is a pack that has rows in every file. With int8, validation batches have chunks.
func small(t testing.TB, d string) *world {
	t.Helper()
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 40, Seed: 3}.Raw(),
		presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1},
		pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, Bands: []float64{40, 20}, DType: d, Memory: 1 << 30, Workers: 1, EvalChunks: d == "int8"})
	t.Cleanup(w.close)
	if f := w.reader.Facts(); f.HotRows == 0 || f.ColdRows == 0 || f.EvalRows == 0 || f.Valid == 0 {
		t.Fatalf("the pack leaves something empty: %+v", f)
	}
	return w
}

// sharing is a pack of int8 rows and compressed chunks whose batches share rows on
// disk.
func sharing(t testing.TB) *world {
	t.Helper()
	po := pack.Options{Cache: &budget.Size{Value: 10, Unit: budget.UnitPercent}, Bands: []float64{20}, DType: "int8", Compress: packfile.CodecS2, Memory: 1 << 30, Workers: 1}
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 1200, Seed: 3}.Raw(),
		presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1}, po)
	t.Cleanup(w.close)
	po.MaxDisk = &budget.Size{Value: 0.3}
	w.underBudget(t, po)
	if f := w.reader.Facts(); f.HotRows == 0 || f.ColdRows == 0 || f.SSDRows == 0 || f.EvalRows == 0 || f.Valid == 0 {
		t.Fatalf("the pack leaves something empty: %+v", f)
	}
	return w
}

func newStack(t testing.TB) iostack.Stack {
	t.Helper()
	s, err := pread.New(iostack.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// readEverything reads every byte that matters of a pack, at one cache size.
func readEverything(ctx context.Context, dir string, stack iostack.Stack, through int) error {
	return readParts(ctx, dir, stack, through, featurestore.Unused{})
}

// readParts is readEverything for a model that leaves parts of the batches unused.
func readParts(ctx context.Context, dir string, stack iostack.Stack, through int, unused featurestore.Unused) (err error) {
	r, err := packfile.Open(vfs.OS, dir)
	if err != nil {
		return err
	}
	cache := budget.Size{Value: float64(r.Index().Edges[through] * int64(r.Facts().RowBytes))}
	l, err := packed.Plan(r, packed.PlanOptions{Cache: &cache, Memory: 1 << 30, Slots: 1, EvalSlots: 1, Unused: unused})
	if err != nil {
		return err
	}
	s, err := packed.Open(vfs.OS, r, stack, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Preload(ctx, progress.Discard); err != nil {
		return err
	}
	sl, err := s.NewSlot()
	if err != nil {
		return err
	}
	defer sl.Free()
	for i := range r.Facts().Train {
		if err := load(ctx, s, sl, i); err != nil {
			return err
		}
	}
	ev, err := s.NewEvalSlot()
	if err != nil {
		return err
	}
	defer ev.Free()
	for i := range r.Facts().Valid + r.Facts().Test {
		test := i >= r.Facts().Valid
		if test {
			i -= r.Facts().Valid
		}
		if err := s.LoadEval(ctx, ev, test, i); err != nil {
			return err
		}
	}
	return nil
}

// verify opens a pack and checks every byte, gaps included.
func verify(ctx context.Context, dir string) error {
	r, err := packfile.Open(vfs.OS, dir)
	if err != nil {
		return err
	}
	return r.Verify(ctx, vfs.OS, progress.Discard)
}

// TestDamage changes bytes all over every file: each is found and named, or lies
// in a gap between aligned ranges, which nobody reads.
func TestDamage(t *testing.T) {
	stack := newStack(t)
	for _, w := range []*world{small(t, "same"), small(t, "int8"), sharing(t)} {
		last := len(w.reader.Index().Edges) - 1
		if err := errors.Join(readEverything(t.Context(), w.pack, stack, last), verify(t.Context(), w.pack)); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(w.pack)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() == stage.RunFile {
				continue
			}
			name := filepath.Join(w.pack, e.Name())
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found, tried := 0, 0
			for at := 0; at < len(b); at += max(1, len(b)/23) {
				gap := bytes.Count(b[at:min(at+8, len(b))], []byte{0}) == 8
				bad := bytes.Clone(b)
				bad[at] ^= 0x41
				if err := os.WriteFile(name, bad, 0o666); err != nil {
					t.Fatal(err)
				}
				if err := verify(t.Context(), w.pack); err == nil {
					t.Errorf("%s: byte %d of %d changed, which verifying did not find", e.Name(), at, len(b))
				}
				err := readEverything(t.Context(), w.pack, stack, last)
				tried++
				switch {
				case err == nil && !gap:
					t.Errorf("%s: byte %d changed unnoticed", e.Name(), at)
				case err != nil && !(errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrInput) || errors.Is(err, fault.ErrVersion)):
					t.Errorf("%s: byte %d: an error of another kind: %v", e.Name(), at, err)
				case err != nil && !strings.Contains(err.Error(), e.Name()) && e.Name() != stage.MetaFile:
					t.Errorf("%s: byte %d: the error names another file: %v", e.Name(), at, err)
				case err != nil:
					found++
				}
			}
			if found == 0 {
				t.Errorf("%s: none of %d changes was found", e.Name(), tried)
			}
			if err := os.WriteFile(name, b[:len(b)-2], 0o666); err != nil {
				t.Fatal(err)
			}
			if err := readEverything(t.Context(), w.pack, stack, last); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s truncated: %v", e.Name(), err)
			}
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// everyRead fails each request of read in turn, and flips a bit in what it gets: read must
// return the error, or one of damage.
func everyRead(t *testing.T, flip faultio.Effect, read func(iostack.Stack) error) {
	t.Helper()
	inner := newStack(t)
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		effect faultio.Effect
		want   error
	}{{"fail", faultio.Fail(boom), boom}, {"flip", flip, fault.ErrCorrupt}} {
		for n := 0; ; n++ {
			s := faultio.Wrap(inner, faultio.On(faultio.Nth(n, faultio.Always()), c.effect))
			err := read(s)
			if s.Injected() == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if n < 10 {
					t.Errorf("only %d requests", n)
				}
				break
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s request %d: %v", c.name, n, err)
			}
		}
	}
}

func TestEveryRead(t *testing.T) {
	for _, w := range []*world{small(t, "same"), small(t, "int8"), sharing(t)} {
		everyRead(t, faultio.Flip(100, 0x10), func(s iostack.Stack) error { return readEverything(t.Context(), w.pack, s, 0) })
	}
}

func TestPlan(t *testing.T) {
	w := small(t, "same")
	row := int64(w.reader.Facts().RowBytes)
	pct := func(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }
	for _, c := range []struct {
		cache  *budget.Size
		memory int64
		rows   int64
		kind   error
	}{
		{nil, 1 << 30, 36, nil},               // all that the pack holds as hot
		{pct(40), 1 << 30, 36, nil},           //
		{pct(99), 1 << 30, 36, nil},           // more than there is
		{pct(39), 1 << 30, 18, nil},           // rounded down to an edge
		{pct(10), 1 << 30, 9, nil},            //
		{pct(9), 1 << 30, 0, fault.ErrBudget}, // below the pack's least
		{pct(10), 4096, 0, fault.ErrBudget},   // does not fit
		{nil, 4096, 0, fault.ErrBudget},
	} {
		l, err := packed.Plan(w.reader, packed.PlanOptions{Cache: c.cache, Memory: c.memory, Slots: 2, EvalSlots: 1})
		if !errors.Is(err, c.kind) || l.CacheRows != c.rows {
			t.Errorf("cache %v in %d bytes: %d rows, %v; want %d, %v", c.cache, c.memory, l.CacheRows, err, c.rows, c.kind)
		}
	}
	// A budget between two sizes takes the smaller one, unasked.
	big, err := packed.Plan(w.reader, packed.PlanOptions{Memory: 1 << 30, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := packed.Plan(w.reader, packed.PlanOptions{Memory: big.RAMBytes + big.SlotBytes - 1, Slots: 1})
	if err != nil || l.CacheRows*row >= big.CacheRows*row || l.Note == "" {
		t.Errorf("a byte too little for %d rows: %d rows, note %q, %v", big.CacheRows, l.CacheRows, l.Note, err)
	}
}

func TestDTypesAreSmaller(t *testing.T) {
	a, b := small(t, "same").reader.Facts(), small(t, "bf16").reader.Facts()
	if a.DType != dtype.Float32 || b.DType != dtype.BFloat16 || a.RowBytes != 2*b.RowBytes {
		t.Errorf("rows of %d and %d bytes", a.RowBytes, b.RowBytes)
	}
}

// Evaluation rows are read in order, and what follows the first cached one is taken from
// the caches: a graph that names them in another order is damaged.
func TestEvalRowsOutOfOrder(t *testing.T) {
	w := small(t, "same")
	graphs, err := os.ReadFile(w.reader.Path(packfile.EvalGraphFile))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range w.reader.Index().Valid {
		var b graph.Batch
		if err := w.reader.DecodeEvalGraph(&e, packfile.Everything, graphs[e.GraphOffset:][:e.GraphBytes()], &b); err != nil {
			t.Fatal(err)
		}
		for k := range b.Input[1:] {
			b.Input[k], b.Input[k+1] = b.Input[k+1], b.Input[k]
			var got graph.Batch
			raw, sections := packfile.AppendEvalGraph(nil, nil, &b, e.Rows)
			b.Input[k], b.Input[k+1] = b.Input[k+1], b.Input[k]
			e.Graph = sections
			if err := w.reader.DecodeEvalGraph(&e, packfile.Everything, raw, &got); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("batch %d, input nodes %d and %d of %d in each other's place: %v", i, k, k+1, len(b.Input), err)
			}
		}
	}
}

// refusing is a stack that takes no reads of files of the SSD level while it refuses.
type refusing struct {
	iostack.Stack
	err error
}

func (s *refusing) Submit(g *iostack.Group, reqs []iostack.Request) error {
	if s.err != nil && strings.HasPrefix(filepath.Base(reqs[0].File.Name()), "ssd-") {
		return s.err
	}
	return s.Stack.Submit(g, reqs)
}

// TestRefusedRead: if the stack takes no reads of the SSD level, LoadGraph reports it, Wait finds no other error, and the
// slot is good for another batch.
func TestRefusedRead(t *testing.T) {
	w := sharingPlain(t, "same")
	stack := &refusing{Stack: newStack(t)}
	l := plan(t, w)
	s := w.open(t, stack, l)
	sl := ready(t, s)
	for i := range w.reader.Facts().Train {
		if w.reader.Index().Train[i].SSDRows(l.Through) == 0 {
			continue
		}
		stack.err = errors.New("boom")
		if err := s.Start(sl, i); err != nil {
			t.Fatal(err)
		}
		if err := s.LoadGraph(t.Context(), sl); !errors.Is(err, stack.err) {
			t.Errorf("batch %d: %v", i, err)
		}
		if err := s.Wait(t.Context(), sl); err != nil {
			t.Errorf("batch %d: after the refused read: %v", i, err)
		}
		stack.err = nil
		if err := load(t.Context(), s, sl, i); err != nil {
			t.Errorf("batch %d, again: %v", i, err)
		}
	}
	sl.Free()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
