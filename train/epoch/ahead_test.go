package epoch

import (
	"runtime"
	"strings"
	"testing"
)

// TestLoadsAhead: before an epoch's last batch is computed, the first validation batch of the epoch begins;
// before a validation ends, so do the first batches of the next epoch, as many as there are slots. No epoch
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
		count := func(prefix string) (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, e := range w.events {
				if strings.HasPrefix(e, prefix) {
					n++
				}
			}
			return n
		}
		await := func(what string, n int) {
			for range 10_000_000 {
				if count(what) >= n {
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
				if validations += c.begun[1+epoch]; validations > count("validating") {
					await("evaluation begun: validation", validations)
				}
			case e == "evaluated" && count("testing") == 0 && epoch < 2:
				await("begun", 3*(epoch+1)+2)
			case strings.HasPrefix(e, "judged"):
				epoch++
			}
		}
		w.must()
		if n := count("begun"); n != c.begun[0] {
			t.Errorf("%s: %d batches of training are begun, want %d", name, n, c.begun[0])
		}
		if n, want := count("evaluation begun: validation"), c.begun[1]+c.begun[2]+c.begun[3]; n != want || count("evaluation begun: test") != 2 {
			t.Errorf("%s: %d validation batches are begun, want %d: %q", name, n, want, w.events)
		}
	}
}
