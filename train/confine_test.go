package train

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// mapping is a store that leaves rows to the page cache.
type mapping struct {
	featurestore.Candidate
	worth bool // a cgroup is
}

func (m mapping) Confine(l featurestore.Layout) (featurestore.Layout, bool) {
	l.Note = "a cgroup"
	return l, m.worth
}

// plain is a store that does not.
type plain struct{ featurestore.Candidate }

// entered is a cgroup that knows whether the process left it.
type entered struct{ left int }

func (e *entered) Leave() error {
	e.left++
	return errors.New("busy")
}

// TestConfine: the process enters a cgroup of what was planned where that is wanted, worth it
// and granted, and what holds the page cache is said.
func TestConfine(t *testing.T) {
	no := errors.New("not delegated")
	for _, c := range []struct {
		how       string
		found     featurestore.Candidate
		grants    error
		entered   bool
		delegated bool
		holds     string
		note      string
		err       string
	}{
		{how: "auto", found: mapping{worth: true}, entered: true, delegated: true, holds: "cgroup", note: "a cgroup"},
		{how: "cgroup", found: mapping{worth: true}, entered: true, holds: "cgroup", note: "a cgroup"},
		{how: "auto", found: mapping{worth: true}, grants: no, entered: true, delegated: true, holds: "drop", note: "pages are dropped (no memory cgroup: not delegated)"},
		{how: "cgroup", found: mapping{worth: true}, grants: no, entered: true, err: "--page-cache cgroup: not delegated"},
		{how: "cgroup", found: mapping{}, holds: "drop", note: "pages are dropped"},
		{how: "drop", found: mapping{worth: true}, holds: "drop", note: "pages are dropped"},
		{how: "", found: mapping{worth: true}, holds: "drop", note: "pages are dropped"},
		{how: "auto", found: plain{}, note: "pages are dropped"},
	} {
		var log logged
		_, paged := c.found.(featurestore.Confinable)
		r := &runner{found: c.found, process: &process{report: &log}, decision: decide.Decision{Options: decide.Options{Resources: rundir.Resources{PageCache: c.how}},
			Facts: decide.Facts{Store: decide.Store{Paged: paged}}, Memory: decide.Memory{Total: 77, Layout: featurestore.Layout{Note: "pages are dropped"}}}}
		g, tried := &entered{}, false
		err := r.confine(func(limit int64, delegated bool) (group, error) {
			if tried = true; limit != 77 || delegated != c.delegated {
				t.Errorf("%s: a limit of %d, delegated: %t", c.how, limit, delegated)
			}
			if c.grants != nil {
				return nil, c.grants
			}
			return g, nil
		})
		if tried != c.entered || (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: tried: %t, %v", c.how, tried, err)
		}
		if err != nil {
			continue
		}
		if holds := r.setup().PageCache; holds != c.holds || r.decision.Memory.Layout.Note != c.note {
			t.Errorf("%s: %s holds it: %s", c.how, holds, r.decision.Memory.Layout.Note)
		}
		r.close()
		r.close()
		if want := map[bool]int{true: 1}[c.holds == "cgroup"]; g.left != want || (want > 0) != strings.Contains(log.String(), "busy") {
			t.Errorf("%s: left %d times: %s", c.how, g.left, log.String())
		}
	}
}

// TestPageCacheOptions: the flag is for stores that map rows.
func TestPageCacheOptions(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"--page-cache drop: the store packed does not map":   func(o *Options) { o.Pack, o.PageCache = "p", "drop" },
		"--page-cache much is not one of auto, cgroup, drop": func(o *Options) { o.Store, o.Dataset, o.Samples, o.PageCache = "mmap", "d", "s", "much" },
		"": func(o *Options) { o.Pack, o.PageCache = "p", "auto" },
	} {
		o := defaults()
		o.Out = "o"
		change(&o)
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
