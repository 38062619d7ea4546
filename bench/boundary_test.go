package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBoundaries: the times between the last batch of a pipeline and the first one of the other, whatever the
// order of the trace.
func TestBoundaries(t *testing.T) {
	gaps, err := boundaries([]byte(`{"traceEvents":[
		{"ph":"M","name":"thread_name","args":{"name":"train compute 1"}},
		{"ph":"X","name":"evaluate compute 1","ts":3500,"dur":500},
		{"ph":"X","name":"train compute 1","ts":0,"dur":1000},
		{"ph":"X","name":"train compute 1","ts":1500,"dur":1000},
		{"ph":"X","name":"evaluate read features 1","ts":2600,"dur":100},
		{"ph":"X","name":"train compute 1","ts":4250,"dur":1000}]}`))
	if d := cmp.Diff(map[string][]float64{"evaluate": {1}, "train": {0.25}}, gaps); d != "" || err != nil {
		t.Errorf("%v, %s", err, d)
	}
	if _, err := boundaries([]byte("{")); err == nil {
		t.Error("no trace")
	}
}
