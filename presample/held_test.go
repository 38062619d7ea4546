//go:build linux

package presample

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/internal/progress"
)

// TestRunsTellAndLetGo: what a run logs of how it began, the rates it reports, and that
// neither a finished nor an interrupted one keeps files or mappings.
func TestRunsTellAndLetGo(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t, dir)
	letGo := func(when string) {
		t.Helper()
		if files, maps := limittest.OpenFiles(t, dir), limittest.Mapped(t, dir); len(files)+maps != 0 {
			t.Errorf("%s: %v are open, %d mapped", when, files, maps)
		}
	}
	run := func(o Options) (Result, string) {
		t.Helper()
		log := new(logger)
		r, err := Run(t.Context(), disk, o, log)
		if err != nil {
			t.Fatal(err)
		}
		if n := float64(r.Batches - r.Resumed); r.BatchesPerSecond != n/r.SampleSeconds || r.Resumed == 0 && r.EdgesPerSecond != float64(r.Edges)/r.SampleSeconds {
			t.Errorf("%d of %d batches, %d edges in %g s: %g and %g a second", r.Batches-r.Resumed, r.Batches, r.Edges, r.SampleSeconds, r.BatchesPerSecond, r.EdgesPerSecond)
		}
		return r, log.String()
	}
	interrupt := func(o Options) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		c := &canceller{Reporter: progress.Discard, cancel: cancel}
		c.left.Store(20)
		if _, err := Run(ctx, disk, o, c); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		letGo("interrupted")
	}
	if _, log := run(o); strings.Contains(log, "resuming") || strings.Contains(log, "discarding") {
		t.Errorf("a new run: %q", log)
	}
	letGo("finished")

	o.Out = filepath.Join(dir, "resumed")
	interrupt(o)
	r, log := run(o)
	if want := fmt.Sprintf("resuming: %d of %d batches are sampled already", r.Resumed, r.Batches); r.Resumed < 8 || !strings.Contains(log, want) {
		t.Errorf("resumed: %q, want %q", log, want)
	}
	letGo("resumed")

	o.Out = filepath.Join(dir, "begun again")
	interrupt(o)
	o.Seed, o.Force = o.Seed+1, true
	if r, log := run(o); r.Resumed != 0 || !strings.Contains(log, "discarding") || strings.Contains(log, "resuming") {
		t.Errorf("begun again with another seed: %q", log)
	}
}

// spoiler calls spoil when a message with the given words is logged.
type spoiler struct {
	logger
	at    string
	spoil func()
}

func (s *spoiler) Logf(format string, args ...any) {
	if strings.Contains(format, s.at) {
		s.spoil()
	}
	s.logger.Logf(format, args...)
}

// TestPlanMeetsADamagedTopology: little memory has the plan draw a batch, which finds
// that the file has shrunk.
func TestPlanMeetsADamagedTopology(t *testing.T) {
	o := overlapOptions(t, t.TempDir())
	o.Workers, o.Memory = 64, budget.Reserve+4<<20
	log := &spoiler{at: "by locality", spoil: func() {}}
	if _, err := Run(t.Context(), disk, o, log); err != nil || !strings.Contains(log.String(), "--memory allows") {
		t.Fatalf("the memory is no little: %v, log %q", err, log.String())
	}
	o.Out += "2"
	log = &spoiler{at: "by locality", spoil: func() { _ = os.Truncate(filepath.Join(o.Dataset, "indices.bin"), 0) }}
	_, err := Run(t.Context(), disk, o, log)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "indices.bin") || strings.Contains(log.String(), "--memory allows") {
		t.Errorf("%v, log %q", err, log.String())
	}
}
