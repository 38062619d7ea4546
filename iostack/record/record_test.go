package record_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/device"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
	"diskgnn/iostack/iostacktest"
	"diskgnn/iostack/pread"
	"diskgnn/iostack/record"
)

func open(t testing.TB) iostack.Stack {
	t.Helper()
	s, err := pread.New(iostack.Options{Workers: 4, MaxIO: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	iostacktest.Run(t, func(t *testing.T) iostack.Stack { return record.Wrap(open(t)) })
}

// file makes a file of so many bytes, which the stack opens.
func file(t testing.TB, s iostack.Stack, name string, bytes int64) iostack.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// submit submits a read of n bytes at each offset.
func submit(t testing.TB, s iostack.Stack, g *iostack.Group, f iostack.File, n int, offsets ...int64) {
	t.Helper()
	var reqs []iostack.Request
	for _, off := range offsets {
		reqs = append(reqs, iostack.Request{File: f, Offset: off, Buf: make([]byte, n)})
	}
	if err := s.Submit(g, reqs); err != nil {
		t.Fatal(err)
	}
}

func wait(t testing.TB, s iostack.Stack, ctx context.Context, g *iostack.Group) {
	t.Helper()
	if err := s.Wait(ctx, g); err != nil {
		t.Fatal(err)
	}
}

var ignoreOrder = cmpopts.IgnoreUnexported(record.Read{})

func same(t *testing.T, what string, b *record.Batch, want ...record.Read) {
	t.Helper()
	if d := cmp.Diff(want, b.Reads(), cmpopts.EquateEmpty(), ignoreOrder); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// TestBatches: groups of two batches cross, and each batch has its own requests, in the order
// in which they were submitted, whichever group was waited for first.
func TestBatches(t *testing.T) {
	s := record.Wrap(open(t))
	defer s.Close()
	a, b := file(t, s, "a", 1000), file(t, s, "b", 2000)
	x, y := record.NewBatch(0), record.NewBatch(8)
	var graph, rows, other, cache iostack.Group
	submit(t, s, &rows, b, 10, 100, 50)
	submit(t, s, &other, a, 7, 1)
	submit(t, s, &cache, a, 1000, 0)
	submit(t, s, &graph, a, 20, 5)
	submit(t, s, &rows, b, 10, 200)
	submit(t, s, &rows, b, 0, 300) // no byte: no read
	ctx := t.Context()
	wait(t, s, x.Context(ctx), &graph)
	wait(t, s, ctx, &cache)
	wait(t, s, y.Context(ctx), &other)
	wait(t, s, x.Context(ctx), &rows)
	same(t, "x", x,
		record.Read{Offset: 100, Bytes: 10, File: 0}, record.Read{Offset: 50, Bytes: 10, File: 0},
		record.Read{Offset: 5, Bytes: 20, File: 1}, record.Read{Offset: 200, Bytes: 10, File: 0})
	same(t, "y", y, record.Read{Offset: 1, Bytes: 7, File: 1})
	files := s.Files(0)
	if len(files) != 2 || files[0].Name != b.Name() || files[0].Size != 2000 || files[1].Name != a.Name() || files[1].Size != 1000 {
		t.Error(files)
	}
	if direct, _ := a.Direct(); files[1].Direct != direct {
		t.Error("direct:", files[1].Direct)
	}
	if more := s.Files(1); len(more) != 1 || more[0] != files[1] {
		t.Error(more)
	}

	x.Reset()
	same(t, "x after Reset", x)
	if x.Waited() != 0 {
		t.Error("it has waited", x.Waited())
	}
	again, err := s.Open(b.Name()) // another opening of a file is the same file
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	submit(t, s, &rows, again, 3, 9)
	wait(t, s, x.Context(ctx), &rows)
	same(t, "x again", x, record.Read{Offset: 9, Bytes: 3, File: 0})
	if x.Waited() <= 0 {
		t.Error("it has not waited")
	}

	// Lists that groups had are others' now.
	x.Reset()
	y.Reset()
	var fresh iostack.Group
	submit(t, s, &fresh, a, 1, 11)
	submit(t, s, &rows, b, 2, 12)
	submit(t, s, &graph, b, 3, 13)
	wait(t, s, y.Context(ctx), &fresh)
	wait(t, s, x.Context(ctx), &rows)
	wait(t, s, x.Context(ctx), &graph)
	same(t, "x with lists of others", x, record.Read{Offset: 12, Bytes: 2, File: 0}, record.Read{Offset: 13, Bytes: 3, File: 0})
	same(t, "y with lists of others", y, record.Read{Offset: 11, Bytes: 1, File: 1})
}

// What failed, and what was dropped, is no batch's, then and later.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	s := record.Wrap(faultio.Wrap(open(t), faultio.On(faultio.Nth(2, faultio.Always()), faultio.Fail(boom))))
	defer s.Close()
	f := file(t, s, "f", 1000)
	b := record.NewBatch(0)
	var g iostack.Group
	submit(t, s, &g, f, 10, 0, 10, 20)
	if err := s.Wait(b.Context(t.Context()), &g); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	same(t, "after a failure", b)
	if err := s.Submit(&g, []iostack.Request{{File: nil, Buf: make([]byte, 1)}}); err == nil {
		t.Fatal("a request without a file")
	}
	submit(t, s, &g, f, 10, 30)
	wait(t, s, b.Context(t.Context()), &g)
	same(t, "after another", b, record.Read{Offset: 30, Bytes: 10})
}

// Slots that read side by side each get their own.
func TestSlotsSideBySide(t *testing.T) {
	s := record.Wrap(open(t))
	defer s.Close()
	f := file(t, s, "f", 100_000)
	var wg sync.WaitGroup
	for slot := range 8 {
		wg.Go(func() {
			b := record.NewBatch(4)
			var groups [3]iostack.Group
			for round := range 20 {
				b.Reset()
				var want []record.Read
				for i := range groups {
					off := int64(slot*1000 + round*40 + i)
					submit(t, s, &groups[i], f, 1+i, off, off+100)
					want = append(want, record.Read{Offset: off, Bytes: int64(1 + i)}, record.Read{Offset: off + 100, Bytes: int64(1 + i)})
				}
				for i := range groups {
					wait(t, s, b.Context(t.Context()), &groups[len(groups)-1-i])
				}
				same(t, "a slot", b, want...)
			}
		})
	}
	wg.Wait()
}

// idle is a stack that reads nothing, at no allocation.
type idle struct{ iostack.Stack }

func (idle) Submit(*iostack.Group, []iostack.Request) error { return nil }
func (idle) Wait(context.Context, *iostack.Group) error     { return nil }

type none struct{ iostack.File }

func (none) Name() string           { return "f" }
func (none) Size() int64            { return 1 << 20 }
func (none) Direct() (bool, string) { return true, "" }

func TestNoAllocation(t *testing.T) {
	s, b := record.Wrap(idle{}), record.NewBatch(200)
	reqs := make([]iostack.Request, 100)
	buf := make([]byte, 512)
	one, two := &none{}, &none{}
	for i := range reqs {
		reqs[i] = iostack.Request{File: one, Offset: int64(i) * 512, Buf: buf}
		if i%2 == 1 {
			reqs[i].File = two
		}
	}
	var groups [2]iostack.Group
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		for i := range groups {
			if err := s.Submit(&groups[i], reqs); err != nil {
				t.Fatal(err)
			}
		}
		for i := range groups {
			if err := s.Wait(b.Context(ctx), &groups[i]); err != nil {
				t.Fatal(err)
			}
		}
		if len(b.Reads()) != 200 {
			t.Fatal(len(b.Reads()))
		}
		b.Reset()
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

func BenchmarkSubmit(b *testing.B) {
	s, batch := record.Wrap(idle{}), record.NewBatch(1<<10)
	reqs := make([]iostack.Request, 256)
	f, buf := &none{}, make([]byte, 4096)
	for i := range reqs {
		reqs[i] = iostack.Request{File: f, Offset: int64(i) * 4096, Buf: buf}
	}
	var g iostack.Group
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Submit(&g, reqs)
		_ = s.Wait(batch.Context(ctx), &g)
		batch.Reset()
	}
}

// failing is a stack whose registrations fail.
type failing struct{ iostack.Stack }

var errRegister = errors.New("no memory to lock")

func (failing) Register(...[]byte) error                { return errRegister }
func (failing) Unregister(...[]byte) error              { return errRegister }
func (failing) RegisterDevice(...device.Buffer) error   { return errRegister }
func (failing) UnregisterDevice(...device.Buffer) error { return errRegister }

// What the wrapped stack refuses is refused.
func TestRegistrationFails(t *testing.T) {
	s := record.Wrap(failing{})
	for what, err := range map[string]error{
		"register": s.Register(nil), "unregister": s.Unregister(nil), "register device": s.RegisterDevice(), "unregister device": s.UnregisterDevice(),
	} {
		if !errors.Is(err, errRegister) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
