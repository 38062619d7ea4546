package iostack

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
)

// TestGroupReportsTheFirstInOrder ends the parts of requests in any order.
func TestGroupReportsTheFirstInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			g     Group
			parts []*ReadError
			want  *ReadError
		)
		for range rapid.IntRange(1, 3).Draw(t, "submits") {
			n := rapid.IntRange(1, 4).Draw(t, "requests")
			first := g.Add(n)
			for i := range n {
				for part := range rapid.IntRange(1, 3).Draw(t, "parts") {
					if part > 0 {
						g.Split()
					}
					var err *ReadError
					if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
						err = &ReadError{Index: first + i, At: int64(part), Err: errors.New("boom")}
						if want == nil {
							want = err
						}
					}
					parts = append(parts, err)
				}
			}
		}
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		for _, i := range rapid.Permutation(indices(len(parts))).Draw(t, "order") {
			if err := g.Await(cancelled); !errors.Is(err, context.Canceled) {
				t.Fatalf("Await with parts in flight: %v", err)
			}
			g.Done(parts[i])
		}
		if err := g.Await(cancelled); err != nil {
			t.Fatalf("Await of an ended group: %v", err)
		}
		switch err := g.Take(); {
		case want == nil && err != nil, want != nil && err != error(want):
			t.Fatalf("Take: %v, want %v", err, want)
		}
		if err := g.Take(); err != nil || g.Add(1) != 0 {
			t.Fatalf("the group was not emptied: %v", err)
		}
	})
}

func indices(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// TestGroupMisuseIsCaught: a backend that ends a part twice would let Wait
// return too early.
func TestGroupMisuseIsCaught(t *testing.T) {
	for name, misuse := range map[string]func(g *Group){
		"ended twice":     func(g *Group) { g.Add(1); g.Done(nil); g.Done(nil) },
		"taken in flight": func(g *Group) { g.Add(1); _ = g.Take() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse(new(Group))
		}()
	}
}

func TestErrors(t *testing.T) {
	err := &ReadError{File: "PACK/cold.bin", Offset: 8192, Length: 4096, Err: Truncated(4096, 904, 9096)}
	if want := "read PACK/cold.bin: 4096 bytes at 8192: file shrank or was truncated: 904 of 4096 bytes available, file size 9096"; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if !errors.Is(err, fault.ErrCorrupt) {
		t.Error("not of kind fault.ErrCorrupt")
	}
}

func TestOptions(t *testing.T) {
	var o Options
	if err := o.Validate(); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("zero values that were not replaced: %v", err)
	}
	o.EnsureDefaults()
	if err := o.Validate(); err != nil || o.Workers != 16 || o.MaxIO != 1<<20 || o.Direct != DirectAuto {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	for _, o := range []Options{
		{Workers: -1}, {Workers: 1 << 20}, {MaxIO: -4096}, {MaxIO: 1}, {MaxIO: 4097}, {MaxIO: 1<<30 + 4096}, {Direct: -1}, {Direct: 3},
	} {
		o.EnsureDefaults()
		if err := o.Validate(); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestNotify: a group says once that all of a Submit has ended, when Wait would not block, and
// may be used again by then.
func TestNotify(t *testing.T) {
	var g Group
	var errs []error
	g.Notify(func() {
		if err := g.Await(context.Background()); err != nil {
			t.Error(err)
		}
		errs = append(errs, g.Take())
	})
	boom := &ReadError{Index: 1, Err: errors.New("boom")}
	for _, err := range []*ReadError{boom, nil} {
		g.Add(3)
		g.Split()
		for _, err := range []*ReadError{nil, nil, err, nil} {
			g.Done(err)
		}
	}
	if len(errs) != 2 || !errors.Is(errs[0], error(boom)) || errs[1] != nil {
		t.Errorf("ended with %v", errs)
	}
}
