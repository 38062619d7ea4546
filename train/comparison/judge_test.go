package comparison

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/train/rundir"
)

// TestJudge names the fastest store only where two rounds of enough epochs tell.
func TestJudge(t *testing.T) {
	few := func(batches int, seconds ...float64) *rundir.Result {
		r := run(seconds...)
		for i := range r.Epochs {
			r.Epochs[i].Batches = batches
		}
		return r
	}
	cut := &variant{name: "no-pipeline", w: small.w}
	rows := func(name string, runs ...*rundir.Result) Store {
		return summarize(&row{store: name, of: small, runs: runs})
	}
	failed := summarize(&row{store: "memory", of: small, failed: errors.New("too little")})
	for name, c := range map[string]struct {
		stores        []Store
		fastest, says string
	}{
		"two rounds":                 {[]Store{rows("a", run(9, 1), run(9, 1.5)), rows("b", run(9, 2), run(9, 1.6))}, "a", ""},
		"the other":                  {[]Store{rows("a", run(9, 3), run(9, 4)), rows("b", run(9, 2), run(9, 2.5)), failed}, "b", ""},
		"the first epoch alone":      {[]Store{rows("a", run(1), run(1)), rows("b", run(2), run(2))}, "a", ""},
		"rounds that overlap":        {[]Store{rows("a", run(9, 1), run(9, 2)), rows("b", run(9, 2), run(9, 3))}, "", "the times of rounds of a and of b overlap"},
		"overlap of the third":       {[]Store{rows("a", run(9, 1), run(9, 2)), rows("b", run(9, 8), run(9, 9)), rows("c", run(9, 1.9), run(9, 30))}, "", "rounds of a and of c"},
		"one round":                  {[]Store{rows("a", run(9, 1), run(9, 1)), rows("b", run(9, 2))}, "", "the variation between rounds needs two rounds"},
		"one store":                  {[]Store{rows("a", run(9, 1), run(9, 1)), failed}, "", "a comparison needs two stores"},
		"none":                       {[]Store{failed}, "", "a comparison needs two stores"},
		"an ablation is no rival":    {[]Store{rows("a", run(9, 3), run(9, 3)), rows("b", run(9, 4), run(9, 4)), summarize(&row{store: "a", of: cut, runs: []*rundir.Result{run(9, 1)}})}, "a", ""},
		"short":                      {[]Store{rows("a", run(9, 0.5, 0.6), run(9, 0.5, 0.499)), rows("b", run(9, 2), run(9, 2))}, "", "in a round of a, an epoch has 20 batches and the compared epochs take 999 ms; the minimum is 20 batches and 1.00 s (more seed nodes or a smaller --batch-size, and more --epochs)"},
		"short of many epochs":       {[]Store{rows("a", run(9, 0.5, 0.5), run(9, 0.5, 0.5)), rows("b", run(9, 2), run(9, 2))}, "a", ""},
		"few batches":                {[]Store{rows("a", run(9, 1), run(9, 1)), rows("b", few(20, 9, 2), few(19, 9, 2))}, "", "in a round of b, an epoch has 19 batches and the compared epochs take 2.00 s"},
		"two batches an epoch":       {[]Store{rows("a", few(2, 9, 1), few(2, 9, 1)), rows("b", few(2, 9, 2), few(2, 9, 2))}, "", "an epoch has 2 batches"},
		"many epochs of few batches": {[]Store{rows("a", few(19, 9, 1, 1), few(19, 9, 1, 1)), rows("b", run(9, 2, 2), run(9, 2, 2))}, "", "in a round of a, an epoch has 19 batches"},
	} {
		r := Result{Stores: c.stores}
		r.judge()
		if r.Fastest != c.fastest || (r.Undecided == "") != (c.says == "") || !strings.Contains(r.Undecided, c.says) {
			t.Errorf("%s: %q, %q", name, r.Fastest, r.Undecided)
		}
		text := show3(t, &r)
		if named := strings.Contains(text, "the fastest store"); named != (c.fastest != "") || named != strings.Contains(text, " is the fastest: ") {
			t.Errorf("%s: the page names one: %t", name, named)
		}
		if c.says != "" && len(r.ran()) > 0 && !strings.Contains(text, "No store is called the fastest: "+r.Undecided+".") {
			t.Errorf("%s: the page does not say why", name)
		}
	}
}
