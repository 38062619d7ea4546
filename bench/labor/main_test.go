package main

import (
	"slices"
	"testing"
)

func TestSamplers(t *testing.T) {
	for name, want := range map[string][]string{
		"uniform":        nil,
		"labor":          {"--sampler", "labor"},
		"labor-16":       {"--sampler", "labor", "--batch-dependency", "16"},
		"labor-layer":    {"--sampler", "labor", "--layer-dependency"},
		"labor-layer-64": {"--sampler", "labor", "--layer-dependency", "--batch-dependency", "64"},
	} {
		if got, err := flagsOf(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "ladies", "uniform-16", "labor-", "labor-x", "labor-0", "labor16", "labor-layers"} {
		if got, err := flagsOf(name); err == nil {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestSummary: means over the seeds, beside the first sampler's, of what was measured.
func TestSummary(t *testing.T) {
	first := []run{{InputNodes: 30, Edges: 8}, {InputNodes: 50, Edges: 8}}
	got := summary("computers-sage", "labor", []run{{InputNodes: 28, Edges: 4}, {InputNodes: 32, Edges: 4}}, first)
	if q := got["input_nodes"].(quantity); q.Mean != 30 || q.Ratio != 0.75 || q.SD*q.SD < 7.99 || q.SD*q.SD > 8.01 {
		t.Errorf("input nodes: %+v", q)
	}
	if q := got["edges"]; q != (quantity{4, 0, 0.5}) {
		t.Errorf("edges: %+v", q)
	}
	if _, ok := got["exact"]; ok || got["seeds"] != 2 {
		t.Errorf("%v", got)
	}
}
