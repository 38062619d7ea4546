package pipeline_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/pipeline"
)

// TestTableByHand: a link of two workers, busy for 12 seconds, would take six alone.
func TestTableByHand(t *testing.T) {
	read, compute := pipeline.LinkTime{Link: "read", Workers: 2, Busy: 12, Blocked: 3}, pipeline.LinkTime{Link: "compute", Workers: 1, Busy: 8, Blocked: 1}
	for _, c := range []struct {
		table    pipeline.Table
		bound    string
		slowdown float64
		shares   [2]float64
		text     string
	}{
		{pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{read, compute}}, "compute", 1.25, [2]float64{0.6, 0.8}, "read 60% | compute 80%, bound by compute 1.25×"},
		{pipeline.Table{Seconds: 10, Links: []pipeline.LinkTime{compute, read}}, "compute", 1.25, [2]float64{0.8, 0.6}, "compute 80% | read 60%, bound by compute 1.25×"},
		{pipeline.Table{Seconds: 1, Links: []pipeline.LinkTime{{Link: "a", Workers: 1, Busy: 0.5}, {Link: "b", Workers: 1, Busy: 0.5}}}, "a", 2, [2]float64{0.5, 0.5}, "a 50% | b 50%, bound by a 2.00×"}, // of equals the first
		{pipeline.Table{Seconds: 4, Links: []pipeline.LinkTime{read, compute}}, "compute", 0.5, [2]float64{1.5, 2}, "read 150% | compute 200%, bound by compute 0.50×"},
		{pipeline.Table{Links: []pipeline.LinkTime{{Link: "a", Workers: 1}, {Link: "b", Workers: 1}}}, "a", 0, [2]float64{}, "a 0% | b 0%"},
	} {
		if got := c.table.Bound().Link; got != c.bound {
			t.Errorf("%s: bound by %s", c.text, got)
		}
		if got := c.table.Slowdown(); got != c.slowdown {
			t.Errorf("%s: slowdown %v, want %v", c.text, got, c.slowdown)
		}
		for i, want := range c.shares {
			if got := c.table.Share(c.table.Links[i]); got != want {
				t.Errorf("%s: share %v of link %d, want %v", c.text, got, i, want)
			}
		}
		if got := c.table.String(); got != c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
	}
	sum := pipeline.Table{Items: 1, Seconds: 2, Links: []pipeline.LinkTime{{Link: "read", Workers: 2, Busy: 1, Blocked: 5}, {Link: "compute", Workers: 1, Busy: 2}}}
	sum.Add(pipeline.Table{Items: 3, Seconds: 10, Links: []pipeline.LinkTime{read, compute}})
	want := pipeline.Table{Items: 4, Seconds: 12, Links: []pipeline.LinkTime{{Link: "read", Workers: 2, Busy: 13, Blocked: 8}, {Link: "compute", Workers: 1, Busy: 10, Blocked: 1}}}
	if d := cmp.Diff(want, sum); d != "" {
		t.Error(d)
	}
}
