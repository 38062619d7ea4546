package rundir

import "testing"

// TestIsTrace knows the names that traces are written under, and no others.
func TestIsTrace(t *testing.T) {
	for name, want := range map[string]bool{
		"trace.json": true, "trace-1.json": true, "trace-12.json": true,
		"trace-0.json": false, "trace-01.json": false, "trace--1.json": false, "trace-+1.json": false, "trace-1.json.tmp": false,
		"trace-.json": false, "trace-x.json": false, "trace": false, "mine.json": false, "": false,
	} {
		if got := isTrace(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
