package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestComparesExactScores: peers evaluate from all neighbours, and so is what is compared
// with them.
func TestComparesExactScores(t *testing.T) {
	name := filepath.Join(t.TempDir(), "peers")
	lines := `{"peer": "graphbolt", "dataset": "fb100", "model": "sage", "test_mean": 0.74, "test_sd": 0.003, "runs": [{}, {}, {}]}
{"peer": "graphbolt", "dataset": "amazon-computers", "model": "gat", "test_mean": 0.9, "test_sd": null, "runs": [{}]}
`
	if err := os.WriteFile(name, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	peers, err := readPeers(name)
	if err != nil || len(peers) != 2 || peers["fb100-sage"] != (score{"graphbolt", 74, 0.3, 3}) || peers["computers-gat"] != (score{"graphbolt", 90, 0, 1}) {
		t.Fatalf("%+v, %v", peers, err)
	}
	b := accuracy{peers: peers}
	r := b.beside("fb100-sage", []float64{60, 60, 60}, []float64{72, 73, 74})
	difference, _ := r.number("difference_points")
	two, _ := r.number("two_standard_errors")
	if want := 2 * math.Sqrt(1./3+0.3*0.3/3); math.Abs(difference+1) > 1e-9 || math.Abs(two-want) > 1e-9 {
		t.Errorf("%v ± %v, want −1 ± %v", difference, two, want)
	}
}

func TestVariants(t *testing.T) {
	for name, want := range map[string][]string{
		"uniform":        nil,
		"labor":          {"--sampler", "labor"},
		"labor-16":       {"--sampler", "labor", "--batch-dependency", "16"},
		"labor-layer":    {"--sampler", "labor", "--layer-dependency"},
		"labor-layer-64": {"--sampler", "labor", "--layer-dependency", "--batch-dependency", "64"},
		"overlap":        {"--order", "overlap"},
		"bf16":           nil,
	} {
		if got, err := variantOf(name); err != nil || !slices.Equal(got.presample, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string][]string{"float32": nil, "bf16": {"--dtype", "bf16"}, "int8": {"--dtype", "int8"}, "int4": {"--dtype", "int4"}, "min": {"--policy", "min"}} {
		if got, err := variantOf(name); err != nil || !slices.Equal(got.pack, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "ladies", "uniform-16", "labor-", "labor-x", "labor-0", "labor16", "labor-layers"} {
		if got, err := variantOf(name); err == nil {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestOver: means over the seeds, beside the first variant's.
func TestOver(t *testing.T) {
	all := found{
		"uniform": {{{"input_nodes", 30.0}, {"edges", 8.0}, {"exact", 90.0}}, {{"input_nodes", 50.0}, {"edges", 8.0}, {"exact", 92.0}}},
		"labor":   {{{"input_nodes", 28.0}, {"edges", 4.0}, {"exact", 90.5}}, {{"input_nodes", 32.0}, {"edges", 4.0}, {"exact", 90.5}}},
	}
	sum := all.summary("labor", func(v []float64) any { return scoresOf(v) })
	if s := sum[2].value.(scores); sum[2].name != "input_nodes" || s.Mean != 30 || s.SD*s.SD < 7.99 || s.SD*s.SD > 8.01 || sum[1] != (field{"rounds", 2}) {
		t.Errorf("%+v", sum)
	}
	if s := sum[3].value.(scores); s.Mean != 4 || s.SD != 0 {
		t.Errorf("edges: %+v", s)
	}
	r := all.over("labor", "uniform")
	for name, want := range map[string]float64{"input_nodes_ratio": 0.75, "edges_ratio": 0.5, "exact_difference_points": -0.5, "exact_two_standard_errors": 2} {
		if got, ok := r.number(name); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, ok := r.number("test_difference_points"); ok {
		t.Errorf("%v", r)
	}
}
