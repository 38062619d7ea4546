package pack_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
)

func minOptions(ds, samples, out string) pack.Options {
	o := options(ds, samples, out)
	o.Policy, o.Cache = packfile.PolicyMin, &budget.Size{Value: 20, Unit: budget.UnitPercent}
	return o
}

// TestMinSameBytes packs under policy min with different numbers of workers, budgets
// and ranges.
func TestMinSameBytes(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	ref := filepath.Join(vfstest.TempDir(t), "ref")
	res, err := pack.Run(t.Context(), disk, minOptions(ds, samples, ref), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if res.HotRows != 24 || res.Segments <= packfile.RefillBatches || res.ColdRows == 0 || res.EvalRows == 0 {
		t.Fatalf("the graph does not exercise every file: %+v", res)
	}
	want := contents(t, ref)
	for _, workers := range []int{1, 7} {
		for _, rows := range []int64{0, 17} {
			o := minOptions(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
			o.Workers, o.RangeRows = workers, rows
			if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			same(t, o.Out, contents(t, o.Out), want)
		}
	}
	r, err := packfile.Open(vfs.OS, ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(t.Context(), vfs.OS, progress.Discard); err != nil {
		t.Error(err)
	}
	// By hand: a row of a chunk is listed in 4 bytes, and an access has 8 in the trace of the simulation and a code of 4.
	accesses := int64(0)
	for i := range r.Index().Train {
		accesses += int64(r.Index().Train[i].Inputs)
	}
	if want := res.DiskBytes + 4*res.ColdRows + (8+4)*accesses; res.BytesWritten != want {
		t.Errorf("%d bytes are written, want %d", res.BytesWritten, want)
	}
}

// TestMinEveryFailure fails one write operation of a run, anywhere in it, and checks that the next run ends
// with the same bytes.
func TestMinEveryFailure(t *testing.T) {
	small := graphOf
	small.Nodes = 40
	ds, samples := inputs(t, small)
	o := minOptions(ds, samples, filepath.Join(vfstest.TempDir(t), "ref"))
	o.RangeRows = 15
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	want := contents(t, o.Out)
	if failing(t, o, want, 5, func(n int) *vfs.FailAt { return &vfs.FailAt{N: n, After: n%2 == 0} }) == 0 {
		t.Error("no run was resumed")
	}
}

// TestMinTouched removes, cuts and changes the list of the cache's first content, which
// an interrupted run left.
func TestMinTouched(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	boom := errors.New("boom")
	for what, touch := range map[string]func(name string, b []byte) error{
		"removed": func(name string, b []byte) error { return os.Remove(name) },
		"cut":     func(name string, b []byte) error { return os.WriteFile(name, b[:5], 0o666) },
		"changed": func(name string, b []byte) error {
			b[len(b)/2] ^= 1
			return os.WriteFile(name, b, 0o666)
		},
	} {
		o := minOptions(ds, samples, filepath.Join(vfstest.TempDir(t), "P"))
		in := &vfs.FailAt{Err: boom, Match: func(op vfs.Op, name string) bool {
			return op == vfs.OpCreate && filepath.Base(name) == packfile.IndexFile
		}}
		if _, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		name := filepath.Join(o.Out+".partial", "min-slots.tmp")
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := touch(name, b); err != nil {
			t.Fatal(err)
		}
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "min-slots.tmp") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
