package epoch

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/train/collective"
)

// told returns the number of events so far that begin with the words.
func (w *world) told(words string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if strings.HasPrefix(e, words) {
			n++
		}
	}
	return n
}

// TestLoadsAhead: before an epoch's last batch is computed, the first validation batch of the epoch begins;
// before a validation ends, so do the first batches of the next epoch, one in every slot. No epoch
// that is not validated begins a validation, and nothing begins twice, also if training stops early.
func TestLoadsAhead(t *testing.T) {
	for name, c := range map[string]struct {
		every, patience int
		begun           [4]int // batches of training, validations of epochs 0, 1, 2
	}{
		"every epoch":     {1, 0, [4]int{9, 1, 1, 1}},
		"every other one": {2, 0, [4]int{9, 0, 1, 1}},
		"stopped early":   {1, 1, [4]int{6 + 2, 1, 1, 0}},
	} {
		w := newWorld(t)
		w.recipe.Epochs, w.plan.Epochs, w.recipe.ValidateEvery, w.recipe.Patience = 3, 3, c.every, c.patience
		w.scores, w.begun = []int{5, 4, 4}, true
		await := func(what string, n int) {
			for range 10_000_000 {
				if w.told(what) >= n {
					return
				}
				runtime.Gosched()
			}
			t.Fatalf("%s: %q does not come %d times: %q", name, what, n, w.events)
		}
		epoch, validations := 0, 0
		w.on = func(e string) {
			switch {
			case strings.HasPrefix(e, "computed 2"): // the last of the epoch
				if validations += c.begun[1+epoch]; validations > w.told("validating") {
					await("evaluation begun: validation", validations)
				}
			case e == "evaluated" && w.told("testing") == 0 && epoch < 2:
				await("begun", 3*(epoch+1)+2)
			case strings.HasPrefix(e, "judged"):
				epoch++
			}
		}
		w.must()
		if n := w.told("begun"); n != c.begun[0] {
			t.Errorf("%s: %d batches of training are begun, want %d", name, n, c.begun[0])
		}
		if n, want := w.told("evaluation begun: validation"), c.begun[1]+c.begun[2]+c.begun[3]; n != want || w.told("evaluation begun: test") != 2 {
			t.Errorf("%s: %d validation batches are begun, want %d: %q", name, n, want, w.events)
		}
	}
}

// TestWritesBehind: an epoch's weights and checkpoint are written while the next epoch trains, from copies:
// the checkpoint is the one of a run that waits for its writes.
func TestWritesBehind(t *testing.T) {
	plain := newWorld(t)
	plain.on = func(string) {
		if err := plain.dir.Wait(); err != nil {
			t.Error(err)
		}
	}
	plain.must()
	w := newWorld(t)
	w.begin()
	w.dir.Sources = func() error { // before each write
		for range 10_000_000 {
			if w.told("computed 1,") > 1 { // the second batch of the second epoch
				return nil
			}
			runtime.Gosched()
		}
		return errors.New("training waits for the write")
	}
	w.must()
	if d := cmp.Diff(stands(plain.checkpoints()), stands(w.checkpoints())); d != "" {
		t.Error(d)
	}
	for i, c := range plain.checkpoints() {
		if d := cmp.Diff(c.Sections, w.checkpoints()[i].Sections); d != "" {
			t.Errorf("checkpoint %d: %s", i, d)
		}
	}
}

// TestFailsBehind: a write that fails ends the run after the next step.
func TestFailsBehind(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.dir.Sources = func() error { return errBroken }
	w.on = func(s string) {
		for n := 0; strings.HasPrefix(s, "computed 0,") && w.told("computed 0,") > 1 && !w.dir.Failed(); n++ {
			if runtime.Gosched(); n > 10_000_000 {
				t.Fatal("no write fails")
			}
		}
	}
	if err := w.run(context.Background(), collective.One(), nil); !errors.Is(err, errBroken) || w.told("computed") != 4 {
		t.Errorf("%v: %q", err, w.events)
	}
}
