package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	stacks "diskgnn/iostack/all"
	"diskgnn/train/rundir"
)

// driving replaces the measurement of the drive by rates, and counts measurements in n.
func driving(n *int, rate float64, single time.Duration, err error) func(*parts) {
	return func(p *parts) {
		p.drive = func(context.Context, iostack.Stack, string, uint64) (float64, time.Duration, error) {
			*n++
			return rate, single, err
		}
	}
}

// TestMeasuredAccumulator: a run measures the drive once, records the number and trains with it. A resumed run does
// not measure again, but for a user who asks for it.
func TestMeasuredAccumulator(t *testing.T) {
	w := newWorld(t, worldParams{})
	whole := w.options("", w.paging, func(o *Options) { o.Accumulator, o.Given = rundir.Measure, []string{"accumulator", "ram-cache"} })
	var measured int
	slow := driving(&measured, 1000, 10*time.Millisecond, nil)
	var log logged
	r, err := w.run(t.Context(), whole, &log, slow)
	if err != nil || measured != 1 || r.Accumulator != 190 { // 19 · 1000/s · 0.01 s
		t.Fatalf("%d measurements, %d accesses, %v", measured, r.Accumulator, err)
	}
	const says = "accumulator: batches are read together until they have more than 190 accesses: the drive serves 1000 pages a second, and a single one in 10ms"
	if !strings.Contains(log.String(), says) {
		t.Errorf("reported %v", log.String())
	}
	o := w.fresh(whole)
	o.Accumulator = "190"
	w.mustRun(o, slow)
	if a, b := w.ending(whole.Out), w.ending(o.Out); a != b || measured != 1 {
		t.Errorf("%d measurements; a run with the number ends as %+v, with measure as %+v", measured, b, a)
	}

	o = w.fresh(whole)
	w.interrupt(o, 4, slow)
	again := Options{Stores: builtin, Out: o.Out, Resume: true}
	if r, err = w.run(t.Context(), again, progress.Discard, slow); err != nil || measured != 2 || r.Accumulator != 190 {
		t.Errorf("resumed: %d measurements, %d accesses, %v", measured, r.Accumulator, err)
	}

	o = w.fresh(whole)
	o.Dataset += "-moved"
	if _, err := w.run(t.Context(), o, progress.Discard, slow); !errors.Is(err, fault.ErrInput) || measured != 2 {
		t.Errorf("no dataset: %d measurements, %v", measured, err)
	}
	broken := errors.New("broken")
	if _, err := w.run(t.Context(), w.fresh(whole), progress.Discard, driving(&measured, 0, 0, broken)); !errors.Is(err, broken) || !strings.Contains(err.Error(), "measure the drive for --accumulator") {
		t.Errorf("a broken drive: %v", err)
	}
}

// TestMeasureDrive: a measurement of one pass reads each page once, and then single ones.
func TestMeasureDrive(t *testing.T) {
	stack, _, err := stacks.Open(quick, iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 5*binio.Page), 0o600); err != nil {
		t.Fatal(err)
	}
	measure := measureDrive(driverate.Effort{})
	rate, single, err := measure(t.Context(), stack, file, 1)
	if n := stack.Stats().Requests; err != nil || rate <= 0 || single <= 0 || n != 5+singles {
		t.Errorf("%v a second, %v a page, after %d reads: %v", rate, single, n, err)
	}
	if err := os.Truncate(file, binio.Page-1); err != nil {
		t.Fatal(err)
	}
	if rate, single, err = measure(t.Context(), stack, file, 1); !errors.Is(err, fault.ErrInput) || rate != 0 || single != 0 {
		t.Errorf("less than a page: %v, %v, %v", rate, single, err)
	}
}
