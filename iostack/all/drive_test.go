package all

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
)

// TestBest compares every shape and returns one of the fastest.
func TestBest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	e := driverate.Effort{Drain: 6 * time.Millisecond, For: 10 * time.Millisecond}
	d := Drive{Kind: "pread", Paths: []string{path}}
	sweep, err := d.Best(t.Context(), e)
	if err != nil || len(sweep.All) != len(shapes) || sweep.First <= 0 {
		t.Fatalf("%+v, %v", sweep, err)
	}
	best, found := sweep.Best, sweep.All
	rate := 0.0
	for i, f := range found {
		if f.Shape != shapes[i] || f.PerSecond <= 0 {
			t.Errorf("shape %d: %+v", i, f)
		}
		if f.Shape == best {
			rate = f.PerSecond
		}
	}
	for _, f := range found {
		if f.PerSecond > rate {
			t.Errorf("%+v was chosen with %v bytes per second, %+v is faster", best, rate, f)
		}
	}
	if _, err := d.At(t.Context(), Shape{Block: 4096, Depth: 0}, e); err == nil {
		t.Error("no read in flight")
	}
	d.Paths = nil
	if _, err := d.Best(t.Context(), e); !errors.Is(err, fault.ErrInput) {
		t.Errorf("nothing to read: %v", err)
	}
	if total, want := SweepTime(driverate.Sustained), 13*time.Second+(3+6*1)*time.Second+5*500*time.Millisecond; total != want {
		t.Errorf("%v in all, want %v", total, want)
	}
}
